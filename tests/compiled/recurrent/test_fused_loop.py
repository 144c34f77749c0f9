"""The loop as one operator, compared with the loop step by step."""

from dataclasses import replace
from typing import get_args
from unittest import mock

import pytest
import torch
from torch.autograd import gradcheck
from torch.library import opcheck

from regard.attention import Softmax
from regard.building.translators import build_translation
from regard.compiled.recurrent import fused_loop, unrolling
from regard.compiled.recurrent.fused_loop import Loop, run
from regard.data.batch import START, pad
from regard.models.recurrent.attention import GatedAttention
from regard.models.recurrent.unrolling import unroll
from regard.names import CellKind
from regard.numerics.linear import Linear
from tests import configs

SOURCE = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]]
INPUTS = torch.tensor([[START, 4, 5, 6], [START, 7, 8, 16], [START, 9, 15, 3]])
WIRINGS = [("bahdanau", "none"), ("luong", "context")]
SIZES = configs.recurrent(size=7, embedding=5, attention=dict(size=11, temperature=0.7))


def make(**changes):
    torch.manual_seed(3)
    return build_translation(configs.changed(SIZES, **changes), 13, 17)


def is_fused(model):
    """Whether one operator computes all steps of a target, or of its lowest layer."""
    with mock.patch.object(unrolling, "run", wraps=unrolling.run) as operator:
        model.decoder(INPUTS, model.encode(pad(SOURCE)))
    return operator.called


def features_and_gradients(model, read):
    """Return the features that `read` computes, and the gradients of all parameters."""
    features = read(model.encode(pad(SOURCE))).features
    parameters = dict(model.named_parameters())
    gradients = torch.autograd.grad(
        features.sin().sum(), list(parameters.values()), allow_unused=True
    )
    return features.detach(), dict(zip(parameters, gradients, strict=True))


def at_once(model):
    return features_and_gradients(model, lambda memories: model.decoder(INPUTS, memories))


def stepwise(model):
    decoder = model.decoder
    return features_and_gradients(
        model, lambda memories: unroll(decoder, INPUTS, decoder.start(memories), need_weights=False)
    )


def gated(model):
    """Add a gate to the attention of a model."""
    model.decoder.attention = GatedAttention(model.decoder.attention, SIZES.size)
    return model


@pytest.mark.parametrize("cell", get_args(CellKind))
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(("wiring", "feeding"), WIRINGS)
@pytest.mark.parametrize("score", ["additive", "concat", "shared_additive"])
def test_outputs_and_gradients_equal_unrolled_steps(cell, layers, wiring, feeding, score):
    attention = dict(score=score)
    model = make(cell=cell, layers=layers, wiring=wiring, feeding=feeding, attention=attention)
    model = model.double().eval()
    assert is_fused(model)
    torch.testing.assert_close(at_once(model), stepwise(model), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("wiring", "feeding"), WIRINGS)
def test_gate_and_attention_equal_those_of_unrolled_steps(wiring, feeding):
    """Weights have gradients too, for penalties."""
    model = gated(make(wiring=wiring, feeding=feeding, dropout=0.0)).double().eval()
    assert is_fused(model)
    torch.testing.assert_close(at_once(model), stepwise(model), rtol=1e-9, atol=1e-12)
    computed = []
    for read in (
        lambda *problem_inputs: model.decoder(*problem_inputs, need_weights=True),
        slowly(model.decoder),
    ):
        output = read(INPUTS, model.encode(pad(SOURCE)))
        (block,) = output.attention
        loss = output.features.sum() + block.weights.square().sum()
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        computed.append((output.features, block.weights, block.scores, gradients))
    torch.testing.assert_close(*computed, rtol=1e-9, atol=1e-12)


def slowly(decoder):
    def read(inputs, memories):
        return unroll(decoder, inputs, decoder.start(memories), need_weights=True)

    return read


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_float32_differs_by_rounding_only(cell):
    model = make(cell=cell, layers=2)
    model.eval()
    torch.testing.assert_close(at_once(model), stepwise(model), rtol=1e-4, atol=1e-5)


def test_unsupported_decoders_are_unrolled():
    for changes in (
        dict(attention=dict(normaliser="sparsemax")),
        dict(attention=dict(score="general")),
        dict(wiring="luong", feeding="attentional", output="tanh"),
        dict(wiring="luong", feeding="none"),
    ):
        assert not is_fused(make(**{"wiring": "bahdanau", **changes}))


class Scaled(Linear):
    def forward(self, inputs):
        return 3 * super().forward(inputs)


def scale_queries(model):
    model.decoder.attention.attention.score.query = Scaled(SIZES.size, 11, bias=False)


def sharpen(model):
    class Sharp(Softmax):
        def __call__(self, scores, mask):
            return super().__call__(20 * scores, mask)

    model.decoder.attention.attention.normaliser = Sharp()


def watch(choose):
    return lambda model: choose(model.decoder).register_forward_hook(lambda *arguments: None)


@pytest.mark.parametrize(
    "change",
    [
        scale_queries,
        sharpen,
        watch(lambda decoder: decoder.attention),
        watch(lambda decoder: decoder.attention.attention),
        watch(lambda decoder: decoder.attention.attention.score.query),
        watch(lambda decoder: decoder.attention.query),
        watch(lambda decoder: decoder.parts.stack),
        watch(lambda decoder: decoder.parts.stack.layers[0]),
    ],
)
def test_decoders_with_replaced_parts_are_unrolled(change):
    model = make(wiring="bahdanau").double().eval()
    assert is_fused(model)
    change(model.double())
    model.double()
    assert not is_fused(model)
    torch.testing.assert_close(at_once(model), stepwise(model), rtol=1e-9, atol=1e-12)


def make_loop(kind="gru", layers=2, attend_first=True, mask=True, gate=True):
    """Return a loop with all arguments, in float64 and with gradients."""
    torch.manual_seed(5)
    batch, target, source, size, value, hidden = 2, 3, 5, 3, 2, 4
    gates = {"elman": 1, "gru": 3, "lstm": 4}[kind] * hidden

    def number(*shape):
        return torch.randn(*shape, dtype=torch.double, requires_grad=True)

    weights = [number(gates, hidden), number(gates)]
    for _ in range(layers - 1):
        weights += [number(gates, hidden), number(gates), number(gates, hidden), number(gates)]
    return Loop(
        number(batch, target, gates),
        number(batch, layers, hidden),
        number(batch, layers, hidden) if kind == "lstm" else None,
        number(batch, source, size),
        number(batch, source, value),
        number(size),
        number(size, hidden),
        number(gates, value),
        number(1, hidden) if gate else None,
        number(1) if gate else None,
        weights,
        torch.tensor([[[True] * 5], [[True, True, False, True, False]]]) if mask else None,
        torch.rand(batch, target, source).double() * 2,
        torch.rand(target, layers - 1, batch, hidden).double() * 2 if layers > 1 else None,
        0.7,
        kind,
        attend_first,
    )


@pytest.mark.parametrize("kind", get_args(CellKind))
@pytest.mark.parametrize("attend_first", [False, True])
def test_gradients_are_those_of_finite_differences_with_dropout(kind, attend_first):
    loop = make_loop(kind, attend_first=attend_first)
    names = [name for name, x in vars(loop).items() if getattr(x, "requires_grad", False)]

    def everything(*numbers):
        problem_inputs = dict(zip(names, numbers, strict=False))
        computed = run(replace(loop, **problem_inputs, parameters=list(numbers[len(names) :])))
        return computed.top, computed.contexts, computed.weights

    numbers = (*(getattr(loop, name) for name in names), *loop.parameters)
    assert gradcheck(everything, numbers, fast_mode=True)


@pytest.mark.parametrize("kind", get_args(CellKind))
def test_the_operator_passes_torchs_opcheck(kind):
    for layers in (1, 2):
        several = layers == 2
        arguments = tuple(vars(make_loop(kind, layers, mask=several, gate=several)).values())
        opcheck(fused_loop._run, arguments)


def test_each_output_alone_passes_its_gradient():
    loop = make_loop()
    for wanted in ("top", "contexts", "weights"):
        computed = run(loop)
        (alone,) = torch.autograd.grad(getattr(computed, wanted).sum(), [loop.keys])
        assert alone.any()


def test_a_mask_on_another_device_is_rejected():
    loop = make_loop()
    with pytest.raises(ValueError, match="mask: expected cpu, got meta"):
        run(replace(loop, mask=loop.mask.to("meta")))


def test_a_second_derivative_is_rejected_with_a_message():
    loop = make_loop()
    (gradient,) = torch.autograd.grad(
        run(loop).top.square().sum(), [loop.hidden], create_graph=True
    )
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        gradient.sum().backward()


def test_dropout_differs_between_calls_in_training_only():
    model = make(layers=2, dropout=0.5, attention=dict(dropout=0.5))
    memories = model.eval().encode(pad(SOURCE))
    calm = model.decoder(INPUTS, memories).features
    assert torch.equal(model.decoder(INPUTS, memories).features, calm)
    model.train()
    assert not torch.equal(
        model.decoder(INPUTS, memories).features, model.decoder(INPUTS, memories).features
    )


def test_padding_may_have_any_value():
    loop = make_loop()
    hidden = ~loop.mask[:, 0, :, None]
    dirty = replace(
        loop,
        keys=torch.where(hidden, torch.nan, loop.keys.detach()).requires_grad_(),
        values=torch.where(hidden, torch.nan, loop.values.detach()).requires_grad_(),
    )
    results = []
    for problem_inputs in (loop, dirty):
        computed = run(problem_inputs)
        leaves = [
            problem_inputs.keys,
            problem_inputs.values,
            problem_inputs.hidden,
            problem_inputs.vector,
        ]
        results.append(
            (
                computed.top,
                *torch.autograd.grad((computed.top + 0).sum() + computed.contexts.sum(), leaves),
            )
        )
    for clean, other in zip(*results, strict=True):
        torch.testing.assert_close(other, clean)


def test_mixed_precision_runs_in_float32():
    model = make(wiring="bahdanau").eval()
    exact = model.decoder(INPUTS, model.encode(pad(SOURCE))).features
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model.decoder(INPUTS, model.encode(pad(SOURCE))).features
    torch.testing.assert_close(mixed.float(), exact, rtol=0.05, atol=0.05)
    mixed.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("attend_first", [False, True])
def test_forward_and_backward_do_not_synchronise(attend_first):
    """Tensors of the device "meta" have no numbers, so a step that waits for a GPU raises."""
    loop = make_loop("gru", 2, attend_first)

    def moved(value):
        if isinstance(value, list):
            return [moved(x) for x in value]
        return value.detach().to("meta") if isinstance(value, torch.Tensor) else value

    there = Loop(*map(moved, vars(loop).values()))
    with torch.no_grad():
        result = fused_loop.LoopRun(*fused_loop._forward(there))
    backward = fused_loop._Backward(there, result, None, None)
    assert len(backward.run(torch.empty_like(result.top))) > 10
