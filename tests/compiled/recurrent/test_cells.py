"""Every cell and its gradient compared with PyTorch's step, and the kernels with the formulas."""

import pytest
import torch

from regard.compiled.recurrent import cells, native_cells
from regard.compiled.recurrent.cells import NUM_SAVED, CellBackward, CellStep
from regard.compiled.recurrent.layers import STEPS
from regard.layers.recurrent.cells import NUM_GATES, CellState

BATCH, INPUT, HIDDEN = 3, 5, 37  # more than a vector's lanes, and not a multiple of them
WEIGHTED = [(kind, masked) for kind in NUM_GATES for masked in (False, True)]


def numbers(*shape, dtype=torch.double):
    return torch.randn(*shape).to(dtype)


def state(kind, make):
    return CellState(make(BATCH, HIDDEN), make(BATCH, HIDDEN) if kind == "lstm" else None)


def taken(kind, input_gates, recurrent, last, mask=None, module=cells):
    """Compute a step."""
    precise = torch.promote_types(input_gates.dtype, torch.float32)
    new = CellState(torch.empty_like(last.hidden), None)
    if kind == "lstm":
        new = CellState(new.hidden, torch.empty(BATCH, HIDDEN, dtype=precise))
    at = CellStep(
        input_gates,
        recurrent,
        last,
        new,
        input_gates.new_empty(BATCH, NUM_SAVED[kind] * HIDDEN),
        mask,
    )
    module.step(kind, at)
    return at


def returned(kind, at, grad_output, grad_recurrent, grad_carried, cell, module=cells):
    """Compute the gradient of a step."""
    input_gates = torch.empty_like(at.recurrent_gates)
    of_recurrent = torch.empty_like(input_gates) if kind == "gru" else input_gates
    back = CellBackward(
        grad_output,
        grad_recurrent,
        grad_carried.clone(),
        None if cell is None else cell.clone(),
        at.last,
        at.new,
        at.saved,
        input_gates,
        of_recurrent,
        at.mask,
    )
    module.backward(kind, back)
    return back


@pytest.mark.parametrize("kind", NUM_GATES)
def test_steps_and_gradients_equal_torchs(kind):
    torch.manual_seed(4)
    gates = NUM_GATES[kind] * HIDDEN
    weights = [numbers(gates, INPUT), numbers(gates, HIDDEN), numbers(gates), numbers(gates)]
    last, inputs = state(kind, numbers), numbers(BATCH, INPUT)
    input_gates = inputs @ weights[0].T + weights[2]
    recurrent = last.hidden @ weights[1].T + weights[3]
    at = taken(kind, input_gates, recurrent, last)

    start = [x.clone().requires_grad_() for x in (last.hidden, last.cell) if x is not None]
    inputs.requires_grad_()
    expected = STEPS[kind](inputs, tuple(start) if len(start) > 1 else start[0], *weights)
    expected = list(expected) if len(start) > 1 else [expected]
    result = [x for x in (at.new.hidden, at.new.cell) if x is not None]
    torch.testing.assert_close(result, [x.detach() for x in expected])

    parts = [numbers(BATCH, HIDDEN) for _ in range(3)]
    cell = numbers(BATCH, HIDDEN) if kind == "lstm" else None
    gradients = torch.autograd.grad(
        expected, [inputs, *start], [sum(parts), *([cell] if cell is not None else [])]
    )
    back = returned(kind, at, *parts, cell)
    hidden = back.grad_recurrent_gates @ weights[1] + back.grad_carried
    ours = [
        back.grad_input_gates @ weights[0],
        hidden,
        *([back.grad_cell] if cell is not None else []),
    ]
    torch.testing.assert_close(ours, list(gradients))


@pytest.mark.parametrize("kind", NUM_GATES)
def test_padded_rows_keep_their_state_and_pass_gradients(kind):
    torch.manual_seed(5)
    gates = NUM_GATES[kind] * HIDDEN
    last, mask = state(kind, numbers), torch.tensor([True, False, True])
    sums = numbers(BATCH, gates), numbers(BATCH, gates)
    at, free = taken(kind, *sums, last, mask), taken(kind, *sums, last)
    torch.testing.assert_close(at.new.hidden[1], last.hidden[1])
    torch.testing.assert_close(at.new.hidden[[0, 2]], free.new.hidden[[0, 2]])

    parts = [numbers(BATCH, HIDDEN) for _ in range(3)]
    cell = numbers(BATCH, HIDDEN) if kind == "lstm" else None
    back, other = returned(kind, at, *parts, cell), returned(kind, free, *parts, cell)
    torch.testing.assert_close(back.grad_carried[1], sum(parts)[1])
    assert (back.grad_input_gates[1] == 0).all()
    assert (back.grad_recurrent_gates[1] == 0).all()
    torch.testing.assert_close(back.grad_input_gates[[0, 2]], other.grad_input_gates[[0, 2]])
    if cell is not None:
        torch.testing.assert_close(back.grad_cell[1], cell[1])
        torch.testing.assert_close(at.new.cell[1], last.cell[1])


@pytest.mark.parametrize(("kind", "masked"), WEIGHTED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-3, 1, 30])
def test_kernels_equal_the_formulas(instruction_set, kind, masked, dtype, scale):
    torch.manual_seed(6)
    gates = NUM_GATES[kind] * HIDDEN

    def rounded(*shape):
        return numbers(*shape).mul(scale).to(dtype)

    last = CellState(rounded(BATCH, HIDDEN).clamp(-1, 1), None)
    if kind == "lstm":
        last = CellState(last.hidden, torch.randn(BATCH, HIDDEN))
    mask = torch.tensor([[True, False, True], [False, True, True]]).T[:, 0] if masked else None
    input_gates = rounded(BATCH, 2, gates)[:, 0]  # rows need not be neighbours
    recurrent = rounded(BATCH, gates)
    parts = [torch.randn(BATCH, 3, HIDDEN).to(dtype)[:, 1], torch.randn(BATCH, HIDDEN).to(dtype)]
    grad_carried = torch.randn(BATCH, HIDDEN)
    cell = torch.randn(BATCH, HIDDEN) if kind == "lstm" else None

    precise = CellState(*(None if x is None else x.double() for x in (last.hidden, last.cell)))
    expected = taken(kind, input_gates.double(), recurrent.double(), precise, mask)
    result = taken(kind, input_gates, recurrent, last, mask, native_cells)
    exact = dict(rtol=1e-5, atol=1e-6) if dtype == torch.float32 else dict(rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(result.new.hidden.double(), expected.new.hidden, **exact)
    if cell is not None:
        torch.testing.assert_close(
            result.new.cell.double(), expected.new.cell, rtol=1e-5, atol=1e-6
        )

    known = CellStep(*(_double(x) for x in _fields(result)))
    wanted = returned(
        kind,
        known,
        *(part.double() for part in (*parts, grad_carried)),
        None if cell is None else cell.double(),
    )
    got = returned(kind, result, *parts, grad_carried, cell, native_cells)
    for name in ("grad_input_gates", "grad_recurrent_gates"):
        torch.testing.assert_close(getattr(got, name).double(), getattr(wanted, name), **exact)
    torch.testing.assert_close(got.grad_carried.double(), wanted.grad_carried, rtol=1e-5, atol=1e-5)
    if cell is not None:
        torch.testing.assert_close(got.grad_cell.double(), wanted.grad_cell, rtol=1e-5, atol=1e-5)


def _fields(at):
    return at.input_gates, at.recurrent_gates, at.last, at.new, at.saved, at.mask


def _double(value):
    if isinstance(value, CellState):
        return CellState(*(None if x is None else x.double() for x in (value.hidden, value.cell)))
    return value if value is None or value.dtype == torch.bool else value.double()


@pytest.mark.parametrize("kind", NUM_GATES)
def test_kernels_propagate_nan(instruction_set, kind):
    gates = NUM_GATES[kind] * HIDDEN
    last = state(kind, lambda *shape: torch.zeros(*shape))
    input_gates = torch.zeros(BATCH, gates)
    input_gates[1] = torch.nan
    result = taken(
        kind, input_gates, torch.zeros(BATCH, gates), last, module=native_cells
    ).new.hidden
    assert result[1].isnan().all()
    assert not result[[0, 2]].isnan().any()
