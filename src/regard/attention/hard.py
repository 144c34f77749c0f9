"""Hard attention: one place is looked at, which is drawn (Xu et al. 2015, section 4.1).

    s_t ~ weights_t              context_t = value at s_t

A draw has no gradient. How good it was is learned from a reward, the log probability of what was
written after it (`models/penalties.py`). So that this goes steadily, half of the sources get the
expected context instead, as in soft attention (section 4.2), from the first word to the last. Where
nobody learns, the likeliest place is looked at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import nn

from regard.attention.attend import Attention, AttentionOutput, Mask
from regard.attention.masks import mask_tensor
from regard.attention.scores import PreparedKeys
from regard.shapes import Bool, Float, Int, Tensor

EXPECTED = 0.5
"""The share of sources that get the expected context while learning."""
NOWHERE = -1
"""What stands for the place of a source that got the expected context."""


class HardAttention(nn.Module):
    """Attention that looks at one place. Called as `Attention` is; the weights that it gives are
    those that it draws by, and `drawn` says where it looked. Its state says which sources get the
    expected context; without one they all look at one place."""

    is_stateful = False
    additive = None

    def __init__(self, soft: Attention) -> None:
        super().__init__()
        self.soft = soft

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """What the score needs of the keys, once a source."""
        return self.soft.prepare(keys)

    def start(self, mask: Bool[Tensor, "batch source"]) -> Bool[Tensor, "batch 1"] | None:
        """Which sources get the expected context, while learning."""
        return self._softened(mask)

    def positions(
        self, queries: Float[Tensor, "batch target query"]
    ) -> Bool[Tensor, "batch 1"] | None:
        """The same, of targets that are read whole."""
        return self._softened(queries)

    def _softened(self, sources: Tensor) -> Bool[Tensor, "batch 1"] | None:
        if not self.training:
            return None
        return torch.rand(len(sources), 1, device=sources.device) < EXPECTED

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "batch source value"],
        mask: Mask | None = None,
        state: Bool[Tensor, "batch 1"] | None = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend. The context of a query that may attend to nothing is zero."""
        attended = self.soft(queries, prepared, values, mask, state, need_weights=True)
        weights = cast(Tensor, attended.weights)
        if not weights.size(-1):
            return attended if need_weights else replace(attended, weights=None, scores=None)
        places = self._drawn(weights) if self.training else weights.argmax(dim=-1)
        index = places[..., None].expand(*places.shape, values.size(-1))
        context = values.expand(len(places), -1, -1).gather(1, index)
        visible = mask_tensor(mask, queries)
        if visible is not None:
            context = torch.where(visible.any(dim=-1, keepdim=True), context, 0)
        if state is not None:
            context = torch.where(state[..., None], attended.context, context)
            places = places.masked_fill(state, NOWHERE)
        found = replace(attended, context=context, drawn=places)
        return found if need_weights else replace(found, weights=None, scores=None)

    def _drawn(self, weights: Float[Tensor, "batch target source"]) -> Int[Tensor, "batch target"]:
        """A place for every question, by its weights; the first where there are none."""
        flat = weights.detach().flatten(0, 1)
        flat = torch.where(flat.sum(dim=-1, keepdim=True) > 0, flat, torch.ones_like(flat))
        return torch.multinomial(flat, 1).view(weights.shape[:2])
