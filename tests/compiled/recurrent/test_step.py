"""One step of a cell with its gradient, compared with PyTorch's cells."""

from __future__ import annotations

import pytest
import torch

from regard.compiled.recurrent.layers import STEPS
from regard.compiled.recurrent.step import step
from regard.layers.recurrent.cells import NUM_GATES, CellState

BATCH, INPUT, HIDDEN = 3, 5, 19


def numbers(kind, dtype):
    """Return inputs, state and weights, in the order of PyTorch's cells."""
    torch.manual_seed(1)
    gates = NUM_GATES[kind] * HIDDEN
    shapes = [(BATCH, INPUT), (BATCH, HIDDEN), (BATCH, HIDDEN)]
    shapes += [(gates, INPUT), (gates, HIDDEN), (gates,), (gates,)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def ours(kind, inputs, hidden, cell, *weights):
    weight, recurrent, bias, shift = weights
    last = CellState(hidden, cell if kind == "lstm" else None)
    new = step(kind, inputs @ weight.T + bias, hidden @ recurrent.T + shift, last)
    return [new.hidden, *([] if new.cell is None else [new.cell])]


def torchs(kind, inputs, hidden, cell, *weights):
    new = STEPS[kind](inputs, (hidden, cell) if kind == "lstm" else hidden, *weights)
    return list(new) if isinstance(new, tuple) else [new]


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
@pytest.mark.parametrize("used", ["all", "hidden", "cell"])
@pytest.mark.parametrize("kind", NUM_GATES)
def test_states_and_gradients_equal_torchs(kind, used, dtype):
    results = []
    for compute in (ours, torchs):
        tensors = numbers(kind, dtype)
        states = compute(kind, *tensors)
        chosen = {"all": states, "hidden": states[:1], "cell": states[-1:]}[used]
        sum((each * torch.linspace(-1, 1, HIDDEN, dtype=dtype)).sum() for each in chosen).backward()
        results.append([*states, *(each.grad for each in tensors)])
    for mine, other in zip(*results, strict=True):
        if mine is None or other is None:
            assert mine is other
        else:
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", NUM_GATES)
def test_finite_differences_agree(kind):
    tensors = numbers(kind, torch.double)
    assert torch.autograd.gradcheck(lambda *each: tuple(ours(kind, *each)), tensors, fast_mode=True)


@pytest.mark.parametrize("kind", NUM_GATES)
def test_states_need_not_be_contiguous(kind):
    tensors = numbers(kind, torch.float)
    expected = ours(kind, *tensors)
    hidden, cell = (torch.stack([each, each], dim=2)[..., 0] for each in tensors[1:3])
    for learns in (True, False):
        with torch.set_grad_enabled(learns):
            states = ours(kind, tensors[0], hidden, cell, *tensors[3:])
        torch.testing.assert_close(states, expected)


@pytest.mark.parametrize("kind", NUM_GATES)
def test_in_bfloat16_the_cell_is_float32(kind):
    tensors = [each.detach().bfloat16().requires_grad_() for each in numbers(kind, torch.float)]
    states = ours(kind, *tensors)
    assert [each.dtype for each in states] == [torch.bfloat16, torch.float][: len(states)]
    sum(each.float().sum() for each in states).backward()
    of_state = tensors[1:3] if kind == "lstm" else tensors[1:2]
    assert all(each.grad.dtype == torch.bfloat16 for each in of_state)
    exact = [each.detach().double().requires_grad_() for each in tensors]
    sum(each.sum() for each in torchs(kind, *exact)).backward()
    for mine, other in zip(of_state, exact[1:], strict=False):
        torch.testing.assert_close(mine.grad.double(), other.grad, rtol=0.05, atol=0.2)
