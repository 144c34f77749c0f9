"""Where a recipe's arithmetic is done."""

from __future__ import annotations

import torch

from regard.config import TrainingConfig
from regard.errors import UserError


def device_of(config: TrainingConfig) -> torch.device:
    """The device that a recipe names, or a GPU where there is one. UserError for a GPU where there
    is none."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise UserError("training.device is cuda, but torch sees no GPU here: use cpu or auto")
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(config.device)
