"""Embeddings of tokens, with one gradient for all steps of a loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.compiled.exact import is_exactly
from regard.numerics.joined_gradients import JoinedParameters, joined_parameters
from regard.runtime.modes import needs_formula
from regard.shapes import Float, Int, Tensor


def lookup(
    embedding: nn.Embedding, tokens: Int[Tensor, "*batch"]
) -> Float[Tensor, "*batch embedding"]:
    """Return the embeddings of tokens. Inside `joined_gradients`, the gradient of the weight, which
    has a row for each word, is computed once for all steps."""
    is_plain = is_exactly(embedding, nn.Embedding) and not (
        embedding.sparse or embedding.scale_grad_by_freq or embedding.max_norm is not None
    )
    if not is_plain or needs_formula():
        return embedding(tokens)
    weight = embedding.weight
    padding = -1 if embedding.padding_idx is None else embedding.padding_idx
    joined = joined_parameters((weight,), weight.dtype, _gradient, len(weight), padding)
    if joined is None:
        return embedding(tokens)
    return _Lookup.apply(tokens, *joined.tensors, joined)


class _Lookup(torch.autograd.Function):
    """Rows of a weight whose gradient is joined."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, joined: JoinedParameters) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.joined, ctx.size = joined, weight.size(1)
        return torch.embedding(weight, tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, None, None]:
        (tokens,) = ctx.saved_tensors
        ctx.joined.save(grad_output.reshape(tokens.numel(), ctx.size), tokens.flatten())
        return None, None, None


def _gradient(
    num_words: int, padding: int, needs_gradient: bool, grad_outputs: Tensor, tokens: Tensor
) -> tuple[Tensor | None]:
    if not needs_gradient:
        return (None,)
    gradient = torch.ops.aten.embedding_dense_backward
    return (gradient(grad_outputs, tokens, num_words, padding, False),)
