"""Recurrent models with experts between the last two layers of encoder and decoder."""

import pytest
import torch

from regard.building.classifiers import build_classifier
from regard.building.translators import build_translation
from regard.config import ExpertsConfig
from regard.data.batch import PAD, START, pad, pair_batch
from regard.data.special_tokens import END
from regard.errors import UserError
from regard.exporting import onnx_recurrent
from regard.models.recurrent.unrolling import unroll
from tests import configs
from tests.contracts.choices import EXPERTS, randomise_gates
from tests.messages import raises

DEEP = dict(size=14, embedding=5, connections="residual", experts=EXPERTS)
ONE_CALL = [
    dict(wiring="gnmt", layers=2, query="first_layer"),
    dict(wiring="gnmt", layers=3, query="first_layer"),
    dict(wiring="bahdanau", layers=3, query="first_layer"),
    dict(wiring="luong", layers=2),
    dict(wiring="plain", layers=3),
]
"""Decoders that compute the experts of all positions in one call."""
SOURCES = [[4, 5, 6, 7, 8], [9, 10], [11, 12]]
TARGETS = [[4, 5, END], [6, 7, 8, 9, END], [10, END]]


def build(**values):
    torch.manual_seed(3)
    config = configs.recurrent(**{**DEEP, "layers": 2, **values})
    model = build_translation(config, 13, 17).double()
    randomise_gates(model)
    return model


def batch():
    return pair_batch(SOURCES, TARGETS)


def one_by_one(decoder, inputs, memories, *, need_weights=False):
    return unroll(decoder, inputs, decoder.start(memories), need_weights=need_weights)


@pytest.mark.parametrize("values", ONE_CALL, ids=str)
def test_all_steps_together_equal_single_steps(values, monkeypatch):
    """Without noise, features, gate values, both terms of the loss and the load are equal."""
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    model = build(**values)
    decoder, memories = model.decoder, model.encode(batch().source)
    whole = decoder(batch().inputs, memories, need_weights=True)
    monkeypatch.setattr(type(decoder.inner), "forward", one_by_one)
    steps = decoder(batch().inputs, memories, need_weights=True)
    torch.testing.assert_close(whole.features[batch().mask], steps.features[batch().mask])
    assert [term.name for term in whole.penalties] == ["importance", "load"]
    assert [measure.name for measure in whole.measures] == ["decoder_load"]
    for ours, other in zip(
        (*whole.penalties, *whole.measures), (*steps.penalties, *steps.measures), strict=True
    ):
        assert ours.name == other.name
        torch.testing.assert_close(ours.value, other.value)
    assert whole.attention[-1].kind == "decoder_experts"
    for ours, other in zip(whole.attention, steps.attention, strict=True):
        assert ours.kind == other.kind
        torch.testing.assert_close(ours.weights, other.weights)


def test_a_fed_decoder_has_one_term_for_all_steps():
    model = build(wiring="luong", feeding="attentional")
    output = model(batch())
    assert [term.name for term in output.penalties] == ["importance", "load"] * 2
    assert [measure.name for measure in output.measures] == ["encoder_load", "decoder_load"]
    sum(term.value for term in output.penalties).backward()
    for side in (model.encoder.inner.stack, model.decoder.inner.parts.stack):
        assert side.experts.gate.noise.grad.abs().sum() > 0
    model.eval()
    output = model(batch())
    assert (output.penalties, output.measures) == ((), ())


@pytest.mark.parametrize("feeding", ["none", "context"])
def test_padding_of_a_target_has_no_experts(feeding):
    model = build(wiring="luong", feeding=feeding).eval()
    output = model.decoder(batch().inputs, model.encode(batch().source), need_weights=True)
    weights = output.attention[-1].weights[:, 0, 0]
    real = batch().mask
    assert not real.all()
    torch.testing.assert_close(weights.sum(dim=-1), real.double())


def test_classifiers_have_the_terms_of_their_encoder():
    torch.manual_seed(3)
    sizes = {**DEEP, "layers": 2, "bidirectional": True}
    classifier = build_classifier(configs.classifier("recurrent", "mean", **sizes), 13, 0, 3)
    output = classifier(pad([[4, 5, 6], [7]]), need_weights=True)
    assert [term.name for term in output.penalties] == ["importance", "load"]
    assert [measure.name for measure in output.measures] == ["encoder_load"]
    assert "encoder_experts" in [block.kind for block in output.attention]


@pytest.mark.parametrize(
    "values",
    [
        dict(connections="none"),
        dict(connections="fast_forward"),
        dict(layers=1),
    ],
    ids=str,
)
def test_experts_need_two_layers_and_residual_connections(values):
    with raises(UserError, "model.encoder.experts.number"):
        build(**values)


def test_experts_have_four_times_the_size_by_default():
    values = {**DEEP, "experts": ExpertsConfig(number=3, active=2)}
    config = configs.recurrent(**{**values, "layers": 2}).resolve()
    assert (config.encoder.experts.size, config.decoder.experts.size) == (28, 28)


def test_onnx_names_the_experts():
    with raises(UserError):
        onnx_recurrent.export_recurrent(build(wiring="luong"))


def test_a_step_of_padding_alone_is_finite():
    model = build(wiring="luong")
    state = model.decoder.start(model.encode(batch().source))
    rows = []
    gate = model.decoder.inner.parts.stack.experts.gate
    gate.register_forward_hook(lambda _, inputs, choice: rows.append(len(inputs[0])))
    output, _ = model.decoder.step(torch.full((3, 1), PAD), state)
    assert output.features.isfinite().all()
    model.decoder.step(torch.full((3, 1), START), state)
    assert rows == [0, 3]
