"""Top-k with a defined order of equal values: the lower index comes first.

torch.topk defines no order among equal values, so its result may depend on the machine. A stable
sort of a whole vocabulary does, but takes fifty times as long. Here the maxima of blocks select the
few blocks that can contain one of the highest values, and only these blocks are searched.
"""

from __future__ import annotations

import torch

from regard.shapes import Float, Int, Tensor

BLOCK = 64
"""Number of choices in a block."""
FEW = 16
"""Largest `count` for which the maximum is taken repeatedly. A larger count is found by sorting."""


def stable_topk(
    scores: Float[Tensor, "row choice"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """Return the `count` highest scores of each row and their indices, highest first, equal ones by
    index. There must be at least `count` choices."""
    return stable_topk_of_sums(scores.new_zeros(scores.size(0), 1), scores[:, None], count)


def stable_topk_of_sums(
    totals: Float[Tensor, "row group"], scores: Float[Tensor, "row group choice"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """Return the `count` highest values of `totals[:, :, None] + scores` of each row, without
    forming all sums. The index of a choice is group * num_choices + choice."""
    num_choices = scores.size(2)
    num_blocks = -(-num_choices // BLOCK)
    if count > FEW or num_blocks * scores.size(1) < 2 * count:
        sums = (totals[:, :, None] + scores).flatten(1)
        indices = _topk_indices(sums, count)
        return sums.gather(1, indices), indices
    # every value of a block that is left out has `count` block maxima before it
    maxima = (totals[:, :, None] + _block_maxima(scores)).flatten(1)
    blocks = _topk_indices(maxima, count).sort(dim=1)[0][:, :, None]
    groups = blocks // num_blocks
    choices = blocks % num_blocks * BLOCK + torch.arange(BLOCK, device=scores.device)
    inside = choices < num_choices  # the last block of a group may be shorter
    indices = (groups * num_choices + choices.clamp(max=num_choices - 1)).flatten(1)
    sums = totals.gather(1, groups.expand_as(choices).flatten(1))
    sums = (sums + scores.flatten(1).gather(1, indices)).where(inside.flatten(1), -torch.inf)
    highest = _topk_indices(sums, count)
    return sums.gather(1, highest), indices.gather(1, highest)


def _block_maxima(scores: Float[Tensor, "row group choice"]) -> Float[Tensor, "row group block"]:
    """Return the maximum of each block of choices."""
    num_whole = scores.size(2) // BLOCK * BLOCK
    whole, rest = scores[..., :num_whole], scores[..., num_whole:]
    maxima = whole.unflatten(2, (-1, BLOCK)).amax(dim=3)
    if rest.size(2) == 0:
        return maxima
    return torch.cat([maxima, rest.amax(dim=2, keepdim=True)], dim=2)


def _topk_indices(scores: Float[Tensor, "row choice"], count: int) -> Int[Tensor, "row count"]:
    """Return the indices of the highest scores in the order of a stable sort."""
    if count > FEW:
        return scores.sort(dim=1, descending=True, stable=True)[1][:, :count]
    remaining = scores.clamp(min=torch.finfo(scores.dtype).min)  # -inf marks taken choices
    indices = torch.empty(scores.size(0), count, dtype=torch.long, device=scores.device)
    for number in range(count):
        index = remaining.argmax(dim=1, keepdim=True)
        indices[:, number : number + 1] = index
        remaining.scatter_(1, index, -torch.inf)
    return indices
