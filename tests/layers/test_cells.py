"""Every cell, forwards and back, against torch's own step."""

import pytest
import torch

from regard.layers.cells import CELLS, Step
from regard.layers.recurrent import STEPS

BATCH, INPUT, HIDDEN = 3, 5, 7


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.double)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("later", [False, True])
def test_is_the_step_of_torch_and_its_gradient(kind, later):
    torch.manual_seed(4)
    cell = CELLS[kind]
    gates = cell.num_gates * HIDDEN
    weights = [numbers(gates, INPUT), numbers(gates, HIDDEN), numbers(gates), numbers(gates)]
    has_cell = kind == "lstm"
    last = Step(numbers(BATCH, HIDDEN), numbers(BATCH, HIDDEN) if has_cell else None)
    inputs = numbers(BATCH, INPUT)
    of_input = (inputs @ weights[0].T + weights[2]).requires_grad_()
    recurrent = (last.hidden @ weights[1].T + weights[3]).requires_grad_()
    kept = numbers(BATCH, cell.num_kept * HIDDEN)
    with torch.no_grad():
        new = cell.step(of_input, recurrent, last, kept)

    state = [x.clone().requires_grad_() for x in (last.hidden, last.cell) if x is not None]
    inputs.requires_grad_()
    expected = STEPS[kind](inputs, tuple(state) if has_cell else state[0], *weights)
    expected = list(expected) if has_cell else [expected]
    found = [new.hidden, new.cell] if has_cell else [new.hidden]
    torch.testing.assert_close(found, [x.detach() for x in expected])

    above = [numbers(BATCH, HIDDEN) for _ in expected]
    if has_cell and not later:
        above[1] = torch.zeros(BATCH, HIDDEN, dtype=torch.double)  # nothing comes from a next step
    gradients = torch.autograd.grad(expected, [inputs, *state], above)
    given = above[1] if has_cell and later else None
    with torch.no_grad():
        back = cell.back(above[0], given, last, new, kept)
    hidden = back.recurrent @ weights[1] + (0 if back.hidden is None else back.hidden)
    ours = [back.of_input @ weights[0], hidden, *([back.cell] if has_cell else [])]
    torch.testing.assert_close(ours, list(gradients))
