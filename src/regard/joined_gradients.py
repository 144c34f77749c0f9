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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from regard.shapes import Tensor

Gradients = Callable[..., tuple[Tensor | None, ...]]
"""Function that computes the gradients of parameters from whether each needs one, and from the
factors of all steps, concatenated along the first axis."""


class JoinedParameters:
    """Parameters as the steps of one loop read them (`tensors`)."""

    def __init__(self, parameters: Sequence[Tensor | None], gradients: Gradients) -> None:
        self._steps: dict[int, list[tuple[Tensor, ...]]] = {}
        self.tensors: tuple[Tensor | None, ...] = _Join.apply(self._steps, gradients, *parameters)

    def save(self, *factors: Tensor) -> None:
        """Save the factors of one step for the gradients of the parameters, in its backward pass.
        The step returns None as their gradients."""
        self._steps.setdefault(torch._C._current_graph_task_id(), []).append(factors)


class _Join(torch.autograd.Function):
    """Identity whose gradient is computed from the factors that the steps saved."""

    @staticmethod
    def forward(
        ctx: Any,
        steps: dict[int, list[tuple[Tensor, ...]]],
        gradients: Gradients,
        *parameters: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        ctx.steps, ctx.gradients = steps, gradients
        ctx.set_materialize_grads(False)
        return parameters

    @staticmethod
    def backward(ctx: Any, *grad_outputs: None) -> tuple[Tensor | None, ...]:
        del grad_outputs  # None: the steps save factors instead
        steps = ctx.steps.pop(torch._C._current_graph_task_id(), [])
        needs_gradient = ctx.needs_input_grad[2:]
        if not steps:
            return None, None, *[None] * len(needs_gradient)
        factors = [torch.cat(parts) for parts in zip(*steps, strict=True)]
        return None, None, *_Gradients.apply(ctx.gradients, needs_gradient, *factors)


class _Gradients(torch.autograd.Function):
    """The gradients of the parameters, which have no derivatives themselves."""

    @staticmethod
    def forward(
        ctx: Any, gradients: Gradients, needs_gradient: tuple[bool, ...], *factors: Tensor
    ) -> tuple[Tensor | None, ...]:
        del ctx
        return gradients(*needs_gradient, *factors)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        del ctx, grad_outputs
        raise NotImplementedError(
            "parameters of a loop have first derivatives only, but a second derivative was "
            "requested: call the steps outside of joined_gradients"
        )


_Loop = dict[tuple[Any, ...], tuple[tuple[Tensor | None, ...], JoinedParameters]]
"""Parameters of a loop by their identities and type. Original parameters are kept, because another
tensor could otherwise get the identity of a deleted one."""

_loop: ContextVar[_Loop | None] = ContextVar("_loop", default=None)


@contextmanager
def joined_gradients() -> Iterator[None]:
    """Join the gradients of the parameters that the steps of a loop read by `affine` and `lookup`:
    each gets one gradient for all steps."""
    token = _loop.set({})
    try:
        yield
    finally:
        _loop.reset(token)


def joined_parameters(
    parameters: tuple[Tensor | None, ...], dtype: torch.dtype, gradients: Gradients
) -> JoinedParameters | None:
    """Return parameters of the present loop in this type; None outside of a loop, or if no
    parameter needs a gradient."""
    loop = _loop.get()
    if loop is None or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    if not any(parameter is not None and parameter.requires_grad for parameter in parameters):
        return None
    key = (*map(id, parameters), dtype)
    if key not in loop:
        converted = [None if parameter is None else parameter.to(dtype) for parameter in parameters]
        loop[key] = parameters, JoinedParameters(converted, gradients)
    return loop[key][1]
