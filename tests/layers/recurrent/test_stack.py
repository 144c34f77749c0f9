"""Stacks compared with PyTorch's multi-layer modules of the same weights."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard import kernels
from regard.compiled.freeze import freeze
from regard.compiled.recurrent import scan
from regard.compiled.recurrent.stacks import is_exact
from regard.layers.recurrent.stack import RecurrentStack
from tests.messages import raises

KINDS = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def twins(kind, bidirectional):
    """Return a stack of two layers, and PyTorch's module with the same weights."""
    torch.manual_seed(2)
    ours = RecurrentStack(kind, 5, 7, 2, bidirectional=bidirectional)
    theirs = KINDS[kind](5, 7, 2, batch_first=True, bidirectional=bidirectional)
    for number, layer in enumerate(ours.layers):
        for name, value in layer.named_parameters():
            getattr(theirs, name.replace("l0", f"l{number}")).data.copy_(value)
    return ours.double(), theirs.double()


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_states_equal_torchs_and_ignore_padding(kind, bidirectional):
    ours, theirs = twins(kind, bidirectional)
    inputs = torch.randn(3, 11, 5, dtype=torch.double)
    mask = torch.arange(11) < torch.tensor([11, 2, 7])[:, None]
    for problem_inputs in (mask, torch.ones_like(mask)):
        output = ours.encode(inputs, problem_inputs)
        for row, length in enumerate(problem_inputs.sum(dim=1).tolist()):
            states, end = theirs(inputs[row : row + 1, :length])
            hidden = (end[0] if kind == "lstm" else end).unflatten(0, (2, -1))[:, :, 0]
            torch.testing.assert_close(output.outputs[-1][row, :length], states[0])
            assert output.outputs[-1][row, length:].eq(0).all()
            torch.testing.assert_close(output.hidden[row], hidden.flatten(1))
            if kind == "lstm":
                cell = end[1].unflatten(0, (2, -1))[:, :, 0]
                torch.testing.assert_close(output.cell[row], cell.flatten(1))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_continuing_from_a_state_equals_one_pass(kind):
    ours, theirs = twins(kind, bidirectional=False)
    inputs = torch.randn(3, 5, 5, dtype=torch.double)
    hidden = torch.zeros(3, 2, 7, dtype=torch.double)
    cell = torch.zeros_like(hidden) if kind == "lstm" else None
    for position in range(5):
        output = ours(inputs[:, position : position + 1], hidden, cell)
        step = ours.step(inputs[:, position], hidden, cell)
        for name in ("hidden", "cell") if kind == "lstm" else ("hidden",):
            torch.testing.assert_close(getattr(step, name), getattr(output, name))
        hidden, cell = step.hidden, step.cell
        torch.testing.assert_close(step.outputs[-1][:, 0], theirs(inputs)[0][:, position])


def computed(stack, inputs, mask, run):
    """Return all results, and the gradients of all inputs."""
    inputs = inputs.clone().requires_grad_()
    output = run(stack, inputs, mask)
    results = [*output.outputs, output.hidden, *([] if output.cell is None else [output.cell])]
    torch.manual_seed(8)
    above = [torch.randn(each.shape, dtype=torch.double) for each in results]
    total = sum((each.double() * weight).sum() for each, weight in zip(results, above, strict=True))
    parameters = [inputs, *stack.parameters()]
    gradients = torch.autograd.grad(total, parameters, allow_unused=True)
    return [each.detach() for each in (*results, *gradients) if each is not None]


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("padded", [False, True])
def test_the_scan_and_torch_give_the_same_numbers_and_gradients(kind, bidirectional, padded):
    precise, _ = twins(kind, bidirectional)
    single = copy.deepcopy(precise).float()
    inputs = torch.randn(3, 11, 5, dtype=torch.double)
    mask = torch.arange(11) < torch.tensor([11, 2, 7])[:, None] if padded else torch.ones(3, 11) > 0
    expected = computed(precise, inputs, mask, RecurrentStack.encode)  # float64 in torch
    scanned = computed(single, inputs.float(), mask, RecurrentStack.encode)
    for ours, theirs in zip(scanned, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)
    if bidirectional:
        return
    first = torch.randn(3, 2, 7, dtype=torch.double)
    cell = torch.randn(3, 2, 7, dtype=torch.double) if kind == "lstm" else None

    def go_on(stack, inputs, _mask):
        start = (each if each is None else each.to(inputs.dtype) for each in (first, cell))
        return stack(inputs, *start)

    expected, scanned = (
        computed(precise, inputs, mask, go_on),
        computed(single, inputs.float(), mask, go_on),
    )
    for ours, theirs in zip(scanned, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize("kind", KINDS)
def test_under_autocast_states_are_half_precision_and_cells_float32(kind):
    precise, _ = twins(kind, bidirectional=True)
    inputs, mask = torch.randn(3, 11, 5, dtype=torch.double), torch.ones(3, 11) > 0
    expected = precise.encode(inputs, mask)
    with torch.autocast("cpu", torch.bfloat16):
        output = copy.deepcopy(precise).float().encode(inputs.float(), mask)
    assert output.hidden.dtype == torch.bfloat16
    torch.testing.assert_close(output.hidden.double(), expected.hidden, rtol=0.05, atol=0.02)
    if kind == "lstm":
        assert output.cell.dtype == torch.float32
        torch.testing.assert_close(output.cell.double(), expected.cell, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_gets_no_gradient(dtype):
    ours, _ = twins("gru", bidirectional=True)
    ours = ours.to(dtype)
    inputs = torch.randn(2, 5, 5, dtype=dtype, requires_grad=True)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    ours.encode(inputs, mask).outputs[-1].sum().backward()
    assert inputs.grad[1, 2:].eq(0).all()
    assert inputs.grad[mask].ne(0).any()


def test_dropout_is_between_layers_only():
    ours = RecurrentStack("gru", 5, 7, 2, dropout=0.999)
    hidden = torch.zeros(3, 2, 7)
    first, second = (ours(torch.ones(3, 1, 5), hidden) for _ in range(2))
    assert torch.equal(first.outputs[0], second.outputs[0])
    half = RecurrentStack("gru", 5, 7, 2, dropout=0.5)
    first, second = (half(torch.ones(3, 1, 5), hidden) for _ in range(2))
    assert not torch.equal(first.outputs[1], second.outputs[1])
    single = RecurrentStack("gru", 5, 7, 1, dropout=0.999)
    assert single(torch.ones(3, 1, 5), hidden[:, :1]).outputs[0].ne(0).all()


@pytest.mark.parametrize("row", [[True, False, True], [False, True, True], [False] * 3])
def test_masks_with_gaps_or_without_positions_are_rejected(row):
    ours, _ = twins("gru", bidirectional=False)
    with pytest.raises(ValueError, match="pad at the end"):
        ours.encode(torch.randn(2, 3, 5).double(), torch.tensor([[True] * 3, row]))


PADDED = torch.tensor([[True, True, True], [True, True, False]])


def test_lengths_of_the_mask_change_nothing():
    ours, _ = twins("lstm", bidirectional=True)
    inputs = torch.randn(2, 3, 5).double()
    expected = ours.encode(inputs, PADDED)
    output = ours.encode(inputs, PADDED, (3, 2))
    assert torch.equal(output.outputs[-1], expected.outputs[-1])
    assert torch.equal(output.hidden, expected.hidden)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("lengths", [(3,), (3, 2, 1), (3, 4), (3, 0), (3, -1), ()])
def test_impossible_lengths_are_rejected(lengths, device):
    stack = RecurrentStack("gru", 5, 7).to(device)
    inputs = torch.randn(2, 3, 5, device=device)
    with raises(ValueError, "lengths"):
        stack.encode(inputs, PADDED.to(device), lengths)


@pytest.mark.parametrize("lengths", [3, torch.tensor([3, 2]), tuple(torch.tensor([3, 2]))])
def test_lengths_of_another_type_are_rejected(unchecked, lengths):
    with pytest.raises(ValueError, match="lengths: expected a tuple of int, got"):
        RecurrentStack("gru", 5, 7).encode(torch.randn(2, 3, 5), PADDED, lengths)


@pytest.mark.parametrize("lengths", [(3, 1), (3, 3), (2, 2), (2, 3)])
def test_on_a_cpu_lengths_of_another_mask_are_rejected(lengths):
    with pytest.raises(ValueError, match="lengths: expected those of the mask"):
        RecurrentStack("gru", 5, 7).encode(torch.randn(2, 3, 5), PADDED, lengths)


def test_a_mask_on_another_device_is_rejected():
    with pytest.raises(ValueError, match=r"mask: expected bool.* on cpu, got .* on meta"):
        RecurrentStack("gru", 5, 7).encode(torch.randn(2, 3, 5), PADDED.to("meta"))


@pytest.mark.parametrize(("kind", "gates"), [("gru", 3), ("lstm", 4)])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_steps_are_saved_only_for_gradients(monkeypatch, kind, gates, mode):
    layer = scan.Layer(kind, torch.randn(gates * 7, 7, requires_grad=True), torch.randn(gates * 7))
    places, first = set(), scan.CellState(torch.zeros(3, 7), torch.zeros(3, 7))
    cells = SimpleNamespace(step=lambda kind, at: places.add(at.saved.data_ptr()))
    monkeypatch.setattr(scan, "choose", lambda like: cells)
    with mode():
        scan.scan(layer, torch.randn(11, 3, gates * 7), first)
    assert len(places) == (11 if mode is torch.enable_grad else 1)


class Doubled(nn.GRU):
    """Layer that computes something else than its weights define."""

    def forward(self, *arguments):
        states, end = super().forward(*arguments)
        return 2 * states, 2 * end


def hooked(layer, calls):
    layer.register_forward_hook(lambda *arguments: calls.append(1))
    return layer


@pytest.mark.parametrize("make", [Doubled, lambda *sizes, **how: hooked(nn.GRU(*sizes, **how), [])])
def test_a_replaced_layer_is_called(make):
    """In sequences and in steps, with and without gradients, and after `freeze`."""
    torch.manual_seed(3)
    stack = RecurrentStack("gru", 5, 7)
    stack.layers[0] = make(5, 7, batch_first=True)
    inputs, hidden = torch.randn(2, 1, 5), torch.zeros(2, 1, 7)
    expected = stack.layers[0](inputs)[0][:, 0].detach()
    for learns in (False, True):
        with torch.set_grad_enabled(learns):
            results = [
                stack(inputs, hidden).outputs[-1][:, 0],
                stack.step(inputs[:, 0], hidden).outputs[-1][:, 0],
                stack.encode(inputs, torch.ones(2, 1, dtype=torch.bool)).outputs[-1][:, 0],
                freeze(stack).step(inputs[:, 0], hidden).outputs[-1][:, 0],
            ]
        for result in results:
            torch.testing.assert_close(result, expected)


def test_hooks_of_a_layer_are_called():
    calls, stack = [], RecurrentStack("lstm", 5, 7)
    hooked(stack.layers[0], calls)
    hidden = torch.zeros(2, 1, 7)
    stack(torch.randn(2, 3, 5), hidden, hidden)
    stack.step(torch.randn(2, 5), hidden, hidden)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "layer",
    [
        nn.RNN(5, 7, nonlinearity="relu", batch_first=True),
        nn.RNN(5, 7, bias=False, batch_first=True),
        nn.RNN(5, 7, num_layers=2, batch_first=True),
    ],
    ids=["relu", "no bias", "two layers"],
)
def test_a_layer_with_other_options_is_not_scanned(layer):
    stack = RecurrentStack("elman", 5, 7)
    assert is_exact(stack)
    stack.layers[0] = layer
    assert not is_exact(stack)
    if layer.num_layers == 1:
        inputs, hidden = torch.randn(2, 3, 5), torch.zeros(2, 1, 7)
        torch.testing.assert_close(stack(inputs, hidden).outputs[-1], layer(inputs)[0])


class Doubling(RecurrentStack):
    def forward(self, inputs, hidden, cell=None):
        output = super().forward(2 * inputs, hidden, cell)
        return replace(output, outputs=tuple(2 * layer for layer in output.outputs))


@pytest.mark.parametrize("learns", [False, True])
def test_a_step_is_the_forward_of_a_subclass_and_of_a_stack_with_hooks(learns):
    inputs, hidden = torch.randn(2, 3), torch.randn(2, 1, 5)
    with torch.set_grad_enabled(learns):
        subclass = Doubling("gru", 3, 5)
        step, whole = subclass.step(inputs, hidden), subclass(inputs[:, None], hidden)
        torch.testing.assert_close(step.outputs[-1], whole.outputs[-1])
        stack = RecurrentStack("gru", 3, 5)
        stack.register_forward_hook(
            lambda _module, _inputs, output: replace(output, hidden=output.hidden + 1)
        )
        hooked_state = stack.step(inputs, hidden).hidden
        torch.testing.assert_close(hooked_state, stack(inputs[:, None], hidden).hidden)
