"""What a model is trained towards: from a batch to a loss.

A loss comes as a sum, with what to divide it by apart, so that a large batch can be gone through in
parts and still have one mean. The loop knows of a batch nothing else than what is said here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F

from regard.data.batch import ClassificationBatch, PairBatch
from regard.models.contracts import Penalty
from regard.shapes import Float, Tensor
from regard.training.loss import CrossEntropy
from regard.training.schedule import Progress
from regard.training.teacher_forcing import TeacherForcing


@dataclass(frozen=True)
class Loss:
    """What one batch costs: a sum, and the terms that the model adds to its mean."""

    sum: Float[Tensor, ""]
    penalties: tuple[Penalty, ...] = ()


@runtime_checkable
class Objective(Protocol):
    """From a model and a batch to a loss. Its own randomness comes from the generator, that of
    the model from torch's, and both follow from the seed and the update's number."""

    def count(self, batch: Any) -> int:
        """What a batch's sum is divided by."""

    def size(self, batch: Any) -> int:
        """How many tokens, or answers, of the target there are: what speeds are told in."""

    def __call__(
        self, model: nn.Module, batch: Any, progress: Progress, generator: torch.Generator
    ) -> Loss: ...


@dataclass(frozen=True)
class NextToken:
    """Write the target token by token: cross entropy, with so much of the inputs given."""

    loss: CrossEntropy = field(default_factory=CrossEntropy)
    teacher_forcing: TeacherForcing = field(default_factory=TeacherForcing)

    def count(self, batch: PairBatch) -> int:
        """Words or sentences, as the loss has it."""
        return self.loss.count(batch)

    def size(self, batch: PairBatch) -> int:
        return int(batch.mask.sum())

    def __call__(
        self, model: nn.Module, batch: PairBatch, progress: Progress, generator: torch.Generator
    ) -> Loss:
        forced = self.teacher_forcing.mask(batch.inputs, progress, generator)
        output = model(batch, forced)
        return Loss(self.loss(output), output.penalties)


@dataclass(frozen=True)
class ClassObjective:
    """Answer with one of several classes: cross entropy, in nats."""

    label_smoothing: float = 0.0

    def count(self, batch: ClassificationBatch) -> int:
        """How many answers there are."""
        return len(batch.answers)

    size = count

    def __call__(
        self,
        model: nn.Module,
        batch: ClassificationBatch,
        progress: Progress,
        generator: torch.Generator,
    ) -> Loss:
        del progress, generator
        logits = model(batch.source).values.float()
        return Loss(
            F.cross_entropy(
                logits, batch.answers, reduction="sum", label_smoothing=self.label_smoothing
            )
        )


@dataclass(frozen=True)
class NumberObjective:
    """Answer with numbers: the squared distance, the mean over an answer's numbers."""

    def count(self, batch: ClassificationBatch) -> int:
        """How many answers there are."""
        return len(batch.answers)

    size = count

    def __call__(
        self,
        model: nn.Module,
        batch: ClassificationBatch,
        progress: Progress,
        generator: torch.Generator,
    ) -> Loss:
        del progress, generator
        squares = (model(batch.source).values.float() - batch.answers).square()
        return Loss(squares.mean(dim=-1).sum())


@torch.no_grad()
def mean_loss(objective: Objective, model: nn.Module, batches: Iterable[Any]) -> float:
    """The mean over all batches together, without the model's own terms: a dev loss. ValueError
    where there is nothing to take a mean of."""
    device = next(model.parameters()).device
    first, generator = Progress(1, 1), torch.Generator()
    total, count = 0.0, 0
    for batch in batches:
        total += float(objective(model, batch.to(device), first, generator).sum)
        count += objective.count(batch)
    if count == 0:
        raise ValueError("batches hold nothing: expected at least one target to take a mean")
    return total / count
