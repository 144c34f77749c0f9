"""From a decoder's state, context and input to the features that one projection turns into logits.

The projection is the decoder's own and apart, so that logits are formed only where there is a
target, and Luong's decoder may feed the features back. A decoder without attention hands in
contexts of size zero.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.linear import Linear
from regard.shapes import Float, Tensor


class LinearOutput(nn.Module):
    """No layer of its own: the context and the state side by side, [c; s]."""

    def __init__(self, state_size: int, context_size: int) -> None:
        super().__init__()
        self.feature_size = context_size + state_size

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch feature"]:
        del embedded  # part of what every output is handed; this one does not look at it
        return torch.cat([context, state], dim=-1)


class TanhOutput(nn.Module):
    """The attentional vector of Luong et al. 2015, eq. 5: tanh(W_c [c; h])."""

    def __init__(self, state_size: int, context_size: int, feature_size: int) -> None:
        super().__init__()
        self.feature_size = feature_size
        self.joined = Linear(context_size + state_size, feature_size, bias=False)

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch feature"]:
        del embedded
        return torch.tanh(self.joined(torch.cat([context, state], dim=-1)))


class DeepOutput(nn.Module):
    """The maxout layer of Bahdanau et al. 2015, appendix A.2.2, over state, input and context:
    the greater of every pair in U s + V E y + C c.

    The appendix writes it with the state before the step; this follows eq. 4, which asks the
    state after it."""

    def __init__(
        self, state_size: int, context_size: int, embedding_size: int, feature_size: int
    ) -> None:
        super().__init__()
        self.feature_size = feature_size
        self.joined = Linear(state_size + embedding_size + context_size, 2 * feature_size)

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch feature"]:
        pairs = self.joined(torch.cat([state, embedded, context], dim=-1))
        return pairs.unflatten(-1, (self.feature_size, 2)).amax(dim=-1)


class SummedOutput(nn.Module):
    """The deep output layer of Xu et al. 2015, eq. 7, up to its projection: E y + L_h h + L_z z."""

    def __init__(self, state_size: int, context_size: int, embedding_size: int) -> None:
        super().__init__()
        self.feature_size = embedding_size
        self.joined = Linear(state_size + context_size, embedding_size)

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch feature"]:
        return embedded + self.joined(torch.cat([state, context], dim=-1))


Output = LinearOutput | TanhOutput | DeepOutput | SummedOutput
