"""Fast-forward stacks compared with a loop over positions and layers in float64."""

import copy
import math

import numpy as np
import pytest
import torch

from regard.compiled.freeze import freeze
from regard.layers.recurrent.fast_forward_stack import FORWARD_SCALE, FastForwardStack
from regard.layers.recurrent.stack import RecurrentStack
from tests.layers.recurrent.test_residual_stack import LENGTHS, MASK, computed, every_kind, state
from tests.oracles import recurrent as oracle


def build(kind, **values):
    torch.manual_seed(2)
    return FastForwardStack(*(kind, 3, 11, 5), **values).double()


def weights_of(stack, column=0):
    return [oracle.of_layer(layer, stack.kind) for layer in stack.columns[column]]


@pytest.mark.parametrize("bidirectional", [False, True])
@every_kind
@torch.no_grad()
def test_whole_sequences_equal_the_loop(kind, bidirectional):
    stack = build(kind, bidirectional=bidirectional)
    inputs = torch.randn(3, 7, 3, dtype=torch.double)
    output = stack.encode(inputs, MASK, LENGTHS)
    for row, length in enumerate(LENGTHS):
        columns = [
            oracle.fast_forward(
                weights_of(stack, column),
                inputs[row, :length].numpy(),
                column=column if bidirectional else None,
            )
            for column in range(len(stack.columns))
        ]
        layers = [
            np.concatenate(states, axis=-1)
            for states in zip(*(c[0] for c in columns), strict=False)
        ]
        if bidirectional:
            halves = [[gate[: len(gate) // 2] for gate in gates] for _, gates, _ in columns]
            joined = np.concatenate([layers[-1], *halves], axis=-1)
            layers[-1] = joined @ stack.projection.weight.numpy().T + stack.projection.bias.numpy()
        for ours, expected in zip(output.outputs, layers, strict=True):
            np.testing.assert_allclose(ours[row, :length], expected, atol=1e-12)
            assert ours[row, length:].eq(0).all()
        for number, ends in enumerate(zip(*(column[2] for column in columns), strict=False)):
            hidden = np.concatenate([end.hidden for end in ends])
            np.testing.assert_allclose(output.hidden[row, number], hidden, atol=1e-12)
            if kind == "lstm":
                cell = np.concatenate([end.cell for end in ends])
                np.testing.assert_allclose(output.cell[row, number], cell, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@every_kind
@torch.no_grad()
def test_outputs_of_padding_are_zeros_for_inputs_that_are_not_numbers(kind, bidirectional):
    stack = build(kind, bidirectional=bidirectional)
    inputs = torch.randn(3, 7, 3, dtype=torch.double)
    expected = stack.encode(inputs, MASK, LENGTHS).outputs
    outputs = stack.encode(inputs.masked_fill(~MASK[..., None], math.nan), MASK, LENGTHS).outputs
    for ours, of_numbers in zip(outputs, expected, strict=True):
        torch.testing.assert_close(ours, of_numbers)


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
        layers, _, ends = oracle.fast_forward(
            weights_of(stack), inputs[row].numpy(), first=first, beside=extra
        )
        for ours, expected in zip(whole.outputs, layers, strict=True):
            np.testing.assert_allclose(ours[row], expected, atol=1e-12)
        np.testing.assert_allclose(whole.hidden[row], [end.hidden for end in ends], atol=1e-12)
    for ours, expected in zip(
        stack.above(inputs, whole.outputs[0], hidden, cell).outputs,
        whole.outputs,
        strict=True,
    ):
        torch.testing.assert_close(ours, expected)
    for position in range(7):
        step = stack.step(inputs[:, position], hidden, cell)
        for ours, expected in zip(step.outputs, whole.outputs, strict=True):
            torch.testing.assert_close(ours[:, 0], expected[:, position])
        hidden, cell = step.hidden, step.cell


@pytest.mark.parametrize("bidirectional", [False, True])
@every_kind
def test_float32_gives_the_numbers_and_gradients_of_float64(kind, bidirectional):
    precise = build(kind, bidirectional=bidirectional)
    inputs = torch.randn(3, 7, 3, dtype=torch.double)

    def run(stack, inputs):
        return stack.encode(inputs, MASK)

    expected = computed(precise, inputs, run)
    ours = computed(copy.deepcopy(precise).float(), inputs.float(), run)
    for result, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(result, other, rtol=1e-4, atol=1e-4)


@every_kind
def test_gradients_equal_finite_differences(kind):
    stack = FastForwardStack(kind, 2, 3, 3, bidirectional=True).double()
    inputs = torch.randn(2, 3, 2, dtype=torch.double, requires_grad=True)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    assert torch.autograd.gradcheck(lambda x: stack.encode(x, mask).outputs[-1], (inputs,))


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
def test_every_position_reads_both_directions(kind):
    """Directions alternate, so that the second layer of a column has read the whole sequence."""
    stack = FastForwardStack(kind, 3, 11, 2, bidirectional=True)
    inputs = torch.randn(1, 7, 3)
    mask = torch.ones(1, 7, dtype=torch.bool)
    before = stack.encode(inputs, mask).outputs[-1]
    for changed in (0, 6):
        variant = inputs.clone()
        variant[:, changed] += 1
        difference = (stack.encode(variant, mask).outputs[-1] - before).abs().sum(dim=-1)
        assert difference.gt(0).all()


def test_gradients_pass_the_fast_forward_connections():
    """They reach the input of six layers, where those of a plain stack have vanished."""
    norms = {}
    for stack_type in (RecurrentStack, FastForwardStack):
        torch.manual_seed(6)
        stack = stack_type("lstm", 32, 64, 6)
        inputs = torch.randn(64, 7, 32, requires_grad=True)
        outputs = stack.encode(inputs, torch.ones(64, 7, dtype=torch.bool)).outputs
        (outputs[-1] * torch.randn(64, 7, 64)).sum().backward()
        norms[stack_type] = inputs.grad.norm().item()
    assert norms[FastForwardStack] > 5 * norms[RecurrentStack]


@pytest.mark.parametrize("bidirectional", [False, True])
def test_fresh_connections_keep_the_variance(bidirectional):
    """Through the linear path from the lowest layer to the highest, without states."""
    torch.manual_seed(6)
    stack = FastForwardStack("lstm", 32, 64, 8, bidirectional=bidirectional)
    for column in stack.columns:
        signals = torch.randn(500, stack.half_size)
        for layer in list(column)[1:]:
            carried = layer.weight_ih_l0[: stack.half_size, : stack.half_size]
            signals = FORWARD_SCALE * signals @ carried.T
        assert signals.std().item() == pytest.approx(1, abs=0.25)


def test_impossible_arguments_are_rejected():
    inputs, hidden = torch.zeros(3, 7, 3), torch.zeros(3, 5, 11)
    with pytest.raises(ValueError, match="two columns has no steps: use `encode`"):
        build("gru", bidirectional=True)(inputs, hidden)
