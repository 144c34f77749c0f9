"""Several attentions side by side (Vaswani et al. 2017, section 3.2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.attention.attend import Attention
from regard.attention.fused_additive import AdditiveKeys
from regard.products import Linear
from regard.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class PreparedHeads:
    """Keys (as the score prepared them) and values of every head: what a decoder's state keeps."""

    keys: Float[Tensor, "*batch head source prepared"] | AdditiveKeys
    values: Float[Tensor, "*batch head source value"]


@dataclass(frozen=True)
class AttendedHeads:
    """What `Attended` holds, with the heads joined in the context and apart in the rest."""

    context: Float[Tensor, "*batch target size"]
    weights: Float[Tensor, "*batch head target source"] | None
    scores: Float[Tensor, "*batch head target source"] | None
    state: Any


class MultiHeadAttention(nn.Module):
    """Project, split into heads, attend in each, join, project.

        queries --W_q--> head x target x size \\
        keys    --W_k--> head x source x size  > attend --join--> W_o --> context
        values  --W_v--> head x source x size /

    `attention` is built for queries and keys of the size of one head and is shared by the heads,
    which differ by their projections; a score with parameters then costs no more with more heads.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        value_size: int,
        size: int,
        num_heads: int,
        attention: Attention,
    ) -> None:
        super().__init__()
        if num_heads < 1 or size % num_heads:
            raise ValueError(
                f"size must be a multiple of num_heads, but size {size} and num_heads {num_heads} "
                "came"
            )
        self.num_heads = num_heads
        self.query = Linear(query_size, size)
        self.key = Linear(key_size, size)
        self.value = Linear(value_size, size)
        self.attention = attention
        self.output = Linear(size, size)

    def prepare(
        self,
        keys: Float[Tensor, "*batch source key"],
        values: Float[Tensor, "*batch source value"],
    ) -> PreparedHeads:
        """Project what is looked at, once a source."""
        prepared = self.attention.prepare(self._split(self.key(keys)))
        return PreparedHeads(prepared, self._split(self.value(values)))

    def forward(
        self,
        queries: Float[Tensor, "*batch target query"],
        prepared: PreparedHeads,
        mask: Bool[Tensor, "*#batch #target #source"] | None = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> AttendedHeads:
        """Attend in every head. The mask broadcasts to "*batch target source": heads share it."""
        attended = self.attention(
            self._split(self.query(queries)),
            prepared.keys,
            prepared.values,
            None if mask is None else mask.unsqueeze(-3),
            state,
            need_weights=need_weights,
        )
        joined = attended.context.transpose(-3, -2).flatten(-2)
        context = self.output(joined)
        return AttendedHeads(context, attended.weights, attended.scores, attended.state)

    def _split(
        self, vectors: Float[Tensor, "*batch position size"]
    ) -> Float[Tensor, "*batch head position part"]:
        return vectors.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)
