"""Objectives: functions from a model and a batch to a loss.

A loss is a sum and its divisor is separate, so that a large batch can be processed in parts and
still have one mean. The training loop uses a batch only through these functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F

from regard.data.batch import ClassificationBatch, PairBatch
from regard.models.contracts import Measure, Penalty
from regard.numerics.precision import at_least_float32
from regard.runtime import processes
from regard.shapes import Float, Tensor
from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.teacher_forcing import ALL_TRUE, TeacherForcing
from regard.training.schedule import Progress


@dataclass(frozen=True)
class Loss:
    """Loss of one batch as a sum, with the penalties that the model adds and the measures for the
    log. All batches of a training have the same penalties and measures, in the same order."""

    sum: Float[Tensor, ""]
    penalties: tuple[Penalty, ...] = ()
    measures: tuple[Measure, ...] = ()


@runtime_checkable
class Objective(Protocol):
    """Function from a model and a batch to a loss. It draws its random numbers from `generator`,
    the model from torch's default generator. Both are seeded for every update."""

    def count(self, batch: Any) -> int | float:
        """Return the divisor of a batch's sum."""

    def size(self, batch: Any) -> int:
        """Return the number of target tokens, or of labels, for the reported speed."""

    def __call__(
        self, model: nn.Module, batch: Any, progress: Progress, generator: torch.Generator
    ) -> Loss: ...


@dataclass(frozen=True)
class NextToken:
    """Prediction of every target token: cross entropy with teacher forcing."""

    loss: CrossEntropy = field(default_factory=CrossEntropy)
    teacher_forcing: TeacherForcing = field(default_factory=TeacherForcing)

    def count(self, batch: PairBatch) -> int:
        """Return the number of words or of sentences, by the unit of the loss."""
        return self.loss.count(batch)

    def size(self, batch: PairBatch) -> int:
        return int(batch.mask.sum())

    def __call__(
        self, model: nn.Module, batch: PairBatch, progress: Progress, generator: torch.Generator
    ) -> Loss:
        forced = self.teacher_forcing.mask(batch.inputs, progress, generator)
        output = model(batch, forced)
        return Loss(self.loss(output), output.penalties, output.measures)


@dataclass(frozen=True)
class ClassObjective:
    """Classification: cross entropy, in nats. With weights the loss is the weighted mean of
    `torch.nn.CrossEntropyLoss`."""

    label_smoothing: float = 0.0
    label_weights: tuple[float, ...] = ()
    """Weight of each label. Empty if all weights are 1."""

    def count(self, batch: ClassificationBatch) -> int | float:
        """Return the number of targets, or the sum of their weights."""
        if not self.label_weights:
            return len(batch.targets)
        return sum(self.label_weights[number] for number in batch.targets.tolist())

    def size(self, batch: ClassificationBatch) -> int:
        return len(batch.targets)

    def weights(self, logits: Float[Tensor, "*batch label"]) -> Float[Tensor, "label"] | None:
        """Return the weight of each label, in the precision of the loss; None if all are 1."""
        return (
            at_least_float32(logits).new_tensor(self.label_weights) if self.label_weights else None
        )

    def __call__(
        self,
        model: nn.Module,
        batch: ClassificationBatch,
        progress: Progress,
        generator: torch.Generator,
    ) -> Loss:
        del progress, generator
        output = model(batch.source)
        logits = output.predictions.float()
        # Szegedy et al. 2016, section 7 if label_smoothing and head: (1 - e) H(q, p) + e H(u, p)
        loss = F.cross_entropy(
            logits,
            batch.targets,
            self.weights(logits),
            reduction="sum",
            label_smoothing=self.label_smoothing,
        )
        return Loss(loss, output.penalties, output.measures)


@dataclass(frozen=True)
class NumberObjective:
    """Regression: squared error, as the mean over the numbers of a target."""

    def count(self, batch: ClassificationBatch) -> int:
        """Return the number of targets."""
        return len(batch.targets)

    size = count

    def __call__(
        self,
        model: nn.Module,
        batch: ClassificationBatch,
        progress: Progress,
        generator: torch.Generator,
    ) -> Loss:
        del progress, generator
        output = model(batch.source)
        squares = (output.predictions.float() - batch.targets).square()
        return Loss(squares.mean(dim=-1).sum(), output.penalties, output.measures)


def check_true_inputs(objective: NextToken | ClassObjective, purpose: str) -> None:
    """Check that all inputs of a decoder are true tokens. The purpose is that of equal inputs, for
    the message of the ValueError."""
    if isinstance(objective, NextToken) and objective.teacher_forcing != ALL_TRUE:
        raise ValueError(
            f"teacher forcing is {objective.teacher_forcing}: expected true tokens alone, so that "
            f"{purpose}"
        )


@torch.no_grad()
def mean_loss(objective: Objective, model: nn.Module, batches: Iterable[Any]) -> float:
    """Return the mean loss over all batches, without penalties: the dev loss. Each of several
    processes computes the loss of its share of the batches. ValueError if the batches have no
    targets."""
    device = next(model.parameters()).device
    first, generator = Progress(1, 1), torch.Generator()
    total, count = 0.0, 0.0
    for batch in islice(batches, processes.rank(), None, processes.number()):
        total += float(objective(model, batch.to(device), first, generator).sum)
        count += objective.count(batch)
    total, count = processes.sum_of(total), processes.sum_of(count)
    if count == 0:
        raise ValueError("batches hold nothing: expected at least one target to take a mean")
    return total / count
