"""Accelerated classes against their formulas: outputs, gradients, and every way to use a model.

Exports, traces and torch.compile of attention are in tests/attention/test_other_programs.py."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import regard
from regard.attention import Additive, Attention, Concat, Dot, General, ScaledDot, SharedAdditive
from regard.building.translators import build_translation
from regard.compiled import accelerate, freeze
from regard.compiled.accelerate import accelerated
from regard.compiled.exact import formula_of
from regard.data.batch import START, pad
from regard.layers.recurrent.fast_forward_stack import FastForwardStack
from regard.layers.recurrent.residual_stack import ResidualStack
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.recurrent.feeding import ContextFeeding
from regard.models.recurrent.parts import DecoderParts
from regard.tasks.translation.model import TranslationModel
from tests import configs
from tests.forms import twins
from tests.messages import check_message

ROOT = Path(__file__).parents[2]
SOURCE = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]]
INPUTS = torch.tensor([[START, 4, 5, 6], [START, 7, 8, 16], [START, 9, 15, 3]])
SIZES = configs.recurrent(size=7, embedding=5, cell="gru", attention=dict(size=11))


class Contexts(nn.Module):
    """Attention of queries, keys and values to one tensor."""

    def __init__(self, score: nn.Module) -> None:
        super().__init__()
        self.attention = Attention(score)

    def forward(self, queries, keys, values, mask):
        prepared = self.attention.prepare(keys)
        shown = self.attention(queries, prepared, values, mask, need_weights=True)
        fast = self.attention(queries, prepared, values, mask)
        return torch.cat([fast.context, shown.context, shown.weights, shown.scores], dim=-1)


class Features(nn.Module):
    """Features of all target positions, and the attention weights of decoders that have them."""

    def __init__(self, **changes) -> None:
        super().__init__()
        self.model = build_translation(configs.changed(SIZES, **changes), 13, 17)

    def forward(self, inputs):
        memories = self.model.encode(pad(SOURCE))
        shown = self.model.decoder(inputs, memories, need_weights=True)
        fast = self.model.decoder(inputs, memories)
        weights = [block.weights.flatten() for block in shown.attention]
        return torch.cat([fast.features.flatten(), shown.features.flatten(), *weights])


class States(nn.Module):
    """Outputs of a stack for whole sequences, for positions from a state, and for a step."""

    def __init__(self, stack: type[nn.Module], kind: str, *, bidirectional: bool) -> None:
        super().__init__()
        self.stack = stack(kind, 5, 6, 3, bidirectional=bidirectional)
        self.bidirectional = bidirectional

    def forward(self, inputs, mask):
        outputs = [self.stack.encode(inputs, mask)]
        if not self.bidirectional:
            state = torch.full((len(inputs), 3, 6), 0.3, dtype=inputs.dtype)
            cell = state.clone() if self.stack.kind == "lstm" else None
            outputs.append(self.stack(inputs, state, cell))
            outputs.append(self.stack.step(inputs[:, 0], state, cell))
        return torch.cat(
            [x.float().flatten() for output in outputs for x in (*output.outputs, output.hidden)]
        )


SCORES = {
    "additive": lambda: Additive(5, 5, 11),
    "concat": lambda: Concat(5, 5, 11),
    "shared_additive": lambda: SharedAdditive(5, 11),
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": lambda: General(5, 5),
}
DECODERS = {
    "bahdanau": dict(wiring="bahdanau", layers=2),
    "bahdanau, residual": dict(
        wiring="bahdanau", layers=3, connections="residual", query="first_layer"
    ),
    "bahdanau, fast forward": dict(
        wiring="bahdanau", layers=2, connections="fast_forward", query="first_layer"
    ),
    "luong": dict(wiring="luong", feeding="context"),
    "gnmt": dict(wiring="gnmt", layers=3, connections="residual", query="first_layer"),
}
STACKS = {
    f"{stack.__name__} {kind} {bidirectional}": (stack, kind, bidirectional)
    for stack in (RecurrentStack, ResidualStack, FastForwardStack)
    for kind, bidirectional in (("elman", True), ("gru", False), ("lstm", False))
}
NAMES = [*SCORES, *DECODERS, *STACKS]


def make(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return an accelerated module and its inputs."""
    torch.manual_seed(3)
    if name in DECODERS:
        return Features(**DECODERS[name]).eval(), (INPUTS,)
    if name in STACKS:
        stack, kind, bidirectional = STACKS[name]
        module = States(stack, kind, bidirectional=bidirectional)
        regard.accelerate(module)
        mask = torch.arange(7) < torch.tensor([7, 4])[:, None]
        return module.eval(), (torch.randn(2, 7, 5, requires_grad=True), mask)
    module = Contexts(SCORES[name]())
    regard.accelerate(module)
    mask = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])[:, None]
    shapes = (2, 3, 5), (2, 7, 5), (2, 7, 6)
    return module.eval(), (*(torch.randn(shape, requires_grad=True) for shape in shapes), mask)


def results(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Return the output, and the gradients of all inputs and parameters."""
    output = module(*inputs)
    leaves = [x for x in (*inputs, *module.parameters()) if x.requires_grad]
    gradients = torch.autograd.grad(output.float().sin().sum(), leaves, allow_unused=True)
    return [output, *(torch.zeros(()) if x is None else x for x in gradients)]


def assert_equal(ours, formulas, tolerance=1e-5):
    for one, other in zip(ours, formulas, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_every_accelerated_class_has_the_name_of_its_formula():
    for formula, twin in twins().items():
        assert issubclass(twin, formula)
        assert formula_of(twin) is formula
        assert twin.__name__ == formula.__name__


@pytest.mark.parametrize(
    ("formula", "accelerated"), [*accelerate.MODULES.items(), *freeze.MODULES.items()]
)
def test_every_formula_names_its_accelerated_class_and_the_test(formula, accelerated):
    if formula == accelerated:
        return  # a module that is frozen again
    text = import_module(formula).__doc__
    path = accelerated.removeprefix("regard.").replace(".", "/")
    (test,) = re.findall(rf"`{path}\.py`,\s+equal\s+in\s+(tests/[\w/]+\.py)", text)
    assert (ROOT / test).is_file()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["gradients", "no_grad", "inference", "autocast", "double"])
def test_accelerated_results_equal_the_formula(name, way):
    if way == "autocast" and "lstm" in name:
        pytest.skip("PyTorch has no bfloat16 LSTM on some CPUs")
    module, inputs = make(name)
    if way == "double":
        module = module.double()
        inputs = tuple(
            x.detach().double().requires_grad_() if x.is_floating_point() else x for x in inputs
        )
    if way in ("no_grad", "inference"):

        def compute():
            with torch.no_grad() if way == "no_grad" else torch.inference_mode():
                return [module(*inputs)]
    else:

        def compute():
            with torch.autocast("cpu", enabled=way == "autocast"):
                return results(module, inputs)

    ours = compute()
    with regard.plain():
        formulas = compute()
    assert_equal(ours, formulas, {"autocast": 6e-2, "double": 1e-9}.get(way, 2e-5))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"]
)
def test_copies_are_accelerated_and_equal(name, copied):
    module, inputs = make(name)
    again = copied(module)
    assert list(map(type, again.modules())) == list(map(type, module.modules()))
    assert_equal(results(again, inputs)[:1], results(module, inputs)[:1], 0)


@pytest.fixture(scope="module")
def processes():
    """Start the communication of one process with itself."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("processes", "unchecked")
@pytest.mark.parametrize(
    ("way", "name"),
    [*product(["ddp", "fully_shard"], NAMES), ("compile", "RecurrentStack gru False")],
)
def test_wrapped_modules_equal_the_formula(way, name):
    torch._dynamo.reset()
    module, inputs = make(name)
    with regard.plain():
        formulas = results(module, inputs)
    if way == "fully_shard":
        ours = results(fully_shard(module, mesh=init_device_mesh("cpu", (1,))), inputs)
        ours = [x.full_tensor() if isinstance(x, DTensor) else x for x in ours]
    else:
        wrap = (
            nn.parallel.DistributedDataParallel
            if way == "ddp"
            else partial(torch.compile, backend="eager")
        )
        has_parameters = any(True for _ in module.parameters())
        ours = results(wrap(module) if has_parameters else module, inputs)
    assert_equal(ours, formulas, 2e-5)


def test_parameters_and_optimisers_are_those_of_before():
    torch.manual_seed(3)
    module = Contexts(Additive(5, 5, 11))
    parameters, states = list(module.parameters()), module.state_dict()
    attention = module.attention
    record = regard.accelerate(module)
    assert module.attention is attention
    assert all(map(torch.Tensor.is_set_to, module.parameters(), parameters))
    assert module.state_dict().keys() == states.keys()
    assert record.replaced == ("attention (Attention)", "attention.score (Additive)")
    assert record.left == ()
    assert regard.accelerate(module).replaced == ()


def test_subclasses_and_changed_modules_are_left_with_the_reason():
    class Halved(Additive):
        def forward(self, queries, prepared):
            return 0.5 * super().forward(queries, prepared)

    hooked = Additive(5, 5, 11)
    hooked.register_forward_hook(lambda *arguments: None)
    model = nn.ModuleList([Halved(5, 5, 11), hooked, nn.Linear(3, 3)])
    record = regard.accelerate(model)
    assert record.replaced == ()
    assert record.left == (
        ("0 (Halved)", "is a subclass of Additive"),
        ("1 (Additive)", "has hooks or methods of its own"),
    )
    check_message(str(record).splitlines()[0])


def test_the_record_of_a_built_model_says_that_formulas_run(caplog):
    caplog.set_level("DEBUG", "regard")
    accelerated(nn.Sequential(Additive(3, 3, 2)))
    with regard.plain():
        accelerated(nn.Sequential(Additive(3, 3, 2)))
    assert caplog.messages == ["accelerated: 0 (Additive)", "by formulas: all modules (--plain)"]


@pytest.mark.parametrize("name", DECODERS)
def test_all_steps_of_a_decoder_are_one_operator(name):
    module, inputs = make(name)
    called = functions_of(lambda: module(*inputs))
    assert ("regard/compiled/recurrent/fused_loop.py", "run") in called
    assert not {name for file, name in called if "models/recurrent" in file} & {"step", "unroll"}


class DoubledFeeding(ContextFeeding):
    def __call__(self, context, features):
        return 2 * context


class DoubledParts(DecoderParts):
    def advance(self, inputs, state):
        return super().advance(2 * inputs, state)


def doubled(method):
    """Return a method that doubles its first argument."""
    return lambda numbers, *arguments: method(2 * numbers, *arguments)


def replace_feeding(decoder):
    decoder.feeding = DoubledFeeding(decoder.feeding.size)


def replace_parts(decoder):
    decoder.parts.__class__ = DoubledParts


def replace_advance(decoder):
    decoder.parts.advance = doubled(decoder.parts.advance)


def replace_stack_step(decoder):
    decoder.parts.stack.step = doubled(decoder.parts.stack.step)


def replace_projection(decoder):
    score = decoder.attention.attention.score
    score.project_queries = doubled(score.project_queries)


def replace_step(decoder):
    step = decoder.step

    def tripled(tokens, state, *, need_weights=False):
        output, state = step(tokens, state, need_weights=need_weights)
        return replace(output, features=3 * output.features), state

    decoder.step = tripled


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("luong", replace_feeding),
        *product(
            ["bahdanau", "bahdanau, residual", "luong", "gnmt"],
            [
                replace_parts,
                replace_advance,
                replace_stack_step,
                replace_projection,
                replace_step,
            ],
        ),
    ],
)
def test_changed_parts_of_a_decoder_have_an_effect(name, change):
    module, inputs = make(name)
    before = module(*inputs)
    change(module.model.decoder)
    with regard.plain():
        formula = module(*inputs)
    assert_equal([module(*inputs)], [formula])
    assert not torch.allclose(before, formula, atol=1e-4)


@pytest.mark.parametrize("name", ["additive", "bahdanau", "luong"])
@pytest.mark.parametrize("form", ["plain", "hook"])
def test_hooks_and_breakpoints_of_the_score_are_reached(name, form):
    """All steps call the formula, where a breakpoint in `Additive.forward` stops."""
    module, inputs = make(name)
    (score,) = (x for x in module.modules() if isinstance(x, Additive))
    calls = []
    if form == "hook":
        score.register_forward_hook(lambda *arguments: calls.append(1))
    else:
        score.query.register_forward_hook(lambda *arguments: calls.append(1))
    with regard.plain() if form == "plain" else nullcontext():
        module(*inputs)
    assert len(calls) == 2 * (1 if name == "additive" else INPUTS.size(1))


def test_every_way_to_run_a_loaded_model_reaches_the_formulas(run):
    """The functions where breakpoints in the score, the step and the softmax stop are called."""
    model = TranslationModel.load(run)
    text = model.translate("a b", attention=False).text  # makes the frozen copy
    for compute in (
        lambda: model.translate("a b"),
        lambda: model.translate("a b", attention=False),
        lambda: model.score([("a b", text)]),
    ):
        with regard.plain():
            called = functions_of(compute)
        assert {
            ("regard/attention/scores.py", "forward"),
            ("regard/models/recurrent/decoders.py", "step"),
            ("regard/attention/normalisers.py", "__call__"),
        } <= called


def functions_of(compute) -> set[tuple[str, str]]:
    """Return file and name of the package's functions that a call runs."""
    called = set()
    sys.setprofile(lambda frame, *_: called.add((frame.f_code.co_filename, frame.f_code.co_name)))
    try:
        compute()
    finally:
        sys.setprofile(None)
    return {(file.split("/src/")[-1], name) for file, name in called}
