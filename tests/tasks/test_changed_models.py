"""Searches after changes of a model: the numbers are those of the changed model."""

from __future__ import annotations

import copy
import threading
from functools import cache
from types import MethodType
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parameters_to_vector, parametrizations, prune, vector_to_parameters

import regard
from regard.attention import Additive, MultiHeadSelfAttention
from regard.building.captioners import build_captioner
from regard.building.translators import build_translation
from regard.config import SearchConfig
from regard.data.batch import END, PAD, START, Images, Tokens, pad
from regard.errors import UserError
from regard.models.ensemble import Ensemble
from regard.models.recurrent.decoders import BahdanauDecoder, LuongDecoder
from regard.models.transformer.decoder import TransformerDecoder
from regard.numerics.linear import Linear
from regard.search import Average, GoogleLength, Limits, greedy
from regard.tasks.generation import Searcher
from regard.tasks.translation.model import TranslationModel
from tests import configs
from tests.contracts.choices import EXPERTS, randomise_gates

NUM_SOURCE, NUM_TARGET = 13, 17
SMALL = dict(size=14, embedding=5, attention=dict(size=11))
TRANSFORMER = dict(size=14, heads=7, layers=2, feed_forward=11, max_positions=29)
CONVOLUTION = dict(size=14, layers=2, max_positions=29)
FAMILIES = {
    "bahdanau": configs.recurrent(**SMALL, cell="gru", wiring="bahdanau", output="deep"),
    "luong": configs.recurrent(
        **SMALL | dict(attention=dict(score="general")), feeding="attentional", output="tanh"
    ),
    "gnmt": configs.recurrent(**SMALL, layers=3, wiring="gnmt", connections="residual"),
    "fast_forward": configs.recurrent(**SMALL, layers=2, connections="fast_forward"),
    "transformer": configs.transformer(**TRANSFORMER),
    "experts": configs.transformer(**TRANSFORMER, experts=EXPERTS),
    "convolution": configs.translation("gated_convolution", "gated_convolution", **CONVOLUTION),
    "dilated": configs.translation("dilated_convolution", "dilated_convolution", size=14),
    "pointer": configs.recurrent(**SMALL, copy="pointer_generator"),
}
IDS = pad([[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]])
SOURCE = Tokens(IDS.ids, IDS.mask, copies=IDS.ids)
LIMITS = Limits(start=START, end=END, maximum=7, forbidden=(PAD, START))


@cache
def _model(family: str) -> nn.Module:
    torch.manual_seed(3)
    if family == "ensemble":
        return Ensemble([_model("bahdanau"), _model("transformer")]).eval()
    if family == "captioner":
        sizes = dict(size=12, embedding=5, layers=1, channels=(3, 6), attention=dict(size=11))
        return build_captioner(configs.captioner(**sizes), 16, NUM_TARGET).eval()
    model = build_translation(FAMILIES[family], NUM_SOURCE, NUM_TARGET).eval()
    randomise_gates(model)
    return model


def source_of(family: str) -> Tokens | Images:
    if family != "captioner":
        return SOURCE
    generator = torch.Generator().manual_seed(5)
    return Images(torch.randint(256, (3, 3, 16, 16), generator=generator, dtype=torch.uint8))


def scores(searcher: Searcher, family: str, **options) -> list[float]:
    results = searcher.search(source_of(family), LIMITS, SearchConfig(beam=1, **options))
    return [result.hypotheses[0].score for result in results]


@torch.inference_mode()
def expected(model: nn.Module, family: str) -> list[float]:
    """Return the scores of a search with the model itself."""
    penalty = SearchConfig().length_penalty
    penalty = Average() if penalty == "average" else GoogleLength(penalty)
    found = greedy(model.decoder, model.encode(source_of(family)), LIMITS, penalty)
    return [hypothesis.score for hypothesis in found]


def projection(model: nn.Module) -> nn.Module:
    """Return the last layer from features to logits; of an ensemble that of its second member."""
    decoder = model.members[1].decoder if isinstance(model, Ensemble) else model.decoder
    return getattr(decoder, "inner", decoder).projection


def every(change):
    """Return a function that changes every parameter of a model."""

    def changed(model: nn.Module) -> None:
        for weight in model.parameters():
            change(weight)

    return changed


def replaced_data(weight: nn.Parameter) -> None:
    weight.data = weight.data * 0.5


def replaced_twice(weight: nn.Parameter) -> None:
    """The second array may have the address of the first one."""
    for _ in range(2):
        weight.data = weight.data * 0.7


def in_numpy(weight: nn.Parameter) -> None:
    weight.detach().numpy()[...] *= 0.5


def a_row(model: nn.Module) -> None:
    projection(model).weight.data[5].neg_()


def two_numbers(model: nn.Module) -> None:
    weight = projection(model).bias.data
    weight[4], weight[7] = weight[7].clone() + 1, weight[4].clone() - 1


def in_place(model: nn.Module) -> None:
    with torch.no_grad():
        every(lambda weight: weight.mul_(0.5))(model)


def as_a_vector(model: nn.Module) -> None:
    vector_to_parameters(0.5 * parameters_to_vector(model.parameters()), model.parameters())


def optimised(**options):
    def changed(model: nn.Module) -> None:
        optimiser = torch.optim.SGD(model.parameters(), lr=1.0, **options)
        for weight in model.parameters():
            weight.grad = 0.5 * weight.detach()
        optimiser.step()

    return changed


def loaded(assign: bool):
    def changed(model: nn.Module) -> None:
        state = {name: 0.5 * weight for name, weight in model.state_dict().items()}
        model.load_state_dict(state, assign=assign)

    return changed


def from_a_thread(model: nn.Module) -> None:
    thread = threading.Thread(target=in_place, args=(model,))
    thread.start()
    thread.join()


def with_forward(model: nn.Module) -> None:
    layer = projection(model)
    layer.forward = MethodType(lambda self, inputs: -type(self).forward(self, inputs), layer)


def with_a_hook(model: nn.Module) -> None:
    projection(model).register_forward_hook(lambda module, inputs, output: -output)


def with_a_hook_before(model: nn.Module) -> None:
    projection(model).register_forward_pre_hook(lambda module, inputs: -inputs[0])


def normalised(model: nn.Module) -> None:
    parametrizations.weight_norm(projection(model)).parametrizations.weight.original0.data *= 0.1


def untied(model: nn.Module) -> None:
    projection(model).weight = nn.Parameter(-projection(model).weight.detach())


CHANGES = {
    "in place": in_place,
    "data": every(replaced_data),
    "data twice": every(replaced_twice),
    "data in place": every(lambda weight: weight.data.mul_(0.5)),
    "NumPy": every(in_numpy),
    "a row": a_row,
    "two numbers": two_numbers,
    "vector": as_a_vector,
    "optimiser": optimised(),
    "foreach": optimised(foreach=True),
    "fused": optimised(fused=True),
    "state": loaded(False),
    "assigned state": loaded(True),
    "apply": lambda model: model.apply(lambda part: every(lambda w: w.data.mul_(0.9))(part)),
    "thread": from_a_thread,
    "pruned": lambda model: prune.l1_unstructured(projection(model), "weight", 0.9),
    "parametrised": normalised,
    "untied": untied,
    "forward": with_forward,
    "hook": with_a_hook,
    "hook before": with_a_hook_before,
}
ALL = (*FAMILIES, "captioner", "ensemble")
CASES = [(family, name) for family in ("bahdanau", "transformer", "ensemble") for name in CHANGES]
CASES += [(family, name) for family in ALL for name in ("data in place", "a row", "hook")]


@pytest.mark.parametrize(("family", "name"), sorted(set(CASES)))
def test_the_next_search_has_the_numbers_of_the_changed_model(family: str, name: str):
    model = copy.deepcopy(_model(family))
    searcher = Searcher(model)
    before = scores(searcher, family)
    assert before == pytest.approx(expected(model, family), abs=1e-4)
    CHANGES[name](model)
    after = scores(searcher, family)
    assert after != pytest.approx(before, abs=1e-4)
    assert after == pytest.approx(expected(model, family), abs=1e-4)
    assert scores(searcher, family) == after


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
@pytest.mark.parametrize("name", ["data in place", "NumPy", "state", "untied", "hook"])
def test_copies_in_other_types_are_made_again(name: str, precision: str):
    model = copy.deepcopy(_model("transformer"))
    searcher = Searcher(model)
    before = scores(searcher, "transformer", precision=precision)
    CHANGES[name](model)
    after = scores(searcher, "transformer", precision=precision)
    assert after != before
    assert after == pytest.approx(expected(model, "transformer"), abs=0.1)


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_other_types_reject_models_whose_methods_were_replaced(precision: str):
    model = copy.deepcopy(_model("bahdanau"))
    with_forward(model)
    with pytest.raises(UserError, match=f"search.precision is {precision}, .* use float32"):
        scores(Searcher(model), "bahdanau", precision=precision)


@pytest.mark.parametrize("family", ["bahdanau", "transformer"])
def test_an_unchanged_model_is_not_frozen_again(family: str):
    searcher = Searcher(copy.deepcopy(_model(family)))
    scores(searcher, family)
    (frozen,) = searcher._frozen.values()
    scores(searcher, family)
    assert list(searcher._frozen.values()) == [frozen]


def test_dropout_in_training_is_used():
    model = copy.deepcopy(_model("bahdanau"))
    searcher = Searcher(model)
    before = scores(searcher, "bahdanau")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.5
    assert scores(searcher, "bahdanau") == pytest.approx(before, abs=1e-4)
    model.train()
    assert scores(searcher, "bahdanau") != pytest.approx(before, abs=1e-4)


def test_settings_of_a_part_are_read_again():
    model = copy.deepcopy(_model("bahdanau"))
    searcher = Searcher(model)
    before = scores(searcher, "bahdanau")
    model.decoder.attention.attention.normaliser.temperature = 9.0
    assert scores(searcher, "bahdanau") != before
    assert scores(searcher, "bahdanau") == pytest.approx(expected(model, "bahdanau"), abs=1e-4)


@pytest.mark.parametrize("family", ["bahdanau", "transformer"])
@pytest.mark.parametrize("is_private", [False, True])
def test_hooks_for_all_modules_and_replaced_classes_have_an_effect(family: str, is_private: bool):
    model = copy.deepcopy(_model(family))
    searcher = Searcher(model, is_private=is_private)
    before = scores(searcher, family)

    def negative(self: nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
        return -nn.Linear.forward(self, inputs)

    with mock.patch.object(Linear, "forward", negative):
        assert scores(searcher, family) == pytest.approx(expected(model, family), abs=1e-4)
        assert scores(searcher, family) != pytest.approx(before, abs=1e-4)
        again = Searcher(model, is_private=is_private)
        assert scores(again, family) == pytest.approx(expected(model, family), abs=1e-4)
    assert scores(searcher, family) == pytest.approx(before, abs=1e-6)
    called = []
    handle = register_module_forward_hook(lambda module, *_: called.append(module))
    try:
        scores(searcher, family)
    finally:
        handle.remove()
    assert projection(model) in called


class Recorder:
    """Object that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def hook(self, module: nn.Module, inputs: object, output: object) -> None:
        self.calls += 1


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_hooks_are_called_themselves_and_not_their_copies(precision: str):
    model, recorder = copy.deepcopy(_model("bahdanau")), Recorder()
    projection(model).register_forward_hook(recorder.hook)
    scores(Searcher(model), "bahdanau", precision=precision)
    assert recorder.calls


def test_a_loaded_model_is_compared_once_it_was_read(run):
    translator = regard.load(run)
    before = translator.translate("a b c")
    translator.translate("a b c")
    assert translator._searcher._snapshot._copies is None
    for weight in translator.model.parameters():
        weight.data.mul_(0.5)
    after = translator.translate("a b c")
    assert after.score != before.score
    expected_steps = sum(step.log_probability for step in after.trace.steps)
    (scored,) = translator.score([("a b c", after.text)])
    if after.text:
        assert scored.score == pytest.approx(expected_steps, abs=1e-4)
    assert translator._searcher._snapshot._copies is not None
    repr(regard.load(run))


def test_a_repr_leaves_a_model_private(run):
    translator = TranslationModel.load(run)
    assert "parameters" in repr(translator)
    assert translator._searcher._is_private


@pytest.mark.parametrize("is_private", [False, True])
@pytest.mark.parametrize(
    ("family", "kind", "name"),
    [
        ("bahdanau", BahdanauDecoder, "step"),
        ("bahdanau", Additive, "prepare"),
        ("luong", LuongDecoder, "project"),
        ("transformer", TransformerDecoder, "step"),
        ("transformer", MultiHeadSelfAttention, "project"),
    ],
)
def test_a_method_that_replaces_one_of_a_class_is_called_by_the_next_search(
    family: str, kind: type, name: str, is_private: bool
):
    searcher = Searcher(copy.deepcopy(_model(family)), is_private=is_private)
    before, method, calls = scores(searcher, family), getattr(kind, name), []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        return method(*arguments, **options)

    with mock.patch.object(kind, name, counted):
        assert scores(searcher, family) == pytest.approx(before, abs=1e-4)
        assert calls
    assert scores(searcher, family) == before
