"""How far a sequence that looks at itself sees."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from regard.attention.attend import Mask
from regard.attention.masks import CAUSAL, causal, window
from regard.shapes import Bool, Int, Tensor


@runtime_checkable
class Reach(Protocol):
    """Which of its own positions each position sees."""

    def around(self, mask: Bool[Tensor, "batch 1 source"] | None, like: Tensor) -> Mask | None:
        """Of those that the mask shows, before and after it; `like` has their number along its
        second axis."""

    def before(self, like: Tensor) -> Mask:
        """Of itself and those before it."""

    def last(
        self, places: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis seen"]:
        """Where those lie that the last position sees, of all that were written."""


class Everything:
    """All of them."""

    def around(
        self, mask: Bool[Tensor, "batch 1 source"] | None, like: Tensor
    ) -> Bool[Tensor, "batch 1 source"] | None:
        del like
        return mask

    def before(self, like: Tensor) -> Mask:
        del like
        return CAUSAL

    def last(
        self, places: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis position"]:
        return places


class Window:
    """Those at most `width` positions away (the sliding window of Beltagy, Peters and Cohan 2020,
    section 3.1). With more layers what is seen reaches further: `width` for each."""

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ValueError(f"a window of {width} positions to each side: expected 1 or more")
        self.width = width

    def around(
        self, mask: Bool[Tensor, "batch 1 source"] | None, like: Tensor
    ) -> Bool[Tensor, "#batch source source"]:
        near = window(like.size(1), like.size(1), self.width, like.device)[None]
        return near if mask is None else near & mask

    def before(self, like: Tensor) -> Bool[Tensor, "1 target target"]:
        length, device = like.size(1), like.device
        return (window(length, length, self.width, device) & causal(length, device))[None]

    def last(
        self, places: Int[Tensor, "batch hypothesis position"]
    ) -> Int[Tensor, "batch hypothesis seen"]:
        return places[:, :, -self.width - 1 :]
