"""Attention by dot products in C++ (`regard/kernels/attention/dots.hpp`), for short
sequences. PyTorch's kernel is made for long sequences and takes several times as long for short
ones."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard import kernels
from regard.attention.checks import broadcasts_to
from regard.attention.hidden import is_finite, visible_positions
from regard.attention.masks import Causal
from regard.shapes import Bool, Float, Tensor

LONGEST = 256
"""Largest number of queries or keys for which the kernel is faster than PyTorch's."""


@kernels.structure("Strided")
class _Strided(ctypes.Structure):
    """`Strided` of regard/kernels/attention/dots_problem.hpp."""

    _fields_ = [
        ("numbers", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("batch", "head", "position")),
    ]


ARRAYS = ("queries", "keys", "values", "context", "grad_queries", "grad_keys", "grad_values")


@kernels.structure("Dots")
class _Dots(ctypes.Structure):
    """`Dots` of regard/kernels/attention/dots_problem.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batch", "heads", "target", "source", "size")),
        *((name, ctypes.c_int64) for name in ("value_size", "is_bfloat16", "causal", "threads")),
        *((name, _Strided) for name in ARRAYS),
        ("mask", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("mask_batch", "mask_row")),
        *((name, ctypes.c_void_p) for name in ("weights", "scores")),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_float) for name in ("keep", "scale")),
        ("bytes", ctypes.c_int64 * 10),
    ]


def suits(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | Causal | None) -> bool:
    """Whether the kernel can run for these inputs: it broadcasts only the mask. False for all
    inputs that `checks.check_inputs` rejects."""
    if torch.compiler.is_compiling() or not isinstance(queries, Tensor):
        return False
    if not (isinstance(keys, Tensor) and isinstance(values, Tensor)):
        return False
    shape, shape_of_keys = queries.shape, keys.shape
    if not 3 <= len(shape) == len(shape_of_keys) <= 4 or values.shape[:-1] != shape_of_keys[:-1]:
        return False
    *batch, target, size = shape
    *batch_of_keys, source, key_size = shape_of_keys
    return (
        source <= LONGEST
        and target <= LONGEST
        and key_size == size
        and batch_of_keys == batch
        and kernels.suit(queries, keys, values)
        and _can_show(mask, batch, target, source)
    )


def _can_show(mask: Tensor | Causal | None, batch: list[int], target: int, source: int) -> bool:
    """Whether a mask broadcasts to all queries and keys, and is the same for every head."""
    if mask is None:
        return True
    if isinstance(mask, Causal):
        return target == source
    if not isinstance(mask, Tensor) or mask.dtype is not torch.bool or not mask.is_cpu:
        return False
    heads = (1,) if len(batch) == 2 else ()
    return mask.dim() >= 2 and broadcasts_to(mask.shape, (batch[0], *heads, target, source))


def attend(
    queries: Float[Tensor, "*batch target size"],
    keys: Float[Tensor, "*batch source size"],
    values: Float[Tensor, "*batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | Causal | None,
    scale: float,
    dropout: float,
) -> Float[Tensor, "*batch target value"]:
    """Return softmax(scale q k) v, and zeros for queries that may attend to nothing. The batch axes
    are sentences, or sentences and heads. A mask is the same for all heads. First derivatives
    only."""
    seed = kernels.new_seed() if dropout else 0
    settings = _Settings(_four_axes(mask, queries, keys), scale, 1 - dropout, seed)
    four = [_with_heads(x) for x in (queries, keys, values)]
    context: Tensor
    if torch.is_grad_enabled():
        context = _Attend.apply(*four, settings)
    else:
        context = settings.context(tuple(_rows(x) for x in four), None)[0]
    return context if queries.dim() == 4 else context.squeeze(1)


def attend_with_weights(
    queries: Float[Tensor, "*batch target size"],
    keys: Float[Tensor, "*batch source size"],
    values: Float[Tensor, "*batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | Causal | None,
    scale: float,
) -> tuple[
    Float[Tensor, "*batch target value"],
    Float[Tensor, "*batch target source"],
    Float[Tensor, "*batch target source"],
]:
    """Return the context of `attend`, the weights, and the scores `scale q k` before the mask.
    Weights and scores are in float32. No gradients."""
    vectors = tuple(_rows(_with_heads(x)) for x in (queries, keys, values))
    room = vectors[0].new_empty(2, *vectors[0].shape[:3], keys.size(-2), dtype=torch.float32)
    weights, scores = room.unbind()
    context = _room(vectors[0], values.size(-1))
    if context.numel() or weights.numel():
        settings = _Settings(_four_axes(mask, queries, keys), scale, 1.0, 0)
        settings.attend(vectors, context, room)
        if isinstance(settings.mask, Tensor) and not is_finite(context, scores):
            settings.attend(settings.finite(vectors), context, room)
    if queries.dim() == 4:
        return context, weights, scores
    return context.squeeze(1), weights.squeeze(1), scores.squeeze(1)


@dataclass(frozen=True)
class _Settings:
    """Mask, scale and dropout of one call."""

    mask: Tensor | Causal | None
    scale: float
    keep: float
    seed: int

    def context(
        self, vectors: tuple[Tensor, ...], weights: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the context and the vectors from which it was computed: zeros at hidden positions
        if their numbers had an influence. Write the weights, unless None."""
        context = _room(vectors[0], vectors[2].size(3))
        if context.numel():
            kernels.call("attend", self.problem(vectors, context, weights), 0)
            if isinstance(self.mask, Tensor) and not is_finite(context):
                vectors = self.visible(vectors)
                kernels.call("attend", self.problem(vectors, context, weights), 0)
        return context, vectors

    def attend(self, vectors: tuple[Tensor, ...], context: Tensor, room: Tensor) -> None:
        """Write the context, and weights and scores to the two halves of `room`."""
        weights, scores = room.unbind()
        kernels.call("attend", self.problem(vectors, context, weights, scores), 0)

    def differentiate(
        self,
        vectors: tuple[Tensor, ...],
        grad_context: Tensor,
        weights: Tensor,
        gradients: list[Tensor],
    ) -> None:
        """Write the gradients of queries, keys and values."""
        problem = self.problem(vectors, grad_context, weights, gradients=tuple(gradients))
        kernels.call("attend", problem, 1)

    def finite(self, vectors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return vectors with zeros for NaN and inf in keys and values that no query may attend
        to."""
        return self._without_hidden(vectors, keeps_finite=True)

    def visible(self, vectors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return vectors with zeros for keys and values that no query may attend to."""
        return self._without_hidden(vectors, keeps_finite=False)

    def _without_hidden(
        self, vectors: tuple[Tensor, ...], keeps_finite: bool
    ) -> tuple[Tensor, ...]:
        if not isinstance(self.mask, Tensor):
            return vectors
        visible, (queries, *others) = visible_positions(self.mask), vectors
        return queries, *(
            _rows(torch.where(visible | x.isfinite() if keeps_finite else visible, x, 0))
            for x in others
        )

    def problem(
        self,
        vectors: tuple[Tensor, ...],
        context: Tensor,
        weights: Tensor | None,
        scores: Tensor | None = None,
        gradients: tuple[Tensor, ...] = (),
    ) -> _Dots:
        """Return the problem. It holds addresses, so the tensors must outlive it."""
        queries, keys, values = vectors
        batch, heads, target, size = queries.shape
        source, value_size = keys.size(2), values.size(3)
        axes = batch, heads, target, source
        self._check(vectors, context, weights, axes)
        arrays: list[Any] = []
        num_bytes = []
        for array in (*vectors, context, *gradients):
            batch_step, head_step, position_step, _ = array.stride()
            arrays.append((kernels.place(array), batch_step, head_step, position_step))
            num_bytes.append(kernels.num_bytes(array))
        for _ in range(len(ARRAYS) - len(arrays)):
            arrays.append(())
            num_bytes.append(0)
        mask, steps = None, (0, 0)
        if isinstance(self.mask, Tensor):
            mask = self.mask
            (rows_batch, _, rows, _), (batch_step, _, row_step, _) = mask.shape, mask.stride()
            steps = 0 if rows_batch == 1 else batch_step, 0 if rows == 1 else row_step
        (mask_place, *places), sizes = kernels.places(mask, weights, scores)
        return _Dots(
            *(*axes, size, value_size),
            queries.dtype is torch.bfloat16,
            isinstance(self.mask, Causal),
            torch.get_num_threads(),
            *arrays,
            mask_place,
            *steps,
            *places,
            *(self.seed, self.keep, self.scale),
            (*num_bytes, *sizes),
        )

    def _check(
        self,
        vectors: tuple[Tensor, ...],
        context: Tensor,
        weights: Tensor | None,
        axes: tuple[int, int, int, int],
    ) -> None:
        """Check sizes. ValueError for those that the library would not derive from queries and
        keys."""
        (queries, keys, values), (batch, heads, target, source) = vectors, axes
        size, value_size = queries.size(3), values.size(3)
        expected = (
            ("keys", keys, (batch, heads, source, size)),
            ("values", values, (batch, heads, source, value_size)),
            ("context", context, (batch, heads, target, value_size)),
            ("weights", weights, axes),
        )
        for name, tensor, shape in expected:
            if tensor is not None and (tensor.shape != shape or not tensor.is_cpu):
                raise ValueError(
                    f"{name}: expected {shape} on cpu beside queries of shape "
                    f"{tuple(queries.shape)}, got {tuple(tensor.shape)} on {tensor.device}"
                )
        mask = self.mask
        if isinstance(mask, Tensor):
            mask_batch, mask_heads, rows, columns = mask.shape
            fits = mask_batch in (1, batch) and mask_heads == 1 and rows in (1, target)
            if not (fits and columns == source and mask.dtype is torch.bool and mask.is_cpu):
                raise ValueError(
                    f"mask: expected torch.bool that broadcasts to {(batch, 1, target, source)}, "
                    f"got {mask.dtype} of shape {tuple(mask.shape)} on {mask.device}"
                )


class _Attend(torch.autograd.Function):
    """`attend` with gradients, for axes of sentences and heads."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, settings: _Settings
    ) -> Tensor:
        weights = None
        if any(ctx.needs_input_grad):
            weights = queries.new_empty(*queries.shape[:3], keys.size(2), dtype=torch.float32)
        context, vectors = settings.context(
            tuple(_rows(x) for x in (queries, keys, values)), weights
        )
        ctx.save_for_backward(*vectors, *(() if weights is None else (weights,)))
        ctx.settings = settings
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_context: Tensor) -> tuple[Tensor | None, ...]:
        *vectors, weights = ctx.saved_tensors
        settings, gradients = ctx.settings, [_room(x, x.size(3)) for x in vectors]
        grad_context = _rows(grad_context)
        if grad_context.numel():
            settings.differentiate(tuple(vectors), grad_context, weights, gradients)
            if isinstance(settings.mask, Tensor) and not is_finite(gradients[0]):
                settings.differentiate(
                    settings.visible(tuple(vectors)), grad_context, weights, gradients
                )
        else:
            gradients = [x.zero_() for x in gradients]
        return *gradients, None


def _with_heads(vectors: Tensor) -> Float[Tensor, "batch head position part"]:
    return vectors if vectors.dim() == 4 else vectors.unsqueeze(1)


def _four_axes(
    mask: Tensor | Causal | None, queries: Tensor, keys: Tensor
) -> Bool[Tensor, "#batch 1 #target source"] | Causal | None:
    """Return the mask with an axis for sentences and one for heads."""
    if not isinstance(mask, Tensor):
        return mask
    if queries.dim() == 3:
        mask = mask.unsqueeze(-3)
    if mask.dim() < 4:
        mask = mask[(None,) * (4 - mask.dim())]
    if mask.size(3) != keys.size(-2):
        mask = mask.expand(*mask.shape[:-1], keys.size(-2))
    return mask if mask.stride(-1) == 1 else mask.contiguous()


def _rows(vectors: Tensor) -> Tensor:
    if vectors.is_neg():
        vectors = vectors.resolve_neg()
    return vectors if vectors.stride(3) == 1 or vectors.size(3) == 1 else vectors.contiguous()


def _room(like: Tensor, size: int) -> Tensor:
    """Allocate vectors of all heads, with the heads of each position adjacent in memory."""
    batch, heads, positions, _ = like.shape
    return like.new_empty(batch, positions, heads, size).transpose(1, 2)
