"""A task's training set-up: everything that training needs from the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Experiment
from regard.runs.folder import RunFolder
from regard.tasks.training.checks import Finding
from regard.tasks.training.initialisation import Initialisation
from regard.training.log import Validation
from regard.training.objectives.objective import Objective
from regard.training.settings import Batches

NUM_EXAMPLES = 3
"""Number of dev examples shown with each validation."""


@dataclass(frozen=True)
class TrainingSetup:
    """An untrained model, its training batches and its objective."""

    experiment: Experiment
    """Recipe, completed with values that follow from the data."""
    model: nn.Module
    batches: Batches
    objective: Objective
    validate: Callable[[nn.Module], Validation] | None
    """Function that computes the dev score; None without a dev split."""
    num_pairs: int
    vocabularies: str
    """Sizes of the vocabularies, in words."""
    save_vocabularies: Callable[[RunFolder], None]
    left_out: tuple[str, ...] = ()
    """Messages about examples that are not used."""
    cache_files: tuple[Path, ...] = ()
    """Files of encoded training pairs that were added to the cache."""
    initialisation: Initialisation | None = None
    """Weights taken from another run."""
    longest: Callable[[], Any] | None = None
    """Function that returns the training batch of the longest sources."""
    describe: Callable[[Any], Sequence[str]] | None = None
    """Function from a batch to a line of text for each example."""
    findings: tuple[Finding, ...] = ()
    """Reasons why little or nothing can be learned."""
