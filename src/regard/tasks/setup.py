"""What a task makes of its data: all that training needs to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from regard.config import Experiment
from regard.runs.folder import RunFolder
from regard.tasks.translation.initialisation import Beginning
from regard.training.log import Validation
from regard.training.objective import Objective
from regard.training.settings import Batches

NUM_EXAMPLES = 3
"""Of those for the dev score, shown with every validation."""


@dataclass(frozen=True)
class Prepared:
    """A model that was not trained yet, what it learns from, and towards what."""

    experiment: Experiment
    """With what the data told of it."""
    model: nn.Module
    batches: Batches
    objective: Objective
    validate: Callable[[nn.Module], Validation] | None
    num_pairs: int
    vocabularies: str
    """What there is on both sides, in words."""
    save_vocabularies: Callable[[RunFolder], None]
    left_out: tuple[str, ...] = ()
    made: Path | None = None
    """The file in the cache that the training pairs were written to, where one was."""
    beginning: Beginning | None = None
    """What of another run the model began with."""
