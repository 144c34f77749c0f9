"""Experts against a loop over positions, the load against draws of the noise, and hand numbers."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.layers import experts as module
from regard.layers.experts import Experts, NoisyTopKGate
from regard.layers.feed_forward import FeedForward
from regard.layers.routing import open_routings, routings, squared_variation
from regard.numerics.grouped import grouped_product
from tests.messages import raises
from tests.oracles import experts as oracle

SIZE, INNER, NUM_EXPERTS, NUM_ACTIVE = 5, 7, 11, 3


def built(
    num_experts=NUM_EXPERTS, num_active=NUM_ACTIVE, *, size=SIZE, inner=INNER, noise=1.0, **weights
):
    """Return experts with random weights in float64, also in the gate."""
    torch.manual_seed(3)
    gate = NoisyTopKGate(size, num_experts, num_active, noise_scale=noise)
    experts = Experts(gate, inner, **weights).double()
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return experts


def states(*shape):
    return torch.randn(*shape, SIZE, dtype=torch.double, generator=torch.Generator().manual_seed(5))


def draws(num_rows, num_experts=NUM_EXPERTS):
    """Return the noise that the gate draws after `torch.manual_seed(7)`."""
    torch.manual_seed(7)
    return torch.randn(num_rows, num_experts, dtype=torch.double).numpy()


def by_loop(experts, rows):
    """Return the output, the importance and the load of rows in training, by the oracle."""
    weights = [weight.detach().numpy() for weight in (experts.gate.weight, experts.gate.noise)]
    layers = (experts.inner, experts.inner_bias, experts.outer, experts.outer_bias)
    networks = list(zip(*(layer.detach().numpy() for layer in layers), strict=True))
    outputs, importance, load = [], 0, 0
    noise = draws(len(rows), experts.gate.num_experts)
    for row, draw in zip(rows.numpy(), noise, strict=True):
        values, probabilities = oracle.gate(
            row, *weights, draw, experts.gate.num_active, experts.gate.noise_scale
        )
        outputs.append(oracle.mixture(row, values, networks))
        importance, load = importance + values, load + probabilities
    return torch.tensor(np.stack(outputs)), importance, load


@pytest.mark.parametrize(
    ("num_active", "noise"), [(1, 1.0), (3, 1.0), (3, 0.2), (10, 3.0), (11, 1.0)]
)
def test_training_equals_a_loop_over_positions(num_active, noise):
    experts = built(num_active=num_active, noise=noise, importance=0.3, load=0.7)
    rows = states(13)
    expected, importance, load = by_loop(experts, rows)
    torch.manual_seed(7)
    mixed, routing = experts.route(rows)
    torch.testing.assert_close(mixed, expected)
    balance = routing.balance
    assert balance.importance_loss.item() == pytest.approx(
        0.3 * oracle.squared_variation([*importance])
    )
    assert balance.load_loss.item() == pytest.approx(
        0.7 * oracle.squared_variation([*load]), rel=1e-6, abs=1e-9
    )
    counts = (routing.weights > 0).sum(dim=0).double()
    assert counts.sum() == 13 * num_active
    assert balance.largest_load == counts.max() / counts.mean()


def test_gradients_equal_finite_differences():
    """The output and both terms of the loss have gradients of all weights and states."""
    experts = built(num_experts=4, num_active=2)
    names = [name for name, _ in experts.named_parameters()]

    def compute(rows, *weights):
        torch.manual_seed(7)
        with routings(None) as opened:
            mixed = torch.func.functional_call(
                experts, dict(zip(names, weights, strict=True)), rows
            )
        (balance,) = opened.balances
        return mixed, balance.importance_loss, balance.load_loss

    torch.autograd.gradcheck(compute, (states(3).requires_grad_(), *experts.parameters()))


def test_evaluation_has_no_noise_and_no_loss():
    experts, rows = built().eval(), states(2, 3)
    mixed, routing = experts.route(rows)
    logits = F.linear(rows, experts.gate.weight)
    torch.testing.assert_close(routing.scores, logits)
    values, indices = logits.topk(NUM_ACTIVE)
    expected = torch.zeros_like(logits).scatter(-1, indices, values.softmax(dim=-1))
    torch.testing.assert_close(routing.weights, expected)
    assert routing.balance is None
    assert torch.equal(experts(rows), mixed)


def test_padding_is_neither_computed_nor_counted():
    experts, rows = built(), states(2, 4)
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    torch.manual_seed(7)
    padded, with_padding = experts.route(rows.masked_fill(~mask[..., None], torch.nan), mask)
    torch.manual_seed(7)
    real, without = experts.route(rows[mask])
    torch.testing.assert_close(padded[mask], real)
    assert padded[~mask].eq(0).all()
    for name in ("weights", "scores"):
        spread = getattr(with_padding, name)
        torch.testing.assert_close(spread[mask], getattr(without, name))
        assert spread[~mask].eq(0).all()
    for name in ("importance", "load", "counts"):
        values = [getattr(x.balance, name) for x in (with_padding, without)]
        assert torch.equal(*values), name


def test_calls_for_parts_of_the_positions_share_one_mask():
    """All positions at once, one after the other, and one position of each hypothesis."""
    experts, rows = built().eval(), states(2, 4)
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    with routings(mask) as whole:
        expected = experts(rows)
    with routings(mask) as steps:
        mixed = torch.cat([experts(step) for step in rows.split(1, dim=1)], dim=1)
    with routings(mask) as hypotheses:
        flat = experts(rows.flatten(0, 1)[:, None])
    torch.testing.assert_close(mixed, expected)
    torch.testing.assert_close(flat.view(rows.shape), expected)
    for opened in (steps, hypotheses):
        torch.testing.assert_close(opened.gates(2, 4), whole.gates(2, 4))
    assert whole.gates(2, 4)[0][:, 0][~mask].eq(0).all()
    assert open_routings() is None


def test_a_batch_without_real_positions_has_a_finite_loss():
    experts = built()
    mixed, routing = experts.route(states(2, 3), torch.zeros(2, 3, dtype=torch.bool))
    assert mixed.eq(0).all()
    balance = routing.balance
    assert [value.item() for value in (balance.importance_loss, balance.load_loss)] == [0, 0]


def test_one_expert_is_a_feed_forward_network():
    experts, network = built(1, 1), FeedForward(SIZE, INNER).double()
    network.inner.weight.data = experts.inner[0].T
    network.outer.weight.data = experts.outer[0].T
    network.inner.bias.data, network.outer.bias.data = experts.inner_bias[0], experts.outer_bias[0]
    rows = states(2, 3)
    torch.testing.assert_close(experts(rows), network(rows))


def test_equal_experts_give_the_output_of_one():
    experts = built()
    for weight in (experts.inner, experts.inner_bias, experts.outer, experts.outer_bias):
        weight.data = weight[:1].expand_as(weight).clone()
    single = built(1, 1)
    state = {name: value[:1] for name, value in experts.state_dict().items() if "gate" not in name}
    single.load_state_dict(state, strict=False)
    torch.testing.assert_close(experts(states(4)), single(states(4)))


def test_the_first_choice_is_noise_alone():
    """The weights of a new gate are zeros (appendix A), so all experts are equally likely."""
    torch.manual_seed(3)
    gate = NoisyTopKGate(SIZE, 4, 2)
    choice = gate(torch.randn(20000, SIZE))
    assert choice.logits.eq(0).all()
    frequencies = choice.experts.flatten().bincount() / 20000
    torch.testing.assert_close(
        frequencies, torch.full((4,), 0.5), atol=4 * 0.5 / 20000**0.5, rtol=0
    )


def test_with_little_noise_training_chooses_as_evaluation():
    gate, rows = built(noise=1e-3).gate, states(200)
    torch.nn.init.normal_(gate.noise, std=0.1)
    noisy, clean = gate(rows).experts.sort(dim=1)[0], gate.eval()(rows).experts.sort(dim=1)[0]
    assert noisy.eq(clean).all(dim=1).double().mean() > 0.9


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["initial_scale", "noise_scale"])
def test_a_scale_that_is_negative_or_not_finite_is_rejected(name, value):
    with raises(ValueError):
        NoisyTopKGate(SIZE, 4, 2, **{name: value})


def test_the_first_weights_of_the_gate_have_the_standard_deviation_that_is_asked_for():
    torch.manual_seed(3)
    gate = NoisyTopKGate(64, 500, 2, initial_scale=2.0)
    assert gate.weight.std().item() == pytest.approx(2 / 8, rel=0.02)
    assert gate.noise.eq(0).all()


def test_load_is_the_share_of_draws_in_which_an_expert_is_chosen():
    """The noise of one expert is drawn again and that of the others is fixed (eq. 8)."""
    gate, num_draws, k = built(5, 2).gate, 200_000, 2
    row = states(1)
    torch.manual_seed(7)
    choice = gate(row)
    noise = draws(1, 5)[0]
    logits = F.linear(row, gate.weight)[0].detach().numpy()
    deviations = F.softplus(F.linear(row, gate.noise))[0].detach().numpy()
    again = np.random.default_rng(11).standard_normal(num_draws)
    for expert in range(5):
        rest = np.delete(logits + noise * deviations, expert)
        is_chosen = logits[expert] + again * deviations[expert] > np.sort(rest)[-k]
        error = 4 * (is_chosen.std() / num_draws**0.5 + 1e-6)
        assert choice.load[expert].item() == pytest.approx(is_chosen.mean(), abs=error)


@pytest.mark.parametrize(
    ("numbers", "expected"), [([1.0, 1, 1, 1], 0), ([2.0, 0], 1), ([3.0, 1], 0.25)]
)
def test_squared_variation_of_small_numbers(numbers, expected):
    result = squared_variation(torch.tensor(numbers, dtype=torch.double)).item()
    assert result == pytest.approx(expected, abs=1e-9)
    assert oracle.squared_variation(numbers) == expected


def test_training_balances_experts_that_begin_unequal():
    """Gradient descent on the two terms alone, from a gate that prefers one expert."""
    gate = NoisyTopKGate(SIZE, 4, 1)
    experts = Experts(gate, INNER, importance=1.0, load=1.0)
    rows = torch.randn(256, SIZE, generator=torch.Generator().manual_seed(5))
    rows[:, 0] = 1
    gate.weight.data[2, 0] = 3
    torch.manual_seed(3)
    optimiser = torch.optim.Adam(gate.parameters(), lr=0.1)
    loads = []
    for _ in range(40):
        balance = experts.route(rows)[1].balance
        loads.append(balance.largest_load.item())
        optimiser.zero_grad()
        (balance.importance_loss + balance.load_loss).backward()
        optimiser.step()
    assert loads[0] > 3
    assert loads[-1] < 1.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(8, 16), (5, 7)])
@pytest.mark.parametrize("sizes", [(3, 0, 4), (0, 0, 1), (0, 0, 0)])
def test_grouped_products_equal_single_ones(dtype, shape, sizes):
    torch.manual_seed(3)
    rows = torch.randn(sum(sizes), shape[0], dtype=dtype, requires_grad=True)
    weights = torch.randn(3, *shape, dtype=dtype, requires_grad=True)
    result = grouped_product(rows, weights, torch.tensor(sizes).cumsum(0))
    expected = torch.cat([part @ m for part, m in zip(rows.split(sizes), weights, strict=True)])
    torch.testing.assert_close(result, expected)
    change = torch.randn_like(expected)
    gradients = torch.autograd.grad(result, (rows, weights), change)
    for gradient, other in zip(
        gradients, torch.autograd.grad(expected, (rows, weights), change), strict=True
    ):
        torch.testing.assert_close(gradient, other)


def test_each_layer_of_all_experts_is_one_product(monkeypatch):
    calls = []

    def product(*arguments):
        calls.append([len(argument) for argument in arguments])
        return grouped_product(*arguments)

    monkeypatch.setattr(module, "grouped_product", product)
    built()(states(6, 13))
    assert calls == [[6 * 13 * NUM_ACTIVE, NUM_EXPERTS, NUM_EXPERTS]] * 2


def test_autocast_leaves_the_gate_in_float32():
    experts = built(size=8, inner=16).float()
    rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(5))
    torch.manual_seed(7)
    expected, expected_routing = experts.route(rows)
    torch.manual_seed(7)
    with torch.autocast("cpu", torch.bfloat16):
        mixed, routing = experts.route(rows)
    assert mixed.dtype == torch.bfloat16
    assert torch.equal(routing.weights, expected_routing.weights)
    torch.testing.assert_close(mixed.float(), expected, rtol=0.05, atol=0.05)


def test_published_layer_has_four_experts_of_two_million():
    """Shazeer et al. 2017, appendix E: experts of 512 and 2048 units, four active; table 6 counts
    2.1 million parameters in each."""
    with torch.device("meta"):
        experts = Experts(NoisyTopKGate(512, 32, 4), 2048)
    gates = 2 * 32 * 512
    assert experts.num_multiplied == 4 * 2 * 512 * 2048 + gates
    assert (experts.num_multiplied - gates) / 4 == pytest.approx(2.1e6, rel=0.01)


@pytest.mark.parametrize("num_active", [0, 5])
def test_numbers_of_active_experts_are_checked(num_active):
    with pytest.raises(ValueError, match=f"num_active is {num_active}: expected .* from 1 to 4"):
        NoisyTopKGate(SIZE, 4, num_active)


@pytest.mark.parametrize("num_rows", [0, 1])
def test_grouped_products_of_at_most_one_row_take_any_strides(num_rows):
    """Strides of rows and of gradients. Without rows, the gradient is zero."""
    weights = torch.randn(3, 16, 24, requires_grad=True)
    rows = torch.ones(16, num_rows).mT.requires_grad_()
    product = grouped_product(rows, weights, torch.tensor([0, num_rows, num_rows]))
    product.sum().backward()
    torch.testing.assert_close(product, rows @ weights[1])
    torch.testing.assert_close(rows.grad, weights.detach()[1].sum(dim=1).expand(num_rows, 16))
    expected = torch.zeros(3, 16, 24)
    expected[1] = num_rows
    torch.testing.assert_close(weights.grad, expected)


@pytest.mark.parametrize("ends", [[2, 3, 50], [4, 2, 5], [-3, 1, 5], [1, 1, 2]])
def test_ends_of_grouped_products_are_checked(ends):
    rows, weights = torch.randn(5, 8), torch.randn(3, 8, 16)
    with pytest.raises(ValueError, match="ends: expected 3 whole numbers that rise to 5"):
        grouped_product(rows, weights, torch.tensor(ends))


@pytest.mark.usefixtures("unchecked")
def test_states_and_masks_are_checked():
    call = Experts(NoisyTopKGate(SIZE, 4, 2), 6)
    states, mask = torch.randn(2, 3, SIZE), torch.ones(2, 3, dtype=torch.bool)
    for wrong in (mask.float(), mask[:, :2], mask[:1], mask.T):
        with pytest.raises(ValueError, match=r"mask: expected bool .* of shape \(2, 3\)"):
            call.route(states, wrong)
    for vectors in (states[..., :-1], states[0, 0], states.long()):
        with pytest.raises(ValueError, match=rf"states: expected .* position, {SIZE}\)"):
            call.route(vectors)
