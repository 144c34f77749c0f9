"""Hard attention: one place is looked at, which is drawn (Xu et al. 2015, section 4.1).

    s_t ~ weights_t              context_t = value at s_t

A draw has no gradient. How good it was is learned from a reward, the log probability of what was
written after it (`models/penalties.py`). So that this goes steadily, half of the sources get the
expected context instead, as in soft attention (section 4.2). Where nobody learns, the likeliest
place is looked at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.attention.attend import Attended, Attention
from regard.attention.scores import Prepared, Score
from regard.shapes import Bool, Float, Int, Tensor

EXPECTED = 0.5
"""The share of sources that get the expected context while learning."""
NOWHERE = -1
"""What stands for the place of a source that got the expected context."""


class HardAttention(nn.Module):
    """Attention that looks at one place. Called as `Attention` is; the weights that it gives are
    those that it draws by, and `drawn` says where it looked."""

    remembers = False
    additive = None

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.soft = Attention(score)

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> Prepared:
        """What the score needs of the keys, once a source."""
        return self.soft.prepare(keys)

    def start(self, mask: Bool[Tensor, "batch source"]) -> None:
        """What is remembered before the first step: nothing."""

    def positions(self, queries: Tensor) -> None:
        """What a target that is read whole is told of its positions: nothing."""

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        prepared: Any,
        values: Float[Tensor, "batch source value"],
        mask: Bool[Tensor, "batch 1 source"] | None = None,
        state: Any = None,
        *,
        need_weights: bool = False,
    ) -> Attended:
        """Attend. A source with nothing to see gets a context of its first value times zero."""
        attended = self.soft(queries, prepared, values, mask, state, need_weights=True)
        weights = attended.weights
        if weights is None:
            raise ValueError("weights were asked for, but none came")
        places = self._drawn(weights) if self.training else weights.argmax(dim=-1)
        index = places[..., None].expand(*places.shape, values.size(-1))
        context = values.gather(1, index)
        if mask is not None:
            context = context * mask.any(dim=-1, keepdim=True)
        if self.training:
            soft = torch.rand(len(weights), 1, device=weights.device) < EXPECTED
            context = torch.where(soft[..., None], attended.context, context)
            places = places.masked_fill(soft, NOWHERE)
        found = replace(attended, context=context, drawn=places)
        return found if need_weights else replace(found, weights=None, scores=None)

    def _drawn(self, weights: Float[Tensor, "batch target source"]) -> Int[Tensor, "batch target"]:
        """A place for every question, by its weights; the first where there are none."""
        flat = weights.detach().flatten(0, 1)
        flat = torch.where(flat.sum(dim=-1, keepdim=True) > 0, flat, torch.ones_like(flat))
        return torch.multinomial(flat, 1).view(weights.shape[:2])
