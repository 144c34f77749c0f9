"""Residual stacks compared with a loop over positions and layers in float64."""

import copy

import numpy as np
import pytest
import torch

from regard import kernels
from regard.compiled.freeze import freeze
from regard.layers.recurrent.residual_stack import ResidualStack
from regard.layers.recurrent.stack import RecurrentStack
from tests.messages import raises
from tests.oracles import recurrent as oracle

KINDS = ("elman", "gru", "lstm")
every_kind = pytest.mark.parametrize("kind", KINDS)
LENGTHS = (7, 2, 5)
MASK = torch.arange(7) < torch.tensor(LENGTHS)[:, None]


def build(kind, *, bidirectional=False, shared_size=0, num_layers=5):
    torch.manual_seed(2)
    return ResidualStack(
        *(kind, 3, 11, num_layers), bidirectional=bidirectional, shared_size=shared_size
    ).double()


def weights_of(stack):
    """Return the weights of each direction of each layer."""
    return [
        [
            oracle.of_layer(layer, stack.kind, backwards=backwards)
            for backwards in ((False, True) if layer.bidirectional else (False,))
        ]
        for layer in stack.layers
    ]


def state(stack, batch=3):
    """Return a first state, and the same for the oracle's loop over each sequence."""
    hidden = torch.randn(batch, stack.num_layers, stack.hidden_size, dtype=torch.double)
    cell = torch.randn_like(hidden) if stack.kind == "lstm" else None
    rows = [
        [oracle.State(h.numpy(), c.numpy()) for h, c in zip(hs, cs, strict=True)]
        for hs, cs in zip(hidden, hidden if cell is None else cell, strict=True)
    ]
    return (hidden, cell), rows


@pytest.mark.parametrize("bidirectional", [False, True])
@every_kind
@torch.no_grad()
def test_whole_sequences_equal_the_loop(kind, bidirectional):
    stack = build(kind, bidirectional=bidirectional)
    inputs = torch.randn(3, 7, 3, dtype=torch.double)
    output = stack.encode(inputs, MASK, LENGTHS)
    assert [x.size(-1) for x in output.outputs] == [22 if bidirectional else 11, 11, 11, 11, 11]
    for row, length in enumerate(LENGTHS):
        layers, ends = oracle.residual(weights_of(stack), inputs[row, :length].numpy())
        for ours, expected in zip(output.outputs, layers, strict=True):
            np.testing.assert_allclose(ours[row, :length], expected, atol=1e-12)
            assert ours[row, length:].eq(0).all()
        ends = ends[bidirectional:]
        np.testing.assert_allclose(output.hidden[row], [end.hidden for end in ends], atol=1e-12)
        if kind == "lstm":
            np.testing.assert_allclose(output.cell[row], [end.cell for end in ends], atol=1e-12)
        else:
            assert output.cell is None


@pytest.mark.parametrize("shared_size", [0, 2])
@every_kind
@torch.no_grad()
def test_positions_from_a_state_and_steps_equal_the_loop(kind, shared_size):
    stack = build(kind, shared_size=shared_size)
    (hidden, cell), rows = state(stack)
    inputs = torch.randn(3, 7, 3, dtype=torch.double)
    whole = stack(inputs, hidden, cell)
    for row, first in enumerate(rows):
        extra = inputs[row, :, 3 - shared_size :].numpy()
        layers, ends = oracle.residual(weights_of(stack), inputs[row].numpy(), extra, first)
        for ours, expected in zip(whole.outputs, layers, strict=True):
            np.testing.assert_allclose(ours[row], expected, atol=1e-12)
        np.testing.assert_allclose(whole.hidden[row], [end.hidden for end in ends], atol=1e-12)
    for position in range(7):
        step = stack.step(inputs[:, position], hidden, cell)
        for ours, expected in zip(step.outputs, whole.outputs, strict=True):
            torch.testing.assert_close(ours[:, 0], expected[:, position])
        hidden, cell = step.hidden, step.cell


@every_kind
@torch.no_grad()
def test_layers_without_weights_pass_their_input_on(kind):
    """The states of such layers are zeros, so that only the residual connections remain."""
    stack = build(kind)
    for layer in stack.layers[2:]:
        for weight in layer.parameters():
            weight.zero_()
    outputs = stack.encode(torch.randn(3, 7, 3, dtype=torch.double), MASK).outputs
    assert outputs[1].abs().sum() > 0
    for output in outputs[2:]:
        torch.testing.assert_close(output, outputs[1])


@every_kind
def test_dropout_is_not_on_the_residual_connection(kind):
    torch.manual_seed(4)
    stack = ResidualStack(kind, 3, 11, 3, dropout=1.0)
    for weight in stack.layers[2].parameters():
        torch.nn.init.zeros_(weight)
    outputs = stack.encode(torch.randn(3, 7, 3), MASK).outputs
    torch.testing.assert_close(outputs[2], outputs[1])


def computed(stack, inputs, run):
    """Return results and gradients of all parameters."""
    inputs = inputs.clone().requires_grad_()
    output = run(stack, inputs)
    results = [*output.outputs, output.hidden, *([] if output.cell is None else [output.cell])]
    total = sum(result.double().square().sum() for result in results)
    gradients = torch.autograd.grad(total, [inputs, *stack.parameters()])
    return [each.detach().double() for each in (*results, *gradients)]


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize("bidirectional", [False, True])
@every_kind
def test_kernels_and_torch_give_the_same_numbers_and_gradients(kind, bidirectional):
    precise = build(kind, bidirectional=bidirectional, shared_size=0 if bidirectional else 2)
    inputs = torch.randn(3, 7, 3, dtype=torch.double)
    (hidden, cell), _ = state(precise)

    def run(stack, inputs):
        if bidirectional:
            return stack.encode(inputs, MASK)
        rest = (x if x is None else x.to(inputs.dtype) for x in (hidden, cell))
        return stack(inputs, *rest)

    expected = computed(precise, inputs, run)
    ours = computed(copy.deepcopy(precise).float(), inputs.float(), run)
    for result, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(result, other, rtol=1e-4, atol=1e-4)


@every_kind
@torch.no_grad()
def test_frozen_steps_equal_those_of_the_model(kind):
    stack = build(kind, shared_size=2).float().eval()
    hidden = torch.randn(3, 5, 11)
    cell = torch.randn(3, 5, 11) if kind == "lstm" else None
    arguments = torch.randn(3, 3), hidden, cell
    ours, expected = freeze(stack).step(*arguments), stack.step(*arguments)
    torch.testing.assert_close(ours.outputs[-1], expected.outputs[-1])


@every_kind
@torch.no_grad()
def test_layers_with_hooks_are_called(kind):
    stack, calls = build(kind), []
    stack.layers[3].register_forward_hook(lambda *_: calls.append(kind))
    (hidden, cell), _ = state(stack)
    stack.step(torch.randn(3, 3, dtype=torch.double), hidden, cell)
    assert calls == [kind]


def test_impossible_arguments_are_rejected():
    stack, inputs, hidden = build("gru"), torch.zeros(3, 7, 3), torch.zeros(3, 5, 11)
    with pytest.raises(ValueError, match="two directions has no steps: use `encode`"):
        build("gru", bidirectional=True)(inputs, hidden)
    with raises(ValueError, "cell"):
        build("lstm")(inputs, hidden)
    with pytest.raises(ValueError, match="pad at the end"):
        stack.encode(inputs, ~MASK)


@pytest.mark.parametrize(("kind", "ratio"), [("gru", 0.5), ("lstm", 0.05)])
def test_signals_and_gradients_vanish_in_plain_stacks_alone(kind, ratio):
    """Six plain LSTM layers hide the input from attention, and the gradient from the input."""
    signals, gradients = {}, {}
    for stack_type in (RecurrentStack, ResidualStack):
        torch.manual_seed(6)
        stack = stack_type(kind, 32, 64, 6)
        inputs = torch.randn(64, 7, 32, requires_grad=True)
        outputs = stack.encode(inputs, torch.ones(64, 7, dtype=torch.bool)).outputs
        (outputs[5] * torch.randn(64, 7, 64)).sum().backward()
        second, top = (outputs[layer].std(dim=0).mean().item() for layer in (1, 5))
        signals[stack_type] = top / second
        gradients[stack_type] = inputs.grad.norm().item()
    assert signals[RecurrentStack] < ratio
    assert signals[ResidualStack] > 0.9
    assert gradients[RecurrentStack] < ratio * gradients[ResidualStack]
