"""Additive attention as operators of PyTorch, for compile, export, autograd and autocast.

    regard::additive_attend     queries, keys, vector, values -> contexts, weights
    regard::additive_score      queries, keys, vector -> scores

The gradient of each is an operator too, which has no gradient itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from regard.compiled.attention.fused_additive.backends import choose
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.numerics.precision import precise_type
from regard.runtime.modes import is_cast
from regard.shapes import Tensor

ATTEND_SCHEMA = (
    "Tensor queries, Tensor keys, Tensor vector, Tensor values, Tensor? mask, Tensor? drop"
)
SCORE_SCHEMA = "Tensor queries, Tensor keys, Tensor vector"

Result = TypeVar("Result")


def without_autocast(
    function: Callable[..., Result], like: Tensor, arguments: tuple[Any, ...]
) -> Result:
    """Call a function with autocast disabled, which would compute float32 products in a lower
    precision."""
    if not is_cast(like):
        return function(*arguments)
    with torch.autocast(like.device.type, enabled=False):
        return function(*arguments)


@torch.library.custom_op(
    "regard::additive_attend",
    mutates_args=(),
    schema=f"({ATTEND_SCHEMA}, float scale, Tensor? powers) -> (Tensor, Tensor)",
)
def attend_operator(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Return contexts and weights, as `attend` of the package."""
    queries, keys, vector, values, mask, drop, scale, powers = arguments
    memory = AdditiveMemory(keys, vector, values, mask, scale, powers)
    return without_autocast(choose(queries, values).attend, queries, (queries, memory, drop))


@torch.library.custom_op(
    "regard::additive_attend_backward",
    mutates_args=(),
    schema=f"(Tensor grad_context, Tensor? grad_weights, {ATTEND_SCHEMA}, float scale, "
    "Tensor? weights) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _attend_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    *gradients, queries, keys, vector, values, mask, drop, scale, weights = arguments
    memory = AdditiveMemory(keys, vector, values, mask, scale)
    return without_autocast(
        choose(queries, values).differentiate,
        queries,
        (*gradients, queries, memory, drop, weights),
    )


@torch.library.custom_op(
    "regard::additive_score", mutates_args=(), schema=f"({SCORE_SCHEMA}) -> Tensor"
)
def score_operator(queries: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    """Return scores, as `score` of the package."""
    return without_autocast(choose(queries).score, queries, (queries, keys, vector))


@torch.library.custom_op(
    "regard::additive_score_backward",
    mutates_args=(),
    schema=f"(Tensor grad_scores, {SCORE_SCHEMA}) -> (Tensor, Tensor, Tensor)",
)
def _score_backward(
    grad_scores: Tensor, queries: Tensor, keys: Tensor, vector: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    arguments = grad_scores, queries, keys, vector
    return without_autocast(choose(queries).differentiate_score, queries, arguments)


@attend_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    queries, keys, _, values = arguments[:4]
    batch, target, _ = queries.shape
    context = values.new_empty(batch, target, values.size(2))
    return context, _new_scores(queries, keys)


@_attend_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    queries, keys, vector, values = (_new_like(tensor) for tensor in arguments[2:6])
    return queries, keys, vector, values


@score_operator.register_fake
def _(queries: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    del vector
    return _new_scores(queries, keys)


@_score_backward.register_fake
def _(
    grad_scores: Tensor, queries: Tensor, keys: Tensor, vector: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    del grad_scores
    return _new_like(queries), _new_like(keys), _new_like(vector)


def _new_like(tensor: Tensor) -> Tensor:
    """Return an empty dense tensor of this shape."""
    return tensor.new_empty(tensor.shape)


def _new_scores(queries: Tensor, keys: Tensor) -> Tensor:
    dtype = precise_type(queries.dtype)
    return queries.new_empty(*queries.shape[:2], keys.size(1), dtype=dtype)


def _save_attend(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    queries, keys, vector, values, mask, drop, scale, _ = inputs
    ctx.save_for_backward(queries, keys, vector, values, mask, drop, output[1])
    ctx.scale = scale
    ctx.set_materialize_grads(False)


def _differentiate_attend(
    ctx: Any, grad_context: Tensor | None, grad_weights: Tensor | None
) -> tuple[Tensor | None, ...]:
    queries, keys, vector, values, mask, drop, weights = ctx.saved_tensors
    if grad_context is None and grad_weights is None:
        return (None,) * 8
    if grad_context is None:
        grad_context = values.new_zeros(*queries.shape[:2], values.size(2))
    gradients = _attend_backward(
        grad_context, grad_weights, queries, keys, vector, values, mask, drop, ctx.scale, weights
    )
    return (*gradients, None, None, None, None)


def _save_score(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    del output
    ctx.save_for_backward(*inputs)


def _differentiate_score(ctx: Any, grad_scores: Tensor) -> tuple[Tensor, ...]:
    return _score_backward(grad_scores, *ctx.saved_tensors)


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    del ctx, inputs, output


def _refuse(ctx: Any, *gradients: Any) -> Any:
    del ctx, gradients
    raise NotImplementedError(
        "additive attention has first derivatives only, but a second derivative was requested: "
        "compute tanh(queries + keys) @ vector in PyTorch instead"
    )


attend_operator.register_autograd(_differentiate_attend, setup_context=_save_attend)
score_operator.register_autograd(_differentiate_score, setup_context=_save_score)
_attend_backward.register_autograd(_refuse, setup_context=_save_nothing)
_score_backward.register_autograd(_refuse, setup_context=_save_nothing)
