"""Output layers: features from a decoder's state, context and input.

The projection to logits is a separate layer of the decoder, so logits are computed only where there
is a target, and Luong's decoder can feed the features into its next step. A decoder without
attention passes contexts of size 0.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.numerics.linear import Linear
from regard.shapes import Float, Tensor


class StateOutput(nn.Module):
    """The state alone, without a layer (Wu et al. 2016, section 3). The context is a part of it, as
    it enters the update."""

    def __init__(self, state_size: int) -> None:
        super().__init__()
        self.feature_size = state_size

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch hidden"]:
        del context, embedded  # arguments of every output layer
        return state


class LinearOutput(nn.Module):
    """The concatenated context and state, [c; s], without a layer."""

    def __init__(self, state_size: int, context_size: int) -> None:
        super().__init__()
        self.feature_size = context_size + state_size

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch feature"]:
        del embedded  # an argument of every output layer
        return torch.cat([context, state], dim=-1)


class TanhOutput(nn.Module):
    """The attentional vector of Luong et al. 2015, eq. 5: tanh(W_c [c; h])."""

    def __init__(self, state_size: int, context_size: int, feature_size: int) -> None:
        super().__init__()
        self.feature_size = feature_size
        self.projection = Linear(context_size + state_size, feature_size, bias=False)

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch feature"]:
        del embedded
        # Luong et al. 2015, eq. 5: h~_t = tanh(W_c [c_t; h_t])
        return torch.tanh(self.projection(torch.cat([context, state], dim=-1)))


class DeepOutput(nn.Module):
    """Maxout layer over state, input and context (Bahdanau et al. 2015, appendix A.2.2): the
    maximum of each pair in U s + V E y + C c + b. The paper has no bias.

    The appendix uses the state before the step. This layer follows eq. 4, which uses the state
    after it."""

    def __init__(
        self, state_size: int, context_size: int, embedding_size: int, feature_size: int
    ) -> None:
        super().__init__()
        self.feature_size = feature_size
        self.projection = Linear(state_size + embedding_size + context_size, 2 * feature_size)

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch feature"]:
        # Bahdanau et al. 2015, A.2.2: t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i (here s_i)
        pairs = self.projection(torch.cat([state, embedded, context], dim=-1))
        # Bahdanau et al. 2015, A.2.2: t_i = [max(t~_{i,2j-1}, t~_{i,2j})] for j = 1, .., l
        return pairs.unflatten(-1, (self.feature_size, 2)).amax(dim=-1)


class SummedOutput(nn.Module):
    """Deep output layer of Xu et al. 2015, eq. 7, without its projection: E y + L_h h + L_z z + b.
    The paper has no bias."""

    def __init__(self, state_size: int, context_size: int, embedding_size: int) -> None:
        super().__init__()
        self.feature_size = embedding_size
        self.projection = Linear(state_size + context_size, embedding_size)

    def forward(
        self,
        state: Float[Tensor, "*batch hidden"],
        context: Float[Tensor, "*batch value"],
        embedded: Float[Tensor, "*batch embedding"],
    ) -> Float[Tensor, "*batch feature"]:
        # Xu et al. 2015, eq. 7: E y_{t-1} + L_h h_t + L_z z_t
        return embedded + self.projection(torch.cat([state, context], dim=-1))


Output = StateOutput | LinearOutput | TanhOutput | DeepOutput | SummedOutput
