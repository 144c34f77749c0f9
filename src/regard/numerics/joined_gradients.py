"""One gradient for parameters that every step of a loop reads.

    y_t = W x_t        dW = sum over t of dy_t x_t^T = dY^T X

Autograd computes such a product for each step and adds it to the sum. A step has few rows, so this
takes as long as the rest of its backward pass. Inside `joined_gradients`, the steps only save dy_t
and x_t, and one product follows when the gradients of all steps are known.

    forward     W --_Join--> alias of W --> step 1, step 2, ...
    backward    step n, ..., step 1 save their factors --> _Join computes dW

Autograd runs `_Join` after all steps, because each of them has read an alias that it returned.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch

from regard.shapes import Tensor

GradientFunction = Callable[..., tuple[Tensor | None, ...]]
"""Function that returns the gradients of parameters. Its arguments are the options of
`joined_parameters`, whether each parameter needs a gradient, and the factors of all steps,
concatenated along the first axis."""

Passes = dict[int, list[tuple[Tensor, ...]]]
"""Factors of the steps so far, by the number of the backward pass."""


class JoinedParameters:
    """Parameters as the steps of one loop read them (`tensors`)."""

    def __init__(self, parameters: Sequence[Tensor | None], compute: GradientFunction) -> None:
        self._passes: Passes = {}
        self.tensors: tuple[Tensor | None, ...] = _Join.apply(self._passes, compute, *parameters)

    def save(self, *factors: Tensor) -> None:
        """Save the factors of one step for the gradients of the parameters, in its backward pass.
        The step returns None as their gradients."""
        number, passes = torch._C._current_graph_task_id(), self._passes
        if number not in passes:
            passes[number] = []
            # a pass that needs no gradient of the parameters does not run _Join
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(partial(passes.pop, number, None))
        passes[number].append(tuple(factor.detach() for factor in factors))


class _Join(torch.autograd.Function):
    """Identity whose gradient is computed from the factors that the steps saved."""

    @staticmethod
    def forward(
        ctx: Any, passes: Passes, compute: GradientFunction, *parameters: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        ctx.passes, ctx.compute = passes, compute
        ctx.set_materialize_grads(False)
        return parameters

    @staticmethod
    def backward(ctx: Any, *grad_outputs: None) -> tuple[Tensor | None, ...]:
        del grad_outputs  # None: the steps save factors instead
        steps = ctx.passes.pop(torch._C._current_graph_task_id(), [])
        needs_gradient = ctx.needs_input_grad[2:]
        if not steps:
            return None, None, *[None] * len(needs_gradient)
        factors = [
            parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*steps, strict=True)
        ]
        compute = partial(ctx.compute, *needs_gradient, *factors)
        if not torch.is_grad_enabled():
            return None, None, *compute()
        marker = torch.empty(0, requires_grad=True)
        return None, None, *_FirstDerivatives.apply(marker, compute)


class _FirstDerivatives(torch.autograd.Function):
    """Gradients in a pass that may be differentiated again (`create_graph`)."""

    @staticmethod
    def forward(
        ctx: Any, marker: Tensor, compute: Callable[[], tuple[Tensor | None, ...]]
    ) -> tuple[Tensor | None, ...]:
        del ctx, marker
        return compute()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        del ctx, grad_outputs
        raise NotImplementedError(
            "parameters of a loop have first derivatives only, but a second derivative was "
            "requested: call the steps outside of joined_gradients"
        )


_Loop = dict[tuple[Any, ...], tuple[tuple[Tensor | None, ...], JoinedParameters]]
"""Parameters of a loop by their identities, their type and how their gradients are computed. The
original parameters are kept, because another tensor could otherwise get the identity of a deleted
one."""

_present: ContextVar[_Loop | None] = ContextVar("_present", default=None)


@contextmanager
def joined_gradients() -> Iterator[None]:
    """Join the gradients of the parameters that the steps of a loop read by `affine` and `lookup`:
    each gets one gradient for all steps. `torch.compile` computes the loop as without it."""
    if torch.compiler.is_compiling():
        yield
        return
    token = _present.set({})
    try:
        yield
    finally:
        _present.reset(token)


def joined_parameters(
    parameters: tuple[Tensor | None, ...],
    dtype: torch.dtype,
    compute: GradientFunction,
    *options: Hashable,
) -> JoinedParameters | None:
    """Return parameters of the present loop in this type, with gradients computed with these
    options; None outside of a loop, or if no parameter needs a gradient."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return None
    loop = _present.get()
    if loop is None:
        return None
    if not any(parameter is not None and parameter.requires_grad for parameter in parameters):
        return None
    key = (*map(id, parameters), dtype, compute, *options)
    if key not in loop:
        converted = [None if parameter is None else parameter.to(dtype) for parameter in parameters]
        loop[key] = parameters, JoinedParameters(converted, partial(compute, *options))
    return loop[key][1]
