"""The loop of a recurrent decoder with attention as one operator with its own gradient.

    attend first (Bahdanau)    c_t = attend(s_{t-1})           s_t = RNN(s_{t-1}, [x_t; c_t])
    attend after (Luong)       s_t = RNN(s_{t-1}, [x_t; c_{t-1}])          c_t = attend(s_t)
    with a gate (Xu)           sigmoid(w s + b) c instead of c, for the state s of the query

Every layer of the RNN computes the gates of its cell from its input and its last state:

    input gates      W input + b
    recurrent gates  U state + c

A backward step needs the gradient of its state at once. The gradients of keys, values and weights
are sums over steps, so they are computed at the end, for all steps together: the same sums in a
fraction of the time.

    forward       s_0 -> s_1 -> ... -> s_n           every step attends to the keys
    backward      ds_n -> ... -> ds_0                every step saves the gradient g_t of its scores
    at the end    dkeys, dvalues, dweights           from g_1 .. g_n together
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F

from regard.compiled.attention.fused_additive.backends import choose as choose_attention
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.compiled.recurrent.cells import NUM_SAVED, CellBackward, CellStep
from regard.compiled.recurrent.native_cells import choose as choose_cells
from regard.layers.recurrent.cells import NUM_GATES, CellState
from regard.names import CellKind
from regard.numerics.linear import linear, weight_gradient
from regard.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class Loop:
    """Arguments of the loop, in the order of the operator's arguments.

    `input_gates` is W input + b of the lowest layer for the embedded tokens of all steps, without
    the contexts; `context_weight` is the part of W that multiplies contexts. `gate_weight` and
    `gate_bias` map the state of the query to the gate of its context. `parameters` are U and c of
    the lowest layer, then W, b, U and c of every other layer. `attention_dropout` multiplies
    attention weights, and `layer_dropout` the output of each layer but the top one. All numbers
    have one type."""

    input_gates: Float[Tensor, "batch target gates"]
    hidden: Float[Tensor, "batch layer hidden"]
    cell: Float[Tensor, "batch layer hidden"] | None
    keys: Float[Tensor, "batch source size"]
    values: Float[Tensor, "batch source value"]
    vector: Float[Tensor, "size"]
    query_weight: Float[Tensor, "size hidden"]
    context_weight: Float[Tensor, "gates value"]
    gate_weight: Float[Tensor, "1 hidden"] | None
    gate_bias: Float[Tensor, "1"] | None
    parameters: list[Tensor]
    mask: Bool[Tensor, "#batch 1 source"] | None
    attention_dropout: Float[Tensor, "batch target source"] | None
    layer_dropout: Float[Tensor, "target above batch hidden"] | None
    scale: float
    kind: CellKind
    attend_first: bool

    def to(self, dtype: torch.dtype) -> Loop:
        """Return the loop with all numbers in this type."""
        numbers: dict[str, Any] = {
            name: value.to(dtype)
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return replace(
            self, **numbers, parameters=[parameter.to(dtype) for parameter in self.parameters]
        )


@dataclass(frozen=True)
class LoopRun:
    """Results of the loop.

    `top` has the states of the top layer, `contexts` the contexts before the gate, and `weights`
    the attention weights before dropout. The rest is saved for the gradient: hidden states and
    cells of all layers from the first state on (no cells if the kind has none), and the cells'
    `saved`."""

    top: Float[Tensor, "batch target hidden"]
    contexts: Float[Tensor, "batch target value"]
    weights: Float[Tensor, "batch target source"]
    hiddens: Float[Tensor, "moment layer batch hidden"]
    cells: Float[Tensor, "_ layer batch hidden"]
    saved: Float[Tensor, "target layer batch saved"]


def run(loop: Loop) -> LoopRun:
    """Run all steps, with gradients of every tensor of numbers. ValueError for shapes, types or
    devices that do not fit."""
    _check(loop)
    return LoopRun(*_run(*vars(loop).values()))


def _check(loop: Loop) -> None:
    batch, target, _ = loop.input_gates.shape
    _, layers, size = loop.hidden.shape
    _, source, key_size = loop.keys.shape
    gates, value = NUM_GATES[loop.kind] * size, loop.values.size(2)
    expected: dict[str, tuple[int, ...]] = {
        "input_gates": (batch, target, gates),
        "hidden": (batch, layers, size),
        "cell": (batch, layers, size),
        "keys": (batch, source, key_size),
        "values": (batch, source, value),
        "vector": (key_size,),
        "query_weight": (key_size, size),
        "context_weight": (gates, value),
        "gate_weight": (1, size),
        "gate_bias": (1,),
        "attention_dropout": (batch, target, source),
        "layer_dropout": (target, layers - 1, batch, size),
    }
    numbers = [(name, getattr(loop, name), shape) for name, shape in expected.items()]
    of_layers = [(gates, size), (gates,)] * (2 * layers - 1)
    if len(loop.parameters) != len(of_layers) or (loop.cell is None) == (loop.kind == "lstm"):
        raise ValueError(
            f"expected {len(of_layers)} parameters for {layers} layers, and a cell for an lstm "
            f"only; got {len(loop.parameters)} parameters and {'no' if loop.cell is None else 'a'} "
            "cell"
        )
    numbers += [("parameters", *pair) for pair in zip(loop.parameters, of_layers, strict=True)]
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
    if mask is not None and (mask.dtype != torch.bool or mask.shape not in _mask_shapes(loop)):
        raise ValueError(
            f"mask: expected bool of shape (1 or {batch}, 1, {source}), got {mask.dtype} of shape "
            f"{tuple(mask.shape)}"
        )
    if mask is not None and mask.device != loop.hidden.device:
        raise ValueError(f"mask: expected {loop.hidden.device}, got {mask.device}")


def _mask_shapes(loop: Loop) -> list[tuple[int, ...]]:
    source = loop.keys.size(1)
    return [(1, 1, source), (len(loop.hidden), 1, source)]


LOOP_SCHEMA = (
    "Tensor input_gates, Tensor hidden, Tensor? cell, Tensor keys, Tensor values, Tensor vector, "
    "Tensor query_weight, Tensor context_weight, Tensor? gate_weight, Tensor? gate_bias, "
    "Tensor[] parameters, Tensor? mask, Tensor? attention_dropout, Tensor? layer_dropout, "
    "float scale, str kind, bool attend_first"
)
ARGUMENTS = [field.name for field in fields(Loop)]
PARAMETERS = ARGUMENTS.index("parameters")
"""Index of the parameters. They and the arguments before them have gradients."""
RESULTS = [field.name for field in fields(LoopRun)]
NUM_DIFFERENTIABLE = RESULTS.index("hiddens")
"""Number of results with gradients, which come first: top, contexts and weights."""
RUN_SCHEMA = ", ".join(f"Tensor {name}" for name in RESULTS)


@torch.library.custom_op(
    "regard::recurrent_attention_loop",
    mutates_args=(),
    schema=f"({LOOP_SCHEMA}) -> ({', '.join(['Tensor'] * len(RESULTS))})",
)
def _run(*arguments: Any) -> tuple[Tensor, ...]:
    loop = Loop(*arguments)
    with torch.autocast(loop.hidden.device.type, enabled=False):
        return _forward(loop)


@torch.library.custom_op(
    "regard::recurrent_attention_loop_backward",
    mutates_args=(),
    schema="(Tensor? grad_top, Tensor? grad_contexts, Tensor? grad_weights, "
    f"{LOOP_SCHEMA}, {RUN_SCHEMA}) -> Tensor[]",
)
def _run_backward(
    grad_top: Tensor | None,
    grad_contexts: Tensor | None,
    grad_weights: Tensor | None,
    *rest: Any,
) -> list[Tensor]:
    loop, result = Loop(*rest[: len(ARGUMENTS)]), LoopRun(*rest[len(ARGUMENTS) :])
    with torch.autocast(loop.hidden.device.type, enabled=False):
        return _Backward(loop, result, grad_contexts, grad_weights).run(grad_top)


def _layers(loop: Loop) -> Iterator[tuple[Tensor, Tensor]]:
    """Iterate over U and c of every layer."""
    yield loop.parameters[0], loop.parameters[1]
    for first in range(2, len(loop.parameters), 4):
        yield loop.parameters[first + 2], loop.parameters[first + 3]


def _context_gates(
    loop: Loop, states: Float[Tensor, "*batch hidden"]
) -> Float[Tensor, "*batch 1"] | None:
    """Return the gates of the contexts for the states of the queries; None without a gate."""
    if loop.gate_weight is None:
        return None
    return torch.sigmoid(F.linear(states, loop.gate_weight, loop.gate_bias))


def _empty_run(loop: Loop) -> tuple[Tensor, ...]:
    """Allocate the results of a run."""
    batch, target, _ = loop.input_gates.shape
    layers, size = loop.hidden.shape[1:]
    new = loop.hidden.new_empty
    return (
        new(batch, target, size),
        new(batch, target, loop.values.size(2)),
        new(batch, target, loop.keys.size(1)),
        new(target + 1, layers, batch, size),
        new(0 if loop.cell is None else target + 1, layers, batch, size),
        new(target, layers, batch, NUM_SAVED[loop.kind] * size),
    )


def _forward(loop: Loop) -> tuple[Tensor, ...]:
    top, contexts, weights, hiddens, cells, saved = _empty_run(loop)
    hiddens[0] = loop.hidden.transpose(0, 1)
    if loop.cell is not None:
        cells[0] = loop.cell.transpose(0, 1)
    backend, cell_backend = choose_attention(loop.keys, loop.values), choose_cells(loop.hidden)
    memory, context_weight = _memory(loop, backend), loop.context_weight.contiguous()
    layers = list(_layers(loop))
    context = loop.values.new_zeros(loop.values.size(0), loop.values.size(2))

    def attend(state: Tensor, step: int) -> Tensor:
        at = slice(step, step + 1)
        contexts[:, at], weights[:, at] = backend.attend(
            linear(state, loop.query_weight)[:, None],
            memory,
            None if loop.attention_dropout is None else loop.attention_dropout[:, at],
        )
        gate = _context_gates(loop, state)
        return contexts[:, step] if gate is None else contexts[:, step] * gate

    for step in range(loop.input_gates.size(1)):
        if loop.attend_first:
            context = attend(hiddens[step, -1], step)
        input_gates = linear(context, context_weight).add_(loop.input_gates[:, step])
        for layer, (recurrent, bias) in enumerate(layers):
            if layer:
                below = hiddens[step + 1, layer - 1]
                if loop.layer_dropout is not None:
                    below = below * loop.layer_dropout[step, layer - 1]
                weight, shift = loop.parameters[4 * layer - 2 : 4 * layer]
                input_gates = linear(below, weight, shift)
            last, new = _states(hiddens, cells, step, layer)
            recurrent_gates = linear(last.hidden, recurrent, bias)
            at = CellStep(input_gates, recurrent_gates, last, new, saved[step, layer])
            cell_backend.step(loop.kind, at)
        if not loop.attend_first:
            context = attend(hiddens[step + 1, -1], step)
    top.copy_(hiddens[1:, -1].transpose(0, 1))
    return top, contexts, weights, hiddens, cells, saved


def _memory(loop: Loop, backend: ModuleType) -> AdditiveMemory:
    """Return keys and values of every step, with the powers of the keys."""
    powers = backend.powers(loop.keys)
    return AdditiveMemory(loop.keys, loop.vector, loop.values, loop.mask, loop.scale, powers)


def _states(hiddens: Tensor, cells: Tensor, step: int, layer: int) -> tuple[CellState, CellState]:
    """Return the states of a layer before and after a step."""
    last, new = (
        CellState(hiddens[moment, layer], cells[moment, layer] if len(cells) else None)
        for moment in (step, step + 1)
    )
    return last, new


class _Backward:
    """Gradients saved by every step, and the sums over steps computed from them at the end."""

    def __init__(
        self,
        loop: Loop,
        result: LoopRun,
        grad_contexts: Tensor | None,
        grad_weights: Tensor | None,
    ) -> None:
        self.loop, self.result = loop, result
        self.outer_grad_contexts, self.outer_grad_weights = grad_contexts, grad_weights
        self.backend = choose_attention(loop.keys, loop.values)
        self.cells = choose_cells(loop.hidden)
        self.memory, self.context_weight = (
            _memory(loop, self.backend),
            loop.context_weight.contiguous(),
        )
        target, num_layers, batch, _ = result.saved.shape
        gates = NUM_GATES[loop.kind] * loop.hidden.size(2)
        new = loop.hidden.new_empty
        self.query_states = result.hiddens[:-1, -1] if loop.attend_first else result.hiddens[1:, -1]
        self.queries = linear(self.query_states.flatten(0, 1), loop.query_weight)
        self.queries = self.queries.view(target, batch, -1)
        self.gates = _context_gates(loop, self.query_states)
        self.grad_gates = new(target, batch, 1).zero_()
        self.grad_inputs = new(num_layers, target, batch, gates)
        self.grad_recurrent = self.grad_inputs
        if loop.kind == "gru":
            self.grad_recurrent = new(num_layers, target, batch, gates)
        self.grad_contexts = new(batch, target, loop.values.size(2))
        self.grad_scores = new(batch, target, loop.keys.size(1))
        self.grad_queries = new(target, batch, loop.keys.size(2))

    def run(self, grad_top: Tensor | None) -> list[Tensor]:
        """Return the gradients in the order of the arguments."""
        loop, result = self.loop, self.result
        layers = list(_layers(loop))
        carried = torch.zeros_like(result.hiddens[0])
        cell = torch.zeros_like(result.cells[0]) if len(result.cells) else None
        through_gates: list[Tensor | None] = [None] * len(layers)
        grad_entering: Tensor | None = None  # of the context, through the input of the cell
        if grad_top is not None and grad_top.stride(2) != 1:
            grad_top = grad_top.contiguous()
        for step in reversed(range(loop.input_gates.size(1))):
            grad_output = None if grad_top is None else grad_top[:, step]
            if not loop.attend_first:
                carried[-1] += self._attend(step, grad_entering)
            for layer in reversed(range(len(layers))):
                at = CellBackward(
                    grad_output,
                    through_gates[layer],
                    carried[layer],
                    None if cell is None else cell[layer],
                    *_states(result.hiddens, result.cells, step, layer),
                    result.saved[step, layer],
                    self.grad_inputs[layer, step],
                    self.grad_recurrent[layer, step],
                )
                self.cells.backward(loop.kind, at)
                through_gates[layer] = linear(at.grad_recurrent_gates, layers[layer][0].T)
                if layer:
                    grad_output = linear(at.grad_input_gates, loop.parameters[4 * layer - 2].T)
                    if loop.layer_dropout is not None:
                        grad_output = grad_output * loop.layer_dropout[step, layer - 1]
                else:
                    grad_entering = linear(at.grad_input_gates, self.context_weight.T)
            if loop.attend_first:
                carried[-1] += self._attend(step, grad_entering)
        for hidden, rest in zip(carried, through_gates, strict=True):
            if rest is not None:
                hidden += rest
        return self._sums(
            carried.transpose(0, 1).contiguous(),
            None if cell is None else cell.transpose(0, 1).contiguous(),
        )

    def _attend(self, step: int, grad_entering: Tensor | None) -> Tensor:
        """Return the gradient of the state of the query, given that of the gated context."""
        loop, at = self.loop, slice(step, step + 1)
        grad_context = self.grad_contexts[:, at].zero_()
        if self.outer_grad_contexts is not None:
            grad_context += self.outer_grad_contexts[:, at]
        if grad_entering is not None:
            grad_context[:, 0] += self._through_gate(step, grad_entering)
        grad_weights = torch.bmm(grad_context, loop.values.mT)
        if loop.attention_dropout is not None:
            grad_weights.mul_(loop.attention_dropout[:, at])
        if self.outer_grad_weights is not None:
            grad_weights += self.outer_grad_weights[:, at]
        weights = self.result.weights[:, at]
        grad_scores = self.backend.through_softmax(grad_weights, weights, loop.mask, loop.scale)
        self.grad_scores[:, at] = grad_scores
        queries = self.queries[step, :, None]
        grad_query = self.backend.differentiate_queries(grad_scores, queries, self.memory)[:, 0]
        self.grad_queries[step] = grad_query
        grad_state = linear(grad_query, loop.query_weight.T)
        if loop.gate_weight is None:
            return grad_state
        return grad_state + self.grad_gates[step] * loop.gate_weight

    def _through_gate(self, step: int, grad_gated: Tensor) -> Tensor:
        """Return the gradient of a context, given that of the gated context."""
        if self.gates is None:
            return grad_gated
        gate = self.gates[step]
        grad_gate = (grad_gated * self.result.contexts[:, step]).sum(dim=1, keepdim=True)
        self.grad_gates[step] = grad_gate * gate * (1 - gate)
        return grad_gated * gate

    def _sums(self, hidden: Tensor, cell: Tensor | None) -> list[Tensor]:
        """Return the sums over all steps, in the order of the arguments."""
        loop, result = self.loop, self.result
        grad_keys, grad_vector = self.backend.differentiate_keys(
            self.grad_scores, self.queries.transpose(0, 1), self.memory
        )
        weights = result.weights
        if loop.attention_dropout is not None:
            weights = weights * loop.attention_dropout
        contexts = result.contexts.transpose(0, 1)
        if self.gates is not None:
            contexts = contexts * self.gates
        if not loop.attend_first:
            contexts = torch.cat([torch.zeros_like(contexts[:1]), contexts[:-1]])
        gradients = [
            self.grad_inputs[0].transpose(0, 1).contiguous(),
            hidden,
            hidden.new_empty(0) if cell is None else cell,
            grad_keys,
            torch.bmm(weights.mT, self.grad_contexts),
            grad_vector,
            _weight_gradient(self.grad_queries, self.query_states),
            _weight_gradient(self.grad_inputs[0], contexts),
            *self._gate_sums(),
        ]
        for layer in range(result.saved.size(1)):
            if layer:
                below = result.hiddens[1:, layer - 1]
                if loop.layer_dropout is not None:
                    below = below * loop.layer_dropout[:, layer - 1]
                gradients.append(_weight_gradient(self.grad_inputs[layer], below))
                gradients.append(self.grad_inputs[layer].sum(dim=(0, 1)))
            states = result.hiddens[:-1, layer]
            gradients.append(_weight_gradient(self.grad_recurrent[layer], states))
            gradients.append(self.grad_recurrent[layer].sum(dim=(0, 1)))
        return gradients

    def _gate_sums(self) -> tuple[Tensor, Tensor]:
        """Return the gradients of the gate's weight and bias; empty tensors without a gate."""
        if self.gates is None:
            return self.grad_gates.new_empty(0), self.grad_gates.new_empty(0)
        grad_weight = _weight_gradient(self.grad_gates, self.query_states)
        return grad_weight, self.grad_gates.sum(dim=(0, 1))


def _weight_gradient(grad_outputs: Tensor, inputs: Tensor) -> Tensor:
    """Return the gradient of a weight, given those of its products and their inputs."""
    return weight_gradient(grad_outputs.flatten(0, 1), inputs.flatten(0, 1))


@_run.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    return _empty_run(Loop(*arguments))


@_run_backward.register_fake
def _(
    grad_top: Tensor | None,
    grad_contexts: Tensor | None,
    grad_weights: Tensor | None,
    *rest: Any,
) -> list[Tensor]:
    del grad_top, grad_contexts, grad_weights
    inputs = [*rest[:PARAMETERS], *rest[PARAMETERS]]
    hidden = rest[ARGUMENTS.index("hidden")]
    return [hidden.new_empty(0 if value is None else value.shape) for value in inputs]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    loop = Loop(*inputs)
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.loop = [None if isinstance(value, Tensor | list) else value for value in inputs]
    ctx.indices = [index for index, value in enumerate(inputs) if isinstance(value, Tensor)]
    ctx.save_for_backward(*tensors, *loop.parameters, *output)
    ctx.mark_non_differentiable(*output[NUM_DIFFERENTIABLE:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
    saved, num_tensors = list(ctx.saved_tensors), len(ctx.indices)
    inputs, results = list(ctx.loop), saved[-len(RESULTS) :]
    for index, tensor in zip(ctx.indices, saved[:num_tensors], strict=True):
        inputs[index] = tensor
    inputs[PARAMETERS] = saved[num_tensors : -len(RESULTS)]
    computed = _run_backward(*gradients[:NUM_DIFFERENTIABLE], *inputs, *results)
    of_inputs = [
        None if value is None else gradient
        for value, gradient in zip(inputs[:PARAMETERS], computed[:PARAMETERS], strict=True)
    ]
    return (*of_inputs, computed[PARAMETERS:], *[None] * (len(inputs) - PARAMETERS - 1))


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    del ctx, inputs, output


def _refuse(ctx: Any, *gradients: Any) -> Any:
    del ctx, gradients
    raise NotImplementedError(
        "the recurrent attention loop has first derivatives only, but a second derivative was "
        "requested: use unroll of regard.models.recurrent.unrolling"
    )


_run.register_autograd(_differentiate, setup_context=_save)
_run_backward.register_autograd(_refuse, setup_context=_save_nothing)
