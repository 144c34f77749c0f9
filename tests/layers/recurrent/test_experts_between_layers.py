"""Mixtures of experts between the last two layers of residual stacks, compared with loops over
positions, layers and experts in float64."""

from functools import partial

import numpy as np
import pytest
import torch

from regard.layers.experts import NoisyTopKGate, SigmoidExperts
from regard.layers.recurrent.residual_stack import ResidualStack
from regard.layers.routing import routings
from tests.layers.recurrent.test_residual_stack import LENGTHS, MASK, state, weights_of
from tests.oracles import experts as mixture_oracle
from tests.oracles import recurrent as oracle

NUM_EXPERTS, NUM_ACTIVE = 5, 2


def build(*, num_layers=3, bidirectional=False, shared_size=0, dropout=0.0):
    torch.manual_seed(2)
    sizes = dict(bidirectional=bidirectional, shared_size=shared_size, dropout=dropout)
    stack = ResidualStack("lstm", 3, 7, num_layers, **sizes)
    size = 14 if bidirectional and num_layers == 2 else 7
    stack.experts = SigmoidExperts(NoisyTopKGate(size, NUM_EXPERTS, NUM_ACTIVE), 11)
    for parameter in stack.experts.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return stack.double()


def mixture(experts, x):
    """Return the output of the experts at one position in evaluation, by the oracle."""
    gates = [weight.detach().numpy() for weight in (experts.gate.weight, experts.gate.noise)]
    values, _ = mixture_oracle.gate(x, *gates, np.zeros(NUM_EXPERTS), NUM_ACTIVE)
    layers = (experts.inner, experts.inner_bias, experts.outer, experts.outer_bias)
    networks = list(zip(*(layer.detach().numpy() for layer in layers), strict=True))
    return mixture_oracle.mixture(x, values, networks)


@pytest.mark.parametrize(
    ("num_layers", "bidirectional"), [(2, False), (2, True), (4, False), (4, True)]
)
@torch.no_grad()
def test_whole_sequences_equal_the_loop(num_layers, bidirectional):
    stack = build(num_layers=num_layers, bidirectional=bidirectional).eval()
    inputs = torch.randn(3, 7, 3, dtype=torch.double)
    with routings(MASK) as opened:
        output = stack.encode(inputs, MASK, LENGTHS)
    compute = partial(mixture, stack.experts)
    for row, length in enumerate(LENGTHS):
        layers, ends = oracle.residual(
            weights_of(stack), inputs[row, :length].numpy(), mixture=compute
        )
        for ours, expected in zip(output.outputs, layers, strict=True):
            np.testing.assert_allclose(ours[row, :length], expected, atol=1e-12)
            assert ours[row, length:].eq(0).all()
        ends = ends[bidirectional:]
        np.testing.assert_allclose(output.hidden[row], [end.hidden for end in ends], atol=1e-12)
    weights = opened.gates(3, 7)[0][:, 0]
    assert weights.shape == (3, 7, NUM_EXPERTS)
    assert weights[~MASK].eq(0).all()
    torch.testing.assert_close(weights.sum(dim=-1), MASK.double())


@pytest.mark.parametrize(("num_layers", "shared_size"), [(2, 0), (2, 2), (3, 2)])
@torch.no_grad()
def test_positions_from_a_state_and_steps_equal_the_loop(num_layers, shared_size):
    stack = build(num_layers=num_layers, shared_size=shared_size).eval()
    (hidden, cell), rows = state(stack)
    inputs = torch.randn(3, 5, 3, dtype=torch.double)
    whole = stack(inputs, hidden, cell)
    compute = partial(mixture, stack.experts)
    for row, first in enumerate(rows):
        extra = inputs[row, :, 3 - shared_size :].numpy()
        layers, _ = oracle.residual(
            weights_of(stack), inputs[row].numpy(), extra, first, mixture=compute
        )
        for ours, expected in zip(whole.outputs, layers, strict=True):
            np.testing.assert_allclose(ours[row], expected, atol=1e-12)
    above = stack.above(inputs, whole.outputs[0], hidden, cell)
    for ours, expected in zip(above.outputs, whole.outputs, strict=True):
        torch.testing.assert_close(ours, expected)
    for position in range(5):
        step = stack.step(inputs[:, position], hidden, cell)
        for ours, expected in zip(step.outputs, whole.outputs, strict=True):
            torch.testing.assert_close(ours[:, 0], expected[:, position])
        hidden, cell = step.hidden, step.cell


def test_dropout_drops_what_experts_add_and_not_their_inputs():
    stack = build(num_layers=3, dropout=1.0)
    for weight in stack.layers[2].parameters():
        torch.nn.init.zeros_(weight)
    outputs = stack.encode(torch.randn(3, 7, 3, dtype=torch.double), MASK).outputs
    torch.testing.assert_close(outputs[2], outputs[1])


def test_gradients_reach_experts_and_the_layers_around_them():
    stack = build(num_layers=2)
    with routings(MASK) as opened:
        output = stack.encode(torch.randn(3, 7, 3, dtype=torch.double), MASK)
    (balance,) = opened.balances
    total = output.outputs[-1].square().sum() + balance.importance_loss + balance.load_loss
    total.backward()
    for name, weight in stack.named_parameters():
        assert weight.grad.abs().sum() > 0, name
    assert balance.counts.sum() == NUM_ACTIVE * sum(LENGTHS)
