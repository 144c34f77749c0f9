"""Attention spans: which of its own positions each position of a sequence may attend to."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from regard.attention.attend import Mask
from regard.attention.masks import CAUSAL, causal, window
from regard.shapes import Bool, Int, Tensor


@runtime_checkable
class Span(Protocol):
    """Attention span of self-attention."""

    def bidirectional_mask(
        self, mask: Bool[Tensor, "batch 1 source"] | None, like: Tensor
    ) -> Mask | None:
        """Return the mask for positions before and after each position. `mask` is that of padding;
        `like` has the positions along its second axis."""

    def causal_mask(self, like: Tensor) -> Mask:
        """Return the mask for each position itself and those before it."""

    def visible_slots(
        self, slots: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis visible"]:
        """Return the slots of the positions that the last position may attend to."""


class FullSpan:
    """Span over the whole sequence."""

    def bidirectional_mask(
        self, mask: Bool[Tensor, "batch 1 source"] | None, like: Tensor
    ) -> Bool[Tensor, "batch 1 source"] | None:
        del like
        return mask

    def causal_mask(self, like: Tensor) -> Mask:
        del like
        return CAUSAL

    def visible_slots(
        self, slots: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis position"]:
        return slots


class SlidingWindow:
    """Span over positions at most `width` away: the sliding window of Beltagy, Peters and Cohan
    (2020, section 3.1). Each further layer extends the receptive field by `width`."""

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ValueError(f"width is {width}: expected at least 1 position on each side")
        self.width = width

    def bidirectional_mask(
        self, mask: Bool[Tensor, "batch 1 source"] | None, like: Tensor
    ) -> Bool[Tensor, "#batch source source"]:
        near = window(like.size(1), like.size(1), self.width, like.device)[None]
        return near if mask is None else near & mask

    def causal_mask(self, like: Tensor) -> Bool[Tensor, "1 target target"]:
        length, device = like.size(1), like.device
        return (window(length, length, self.width, device) & causal(length, device))[None]

    def visible_slots(
        self, slots: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis visible"]:
        return slots[:, :, -self.width - 1 :]
