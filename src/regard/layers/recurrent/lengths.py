"""Lengths of padded sequences, from a mask or checked against it."""

from __future__ import annotations

import torch

from regard.runtime.modes import is_free_to_read
from regard.shapes import Bool, Int, Tensor


def padded_lengths(
    mask: Bool[Tensor, "batch position"], lengths: tuple[int, ...] | None = None
) -> Int[Tensor, "batch"] | None:
    """Return the lengths of sequences with this mask on the CPU; None if no sequence has padding.

    Given `lengths`, Python does not wait for a GPU to read the mask; on a CPU they are checked.
    ValueError if padding comes before a real position, a sequence has no real position, or the
    lengths do not fit."""
    return _padded(mask) if lengths is None else _checked(lengths, mask)


def _checked(
    lengths: tuple[int, ...], mask: Bool[Tensor, "batch position"]
) -> Int[Tensor, "batch"] | None:
    """Return checked lengths as a tensor; None if no sequence has padding."""
    batch, longest = mask.shape
    if not isinstance(lengths, (tuple, list)) or not all(
        isinstance(length, int) for length in lengths
    ):
        raise ValueError(
            f"lengths: expected a tuple of int, got {lengths!r}; leave them out to read them from "
            "the mask"
        )
    fit = len(lengths) == batch and all(1 <= length <= longest for length in lengths)
    result = torch.tensor(lengths, dtype=torch.long, device="cpu") if fit else None
    if result is not None and is_free_to_read(mask):
        fit = torch.equal(mask, torch.arange(longest, device="cpu") < result[:, None])
    if not fit:
        raise ValueError(
            f"lengths: expected those of the mask, {batch} integers from 1 to {longest}, got "
            f"{lengths}; leave them out to read them from the mask"
        )
    return None if min(lengths, default=longest) == longest else result


def _padded(mask: Bool[Tensor, "batch position"]) -> Int[Tensor, "batch"] | None:
    """Return the lengths of the sequences of a mask; None if no sequence has padding."""
    if mask.all():
        return None
    real = mask.cpu()
    lengths = real.sum(dim=1)
    positions = torch.arange(mask.size(1), device=real.device)
    if not torch.equal(real, positions < lengths[:, None]) or 0 in lengths:
        raise ValueError(
            "mask: expected True for the positions of each sequence, at least one, and then False "
            "for its padding; pad at the end"
        )
    return lengths
