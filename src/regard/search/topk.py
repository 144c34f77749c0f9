"""The few highest of many, equal ones in their order.

torch.topk promises no order among equals, so what it picks may change with the machine. A stable
sort of a whole vocabulary keeps it, at fifty times the price. Here only the blocks that can hold
one of the highest are looked into.
"""

from __future__ import annotations

import torch

from regard.shapes import Float, Int, Tensor

BLOCK = 64
"""Choices to a block."""
FEW = 16
"""Up to so many are found by taking the maximum again and again, more by sorting."""


def highest(
    scores: Float[Tensor, "row choice"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The `count` highest scores of each row and where they are: highest first, equal ones by
    their place. There must be as many choices."""
    return highest_sums(scores.new_zeros(scores.size(0), 1), scores[:, None], count)


def highest_sums(
    totals: Float[Tensor, "row group"], scores: Float[Tensor, "row group choice"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The same of `totals + scores`, which are not formed. A place is group * choices + choice."""
    num_choices = scores.size(2)
    num_blocks = -(-num_choices // BLOCK)
    if count > FEW or num_blocks * scores.size(1) < 2 * count:
        sums = (totals[:, :, None] + scores).flatten(1)
        places = _first(sums, count)
        return sums.gather(1, places), places
    # Whatever is left out stands behind the maxima of `count` blocks, each before it.
    maxima = (totals[:, :, None] + _maxima(scores)).flatten(1)
    blocks = _first(maxima, count).sort(dim=1)[0][:, :, None]
    groups = blocks // num_blocks
    choices = blocks % num_blocks * BLOCK + torch.arange(BLOCK, device=scores.device)
    inside = choices < num_choices  # the last block of a group may be a short one
    places = (groups * num_choices + choices.clamp(max=num_choices - 1)).flatten(1)
    sums = totals.gather(1, groups.expand_as(choices).flatten(1))
    sums = (sums + scores.flatten(1).gather(1, places)).where(inside.flatten(1), -torch.inf)
    chosen = _first(sums, count)
    return sums.gather(1, chosen), places.gather(1, chosen)


def _maxima(scores: Float[Tensor, "row group choice"]) -> Float[Tensor, "row group block"]:
    """The maximum of each block of choices."""
    num_whole = scores.size(2) // BLOCK * BLOCK
    whole, rest = scores[..., :num_whole], scores[..., num_whole:]
    maxima = whole.unflatten(2, (-1, BLOCK)).amax(dim=3)
    if rest.size(2) == 0:
        return maxima
    return torch.cat([maxima, rest.amax(dim=2, keepdim=True)], dim=2)


def _first(scores: Float[Tensor, "row choice"], count: int) -> Int[Tensor, "row count"]:
    """Places of the highest in the order of a stable sort."""
    if count > FEW:
        return scores.sort(dim=1, descending=True, stable=True)[1][:, :count]
    left = scores.clamp(min=torch.finfo(scores.dtype).min)  # so that -inf can say: taken
    places = torch.empty(scores.size(0), count, dtype=torch.long, device=scores.device)
    for number in range(count):
        place = left.argmax(dim=1, keepdim=True)
        places[:, number : number + 1] = place
        left.scatter_(1, place, -torch.inf)
    return places
