"""Recurrent stacks whose layers are computed by `scan` and `step`, on CPUs with kernels and from
packed weights."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import cast

from torch import nn

from regard.compiled.exact import Accelerated, is_exactly
from regard.compiled.recurrent import layers as single
from regard.compiled.recurrent.scan import Layer, scan
from regard.layers.recurrent import fast_forward_stack, residual_stack, stack
from regard.layers.recurrent.cells import CellState
from regard.layers.recurrent.layers import run_from, run_sequences, step_weights
from regard.layers.recurrent.stack import LayerStack, RecurrentOutput
from regard.runtime.modes import needs_formula
from regard.shapes import Bool, Float, Int, Tensor


class _AnyStack(Accelerated):
    """A stack that also computes its layers from packed weights."""

    def packable_weights(self) -> Iterable[tuple[nn.Module, str]]:
        any_stack = cast(AnyStack, self)
        if is_exact(any_stack):
            for layer in any_stack.modules():
                if isinstance(layer, nn.RNNBase):
                    for name, _ in layer.named_parameters():
                        if name.startswith("weight"):
                            yield layer, name


class _Stack(_AnyStack):
    """A stack whose layers have one input. A replaced layer and a layer with hooks are called."""

    def step(
        self,
        inputs: Float[Tensor, "batch input"],
        hidden: Float[Tensor, "batch layer hidden"],
        cell: Float[Tensor, "batch layer hidden"] | None = None,
    ) -> RecurrentOutput:
        any_stack = cast(LayerStack, self)
        if needs_formula() or not (is_exactly(self, type(self)) and is_exact(any_stack)):
            return self.formula.step(inputs, hidden, cell)
        any_stack._check(inputs, 2, hidden, cell)
        has_kernel = single.has_kernel(any_stack.layers[0], inputs)
        step = single.scan_step if has_kernel else single.torch_step
        last = partial(CellState.of_layer, hidden, cell)

        def run_step(number: int, layer: nn.Module, below: Tensor) -> tuple[Tensor, CellState]:
            end = step(layer, below[:, 0], last(number))
            return end.hidden[:, None], end

        return any_stack._run(inputs[:, None], run_step)

    def _from_state(
        self, layer: nn.Module, inputs: Float[Tensor, "batch position input"], first: CellState
    ) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
        if _scans(self, inputs):
            return single.scan_from(layer, inputs, first)
        return run_from(single.unpacked(layer), inputs, first)

    def _sequences(
        self,
        layer: nn.Module,
        inputs: Float[Tensor, "batch position input"],
        mask: Bool[Tensor, "batch position"],
        lengths: Int[Tensor, "batch"] | None,
    ) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
        if _scans(self, inputs):
            return single.scan_sequences(layer, inputs, mask, lengths)
        return run_sequences(single.unpacked(layer), inputs, mask, lengths)


class RecurrentStack(_Stack, stack.RecurrentStack):
    """`RecurrentStack` by `scan`."""


class ResidualStack(_Stack, residual_stack.ResidualStack):
    """`ResidualStack` by `scan`."""


class FastForwardStack(_AnyStack, fast_forward_stack.FastForwardStack):
    """`FastForwardStack` with one operator for all positions of a layer."""

    def _run(
        self,
        layer: nn.Module,
        gates: Float[Tensor, "batch position gates"],
        first: CellState,
        mask: Bool[Tensor, "batch position"] | None = None,
        *,
        backwards: bool = False,
    ) -> tuple[Float[Tensor, "batch position hidden"], CellState]:
        if needs_formula():
            return super()._run(layer, gates, first, mask, backwards=backwards)
        _, _, recurrent, shift = step_weights(layer)
        real = None if mask is None else mask.T
        direction = Layer(self.kind, recurrent, shift, backwards)
        output = scan(direction, gates.transpose(0, 1), first, real)
        return output.states.transpose(0, 1), CellState(output.hidden, output.cell)


AnyStack = LayerStack | fast_forward_stack.FastForwardStack


def is_exact(any_stack: AnyStack) -> bool:
    """Whether every layer is exactly of the type that the stack creates, without hooks, so that
    `scan` may replace it."""
    return all(single.is_exact(layer, any_stack.kind) for layer in layers_of(any_stack))


def layers_of(any_stack: AnyStack) -> Iterable[nn.Module]:
    """Iterate over the layers of a stack."""
    if isinstance(any_stack, fast_forward_stack.FastForwardStack):
        return chain.from_iterable(column.children() for column in any_stack.columns)
    return any_stack.layers


def _scans(accelerated: _Stack, inputs: Tensor) -> bool:
    """Whether `scan` computes the layers: if all are exactly PyTorch's, and the kernels run or the
    weights are packed, which PyTorch's layers do not support."""
    any_stack = cast(LayerStack, accelerated)
    return single.has_kernel(any_stack.layers[0], inputs) and is_exact(any_stack)


TWINS = {
    stack.RecurrentStack: RecurrentStack,
    residual_stack.ResidualStack: ResidualStack,
    fast_forward_stack.FastForwardStack: FastForwardStack,
}
