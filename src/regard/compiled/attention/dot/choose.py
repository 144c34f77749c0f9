"""Attention by dot products with softmax, by PyTorch's kernel, which does not form the weights. On
a CPU, `native` computes sequences of up to `native.LONGEST` positions."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch.nn import functional as F

from regard.attention.checks import batch_of, check_num_keys
from regard.attention.hidden import is_finite, without_hidden
from regard.attention.masks import Causal, mask_tensor, none_if_full
from regard.attention.normalisers import Normaliser, Softmax
from regard.attention.scores import Dot, General, ScaledDot, Score, check_pairs
from regard.compiled.exact import is_exactly
from regard.runtime.modes import is_free_to_read
from regard.shapes import Bool, Float, Tensor

DOT_SCORES = (Dot, ScaledDot, General)


def dot_scale(score: Score, normaliser: Normaliser, size: int) -> float | None:
    """Return the factor of the dot products in the softmax, if the weights are the softmax of
    exactly one of the dot scores. None: the plain formula must run."""
    if not is_exactly(normaliser, Softmax) or not is_exactly(score, *DOT_SCORES):
        return None
    if size == 0:
        return None
    temperature = cast(Softmax, normaliser).temperature
    return 1 / (temperature * (math.sqrt(size) if isinstance(score, ScaledDot) else 1))


def torch_dot(
    queries: Float[Tensor, "*batch target size"],
    prepared: Float[Tensor, "*#batch source size"],
    values: Float[Tensor, "*#batch source value"],
    mask: Bool[Tensor, "*#batch #target #source"] | Causal | None,
    scale: float,
    dropout: float,
) -> Float[Tensor, "*batch target value"]:
    """Return softmax(scale q k) v by PyTorch's kernel, and zeros for queries that may attend to
    nothing.

    Some versions of PyTorch leave the contexts of such queries undefined. Therefore they attend to
    every key, and their contexts are then replaced by zeros."""
    check_pairs("dot", queries, prepared)
    if not queries.dtype == prepared.dtype == values.dtype:
        return _of_one_type(queries, prepared, values, mask, scale, dropout)
    check_num_keys(prepared, values)
    if not queries.shape[:-2] == prepared.shape[:-2] == values.shape[:-2]:
        batch = batch_of(queries=queries, keys=prepared, values=values)
        queries, prepared, values = (
            x.expand(*batch, *x.shape[-2:]) for x in (queries, prepared, values)
        )
    if queries.size(-2) != prepared.size(-2):  # PyTorch's causal mask need not be square
        mask = mask_tensor(mask, queries)
    attend = F.scaled_dot_product_attention
    if mask is None or isinstance(mask, Causal):
        return attend(
            queries, prepared, values, dropout_p=dropout, is_causal=mask is not None, scale=scale
        ).to(values.dtype)
    if mask.dim() < 2:
        mask = mask.expand(1, prepared.size(-2))
    has_keys = mask.any(dim=-1, keepdim=True)
    some_have_none = none_if_full(has_keys) is not None
    visible = mask | ~has_keys if some_have_none else mask
    context = None
    if not torch.is_grad_enabled() and not dropout and is_free_to_read(values):
        context = attend(queries, prepared, values, visible, scale=scale)
    # NaN or inf at a hidden position that has an influence makes the context NaN or inf
    if context is None or not is_finite(context):
        prepared, values = without_hidden(prepared, mask), without_hidden(values, mask)
        context = attend(queries, prepared, values, visible, dropout_p=dropout, scale=scale)
    context = context.to(values.dtype)
    return torch.where(has_keys, context, 0) if some_have_none else context


def _of_one_type(
    queries: Tensor,
    prepared: Tensor,
    values: Tensor,
    mask: Tensor | Causal | None,
    scale: float,
    dropout: float,
) -> Float[Tensor, "*batch target value"]:
    """Convert all inputs to one type, as types differ if some are outputs of layers under autocast.
    The context is in the type of the values."""
    dtype = torch.promote_types(torch.promote_types(queries.dtype, prepared.dtype), values.dtype)
    queries, prepared, mixed = (x.to(dtype) for x in (queries, prepared, values))
    return torch_dot(queries, prepared, mixed, mask, scale, dropout).to(values.dtype)
