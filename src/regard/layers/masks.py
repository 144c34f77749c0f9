"""Check of the mask of real positions, for encoders that compute a position from its neighbours."""

from __future__ import annotations

import torch

from regard.shapes import Bool, Float, Tensor


def check_mask(
    inputs: Float[Tensor, "batch position input"], mask: Bool[Tensor, "batch position"]
) -> None:
    """Check the mask of whole sequences. ValueError unless it is bool, has an entry for each
    position of the inputs, and is on their device."""
    check_real(mask, inputs.shape[:2], inputs.device)


def check_real(
    mask: Bool[Tensor, "*batch position"], shape: torch.Size, device: torch.device
) -> None:
    """Check a mask of real positions. ValueError unless it is bool and has this shape and
    device."""
    if mask.dtype != torch.bool or mask.shape != shape or mask.device != device:
        raise ValueError(
            f"mask: expected bool (True = a real position) of shape {tuple(shape)} on "
            f"{device}, got {mask.dtype} of shape {tuple(mask.shape)} on {mask.device}"
        )
