"""How far a sequence that looks at itself sees."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from regard.attention.attend import Mask
from regard.attention.masks import CAUSAL, causal, window
from regard.shapes import Bool, Int, Tensor


@runtime_checkable
class Span(Protocol):
    """Which of its own positions each position sees."""

    def bidirectional_mask(
        self, mask: Bool[Tensor, "batch 1 source"] | None, like: Tensor
    ) -> Mask | None:
        """Of those that the mask shows, before and after it; `like` has their number along its
        second axis."""

    def causal_mask(self, like: Tensor) -> Mask:
        """Of itself and those before it."""

    def visible_slots(
        self, places: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis seen"]:
        """Where those lie that the last position sees, of all that were written."""


class FullSpan:
    """All of them."""

    def bidirectional_mask(
        self, mask: Bool[Tensor, "batch 1 source"] | None, like: Tensor
    ) -> Bool[Tensor, "batch 1 source"] | None:
        del like
        return mask

    def causal_mask(self, like: Tensor) -> Mask:
        del like
        return CAUSAL

    def visible_slots(
        self, places: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis position"]:
        return places


class SlidingWindow:
    """Those at most `width` positions away (the sliding window of Beltagy, Peters and Cohan 2020,
    section 3.1). With more layers what is seen reaches further: `width` for each."""

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ValueError(f"a window of {width} positions to each side: expected 1 or more")
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
        self, places: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis seen"]:
        return places[:, :, -self.width - 1 :]
