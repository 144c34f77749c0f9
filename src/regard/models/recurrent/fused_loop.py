"""The loop of a recurrent decoder that attends, as one operator with its own way back.

    asks first (Bahdanau)    c_t = attend(s_{t-1})           s_t = RNN(s_{t-1}, [x_t; c_t])
    asks after (Luong)       s_t = RNN(s_{t-1}, [x_t; c_{t-1}])          c_t = attend(s_t)
    with a gate (Xu)         sigmoid(w s + b) c in the place of c, for the state s that asked

What a step of the way back has to know at once is the gradient of its state. The gradients of keys,
values and all weights are sums over the steps, so they are taken at the end, of all steps together:
the sums that the steps would make, in a fraction of the time.

    forward      s_0 -> s_1 -> ... -> s_n           every step attends to the keys
    way back     ds_n -> ... -> ds_0                every step keeps its scores' gradient g_t
    at the end   dkeys, dvalues, dweights           of g_1 .. g_n at once
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F

from regard.attention.fused_additive.backends import choose as choose_attention
from regard.attention.fused_additive.prepared import AdditiveMemory
from regard.layers.recurrent.cells import NUM_GATES, NUM_KEPT, CellState, Step, StepBack
from regard.layers.recurrent.native_cells import choose as choose_cells
from regard.linear import linear, weight_gradient
from regard.names import CellKind
from regard.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class Loop:
    """What the loop is given, in the order of the operator's arguments.

    `of_input` is W x + b of the lowest layer for the part of its input that is known before;
    `context` is the part of its W that contexts are multiplied by, and `gate` and `gate_bias` make
    of the state that asked how much of a context enters. `weights` are U and c of the lowest layer,
    then W, b, U and c of every other. `drop` multiplies attention weights and `between` what a
    layer hands to the next. Everything has one type."""

    of_input: Float[Tensor, "batch target gates"]
    hidden: Float[Tensor, "batch layer hidden"]
    cell: Float[Tensor, "batch layer hidden"] | None
    keys: Float[Tensor, "batch source size"]
    values: Float[Tensor, "batch source value"]
    vector: Float[Tensor, "size"]
    query: Float[Tensor, "size hidden"]
    context: Float[Tensor, "gates value"]
    gate: Float[Tensor, "1 hidden"] | None
    gate_bias: Float[Tensor, "1"] | None
    weights: list[Tensor]
    mask: Bool[Tensor, "#batch 1 source"] | None
    drop: Float[Tensor, "batch target source"] | None
    between: Float[Tensor, "target above batch hidden"] | None
    scale: float
    kind: CellKind
    attend_first: bool

    def to(self, dtype: torch.dtype) -> Loop:
        """With every number in this type."""
        numbers: dict[str, Any] = {
            name: value.to(dtype)
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return replace(self, **numbers, weights=[weight.to(dtype) for weight in self.weights])


@dataclass(frozen=True)
class LoopRun:
    """What the loop computed: the states of the top layer, the contexts as they were before a gate,
    and the weights of attention before dropout; and what the way back needs beside these: every
    state from the first on (of cells none, where there are none) and what the cells' gates were."""

    top: Float[Tensor, "batch target hidden"]
    contexts: Float[Tensor, "batch target value"]
    shares: Float[Tensor, "batch target source"]
    hiddens: Float[Tensor, "moment layer batch hidden"]
    cells: Float[Tensor, "_ layer batch hidden"]
    kept: Float[Tensor, "target layer batch kept"]


def run(loop: Loop) -> LoopRun:
    """All steps, with gradients to everything that is a number. ValueError for shapes, types or
    devices that do not fit."""
    _check(loop)
    return LoopRun(*_run(*vars(loop).values()))


def _check(loop: Loop) -> None:
    batch, target, _ = loop.of_input.shape
    _, layers, size = loop.hidden.shape
    _, source, key_size = loop.keys.shape
    gates, value = NUM_GATES[loop.kind] * size, loop.values.size(2)
    expected: dict[str, tuple[int, ...]] = {
        "of_input": (batch, target, gates),
        "hidden": (batch, layers, size),
        "cell": (batch, layers, size),
        "keys": (batch, source, key_size),
        "values": (batch, source, value),
        "vector": (key_size,),
        "query": (key_size, size),
        "context": (gates, value),
        "gate": (1, size),
        "gate_bias": (1,),
        "drop": (batch, target, source),
        "between": (target, layers - 1, batch, size),
    }
    numbers = [(name, getattr(loop, name), shape) for name, shape in expected.items()]
    of_layers = [(gates, size), (gates,)] * (2 * layers - 1)
    if len(loop.weights) != len(of_layers) or (loop.cell is None) == (loop.kind == "lstm"):
        raise ValueError(
            f"expected {len(of_layers)} weights for {layers} layers, and a cell for an lstm alone; "
            f"got {len(loop.weights)} weights, {'no' if loop.cell is None else 'a'} cell"
        )
    numbers += [("weights", *pair) for pair in zip(loop.weights, of_layers, strict=True)]
    for name, tensor, shape in numbers:
        if tensor is None:
            continue
        if tensor.shape != shape or tensor.dtype != loop.hidden.dtype:
            raise ValueError(
                f"{name}: expected {loop.hidden.dtype} of shape {shape}, got {tensor.dtype} of "
                f"shape {tuple(tensor.shape)}"
            )
        if tensor.device != loop.hidden.device:
            raise ValueError(f"{name}: expected {loop.hidden.device}, got {tensor.device}")
    mask = loop.mask
    if mask is not None and (mask.dtype != torch.bool or mask.shape not in _masks(loop)):
        raise ValueError(
            f"mask: expected bool of shape (1 or {batch}, 1, {source}), got {mask.dtype} of shape "
            f"{tuple(mask.shape)}"
        )
    if mask is not None and mask.device != loop.hidden.device:
        raise ValueError(f"mask: expected {loop.hidden.device}, got {mask.device}")


def _masks(loop: Loop) -> list[tuple[int, ...]]:
    source = loop.keys.size(1)
    return [(1, 1, source), (len(loop.hidden), 1, source)]


OF_LOOP = (
    "Tensor of_input, Tensor hidden, Tensor? cell, Tensor keys, Tensor values, Tensor vector, "
    "Tensor query, Tensor context, Tensor? gate, Tensor? gate_bias, Tensor[] weights, "
    "Tensor? mask, Tensor? drop, Tensor? between, float scale, str kind, bool attend_first"
)
OF_RUN = "Tensor top, Tensor contexts, Tensor shares, Tensor hiddens, Tensor cells, Tensor kept"
ARGUMENTS = [field.name for field in fields(Loop)]
WEIGHTS = ARGUMENTS.index("weights")
"""Gradients go to what comes before these, and to these."""


@torch.library.custom_op(
    "regard::attending_loop",
    mutates_args=(),
    schema=f"({OF_LOOP}) -> ({', '.join(['Tensor'] * 6)})",
)
def _run(*arguments: Any) -> tuple[Tensor, ...]:
    loop = Loop(*arguments)
    with torch.autocast(loop.hidden.device.type, enabled=False):
        return _forward(loop)


@torch.library.custom_op(
    "regard::attending_loop_backward",
    mutates_args=(),
    schema="(Tensor? grad_top, Tensor? grad_contexts, Tensor? grad_shares, "
    f"{OF_LOOP}, {OF_RUN}) -> Tensor[]",
)
def _back(
    grad_top: Tensor | None,
    grad_contexts: Tensor | None,
    grad_shares: Tensor | None,
    *rest: Any,
) -> list[Tensor]:
    loop, found = Loop(*rest[: len(ARGUMENTS)]), LoopRun(*rest[len(ARGUMENTS) :])
    with torch.autocast(loop.hidden.device.type, enabled=False):
        return _WayBack(loop, found, grad_contexts, grad_shares).walk(grad_top)


def _layers(loop: Loop) -> Iterator[tuple[Tensor, Tensor]]:
    """U and c of every layer."""
    yield loop.weights[0], loop.weights[1]
    for first in range(2, len(loop.weights), 4):
        yield loop.weights[first + 2], loop.weights[first + 3]


def _gates(loop: Loop, states: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch 1"] | None:
    """How much of their contexts enters, for states that ask; None where all of it does."""
    if loop.gate is None:
        return None
    return torch.sigmoid(F.linear(states, loop.gate, loop.gate_bias))


def _new(loop: Loop) -> tuple[Tensor, ...]:
    """Room for what a run finds."""
    batch, target, _ = loop.of_input.shape
    layers, size = loop.hidden.shape[1:]
    new = loop.hidden.new_empty
    return (
        new(batch, target, size),
        new(batch, target, loop.values.size(2)),
        new(batch, target, loop.keys.size(1)),
        new(target + 1, layers, batch, size),
        new(0 if loop.cell is None else target + 1, layers, batch, size),
        new(target, layers, batch, NUM_KEPT[loop.kind] * size),
    )


def _forward(loop: Loop) -> tuple[Tensor, ...]:
    top, contexts, shares, hiddens, cells, kept = _new(loop)
    hiddens[0] = loop.hidden.transpose(0, 1)
    if loop.cell is not None:
        cells[0] = loop.cell.transpose(0, 1)
    backend, at_cells = choose_attention(loop.keys, loop.values), choose_cells(loop.hidden)
    memory, of_context = _memory(loop, backend), loop.context.contiguous()
    layers = list(_layers(loop))
    context = loop.values.new_zeros(loop.values.size(0), loop.values.size(2))

    def ask(state: Tensor, step: int) -> Tensor:
        now = slice(step, step + 1)
        contexts[:, now], shares[:, now] = backend.attend(
            linear(state, loop.query)[:, None],
            memory,
            None if loop.drop is None else loop.drop[:, now],
        )
        gate = _gates(loop, state)
        return contexts[:, step] if gate is None else contexts[:, step] * gate

    for step in range(loop.of_input.size(1)):
        if loop.attend_first:
            context = ask(hiddens[step, -1], step)
        entering = linear(context, of_context).add_(loop.of_input[:, step])
        for layer, (recurrent, bias) in enumerate(layers):
            if layer:
                below = hiddens[step + 1, layer - 1]
                if loop.between is not None:
                    below = below * loop.between[step, layer - 1]
                weight, shift = loop.weights[4 * layer - 2 : 4 * layer]
                entering = linear(below, weight, shift)
            last, new = _around(hiddens, cells, step, layer)
            around = linear(last.hidden, recurrent, bias)
            at_cells.step(loop.kind, Step(entering, around, last, new, kept[step, layer]))
        if not loop.attend_first:
            context = ask(hiddens[step + 1, -1], step)
    top.copy_(hiddens[1:, -1].transpose(0, 1))
    return top, contexts, shares, hiddens, cells, kept


def _memory(loop: Loop, backend: ModuleType) -> AdditiveMemory:
    """Keys and values of every step, with the powers of the keys."""
    powers = backend.powers(loop.keys)
    return AdditiveMemory(loop.keys, loop.vector, loop.values, loop.mask, loop.scale, powers)


def _around(hiddens: Tensor, cells: Tensor, step: int, layer: int) -> tuple[CellState, CellState]:
    """The states of a layer before and after a step."""
    last, new = (
        CellState(hiddens[moment, layer], cells[moment, layer] if len(cells) else None)
        for moment in (step, step + 1)
    )
    return last, new


class _WayBack:
    """The gradients that every step leaves behind, and what is made of them at the end."""

    def __init__(
        self, loop: Loop, found: LoopRun, of_contexts: Tensor | None, of_shares: Tensor | None
    ) -> None:
        self.loop, self.found = loop, found
        self.of_contexts, self.of_shares = of_contexts, of_shares
        self.backend = choose_attention(loop.keys, loop.values)
        self.cells = choose_cells(loop.hidden)
        self.memory, self.context = _memory(loop, self.backend), loop.context.contiguous()
        target, num_layers, batch, _ = found.kept.shape
        gates = NUM_GATES[loop.kind] * loop.hidden.size(2)
        new = loop.hidden.new_empty
        self.asked_by = found.hiddens[:-1, -1] if loop.attend_first else found.hiddens[1:, -1]
        self.asking = linear(self.asked_by.flatten(0, 1), loop.query).view(target, batch, -1)
        self.gates = _gates(loop, self.asked_by)
        self.grad_gates = new(target, batch, 1).zero_()
        self.grad_inputs = new(num_layers, target, batch, gates)
        self.grad_recurrent = self.grad_inputs
        if loop.kind == "gru":
            self.grad_recurrent = new(num_layers, target, batch, gates)
        self.grad_contexts = new(batch, target, loop.values.size(2))
        self.grad_scores = new(batch, target, loop.keys.size(1))
        self.grad_asking = new(target, batch, loop.keys.size(2))

    def walk(self, grad_top: Tensor | None) -> list[Tensor]:
        loop, found = self.loop, self.found
        layers = list(_layers(loop))
        passed = torch.zeros_like(found.hiddens[0])
        cell = torch.zeros_like(found.cells[0]) if len(found.cells) else None
        around: list[Tensor | None] = [None] * len(layers)
        later: Tensor | None = None  # what the next step's input passes to this one's context
        if grad_top is not None and grad_top.stride(2) != 1:
            grad_top = grad_top.contiguous()
        for step in reversed(range(loop.of_input.size(1))):
            above = None if grad_top is None else grad_top[:, step]
            if not loop.attend_first:
                passed[-1] += self._ask(step, later)
            for layer in reversed(range(len(layers))):
                place = StepBack(
                    above,
                    around[layer],
                    passed[layer],
                    None if cell is None else cell[layer],
                    *_around(found.hiddens, found.cells, step, layer),
                    found.kept[step, layer],
                    self.grad_inputs[layer, step],
                    self.grad_recurrent[layer, step],
                )
                self.cells.back(loop.kind, place)
                around[layer] = linear(place.recurrent, layers[layer][0].T)
                if layer:
                    above = linear(place.of_input, loop.weights[4 * layer - 2].T)
                    if loop.between is not None:
                        above = above * loop.between[step, layer - 1]
                else:
                    later = linear(place.of_input, self.context.T)
            if loop.attend_first:
                passed[-1] += self._ask(step, later)
        for hidden, rest in zip(passed, around, strict=True):
            if rest is not None:
                hidden += rest
        return self._settle(
            passed.transpose(0, 1).contiguous(),
            None if cell is None else cell.transpose(0, 1).contiguous(),
        )

    def _ask(self, step: int, later: Tensor | None) -> Tensor:
        """The gradient of the state that asked, from that of what entered the cell."""
        loop, now = self.loop, slice(step, step + 1)
        grad_context = self.grad_contexts[:, now].zero_()
        if self.of_contexts is not None:
            grad_context += self.of_contexts[:, now]
        if later is not None:
            grad_context[:, 0] += self._through_gate(step, later)
        grad_shares = torch.bmm(grad_context, loop.values.mT)
        if loop.drop is not None:
            grad_shares.mul_(loop.drop[:, now])
        if self.of_shares is not None:
            grad_shares += self.of_shares[:, now]
        shares = self.found.shares[:, now]
        grad_scores = self.backend.through_softmax(grad_shares, shares, loop.mask, loop.scale)
        self.grad_scores[:, now] = grad_scores
        asking = self.asking[step, :, None]
        grad_query = self.backend.differentiate_queries(grad_scores, asking, self.memory)[:, 0]
        self.grad_asking[step] = grad_query
        asked = linear(grad_query, loop.query.T)
        return asked if loop.gate is None else asked + self.grad_gates[step] * loop.gate

    def _through_gate(self, step: int, later: Tensor) -> Tensor:
        """The gradient of a context, from that of what its gate let through."""
        if self.gates is None:
            return later
        gate = self.gates[step]
        of_gate = (later * self.found.contexts[:, step]).sum(dim=1, keepdim=True)
        self.grad_gates[step] = of_gate * gate * (1 - gate)
        return later * gate

    def _settle(self, hidden: Tensor, cell: Tensor | None) -> list[Tensor]:
        """The sums over all steps, in the order of the arguments."""
        loop, found = self.loop, self.found
        grad_keys, grad_vector = self.backend.differentiate_keys(
            self.grad_scores, self.asking.transpose(0, 1), self.memory
        )
        kept = found.shares if loop.drop is None else found.shares * loop.drop
        contexts = found.contexts.transpose(0, 1)
        if self.gates is not None:
            contexts = contexts * self.gates
        if not loop.attend_first:
            contexts = torch.cat([torch.zeros_like(contexts[:1]), contexts[:-1]])
        gradients = [
            self.grad_inputs[0].transpose(0, 1).contiguous(),
            hidden,
            hidden.new_empty(0) if cell is None else cell,
            grad_keys,
            torch.bmm(kept.mT, self.grad_contexts),
            grad_vector,
            _outer(self.grad_asking, self.asked_by),
            _outer(self.grad_inputs[0], contexts),
            *self._settle_gate(),
        ]
        for layer in range(found.kept.size(1)):
            if layer:
                below = found.hiddens[1:, layer - 1]
                if loop.between is not None:
                    below = below * loop.between[:, layer - 1]
                gradients.append(_outer(self.grad_inputs[layer], below))
                gradients.append(self.grad_inputs[layer].sum(dim=(0, 1)))
            gradients.append(_outer(self.grad_recurrent[layer], found.hiddens[:-1, layer]))
            gradients.append(self.grad_recurrent[layer].sum(dim=(0, 1)))
        return gradients

    def _settle_gate(self) -> tuple[Tensor, Tensor]:
        """The gradients of the gate's weight and bias; nothing twice, where there is none."""
        if self.gates is None:
            return self.grad_gates.new_empty(0), self.grad_gates.new_empty(0)
        return _outer(self.grad_gates, self.asked_by), self.grad_gates.sum(dim=(0, 1))


def _outer(gradients: Tensor, entered: Tensor) -> Tensor:
    """The gradient of a matrix, from those of its products and from what entered them."""
    return weight_gradient(gradients.flatten(0, 1), entered.flatten(0, 1))


@_run.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    return _new(Loop(*arguments))


@_back.register_fake
def _(
    grad_top: Tensor | None,
    grad_contexts: Tensor | None,
    grad_shares: Tensor | None,
    *rest: Any,
) -> list[Tensor]:
    del grad_top, grad_contexts, grad_shares
    given = [*rest[:WEIGHTS], *rest[WEIGHTS]]
    return [rest[1].new_empty(0 if x is None else x.shape) for x in given]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    loop = Loop(*inputs)
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.loop = [None if isinstance(value, Tensor | list) else value for value in inputs]
    ctx.places = [place for place, value in enumerate(inputs) if isinstance(value, Tensor)]
    ctx.save_for_backward(*tensors, *loop.weights, *output)
    ctx.mark_non_differentiable(*output[3:])
    ctx.set_materialize_grads(False)


def _through(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
    saved = list(ctx.saved_tensors)
    inputs = list(ctx.loop)
    for place, value in zip(ctx.places, saved, strict=False):
        inputs[place] = value
    inputs[WEIGHTS] = saved[len(ctx.places) : -6]
    found = _back(*gradients[:3], *inputs, *saved[-6:])
    given = [None if x is None else y for x, y in zip(inputs, found[:WEIGHTS], strict=False)]
    return (*given, found[WEIGHTS:], *[None] * (len(inputs) - WEIGHTS - 1))


def _keep_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    del ctx, inputs, output


def _refuse(ctx: Any, *gradients: Any) -> Any:
    del ctx, gradients
    raise NotImplementedError(
        "the attending loop has first derivatives only, but a second one was asked for: "
        "step through the decoder for that"
    )


_run.register_autograd(_through, setup_context=_keep)
_back.register_autograd(_refuse, setup_context=_keep_nothing)
