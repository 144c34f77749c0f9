"""Dev scores: by which measure, and, of a model that writes, of what it writes freely."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from regard.data.batching import PairBatches
from regard.errors import UserError
from regard.metrics.text import MetricScore
from regard.tasks.generation import NotFiniteError
from regard.tasks.setup import NUM_EXAMPLES
from regard.tasks.translation.translator import Translation
from regard.training.log import Example, Validation
from regard.training.objective import NextToken, mean_loss
from regard.training.recorder import REMEDY

Measure = Callable[[Sequence[str], Sequence[Sequence[str]]], MetricScore]
AnyMeasure = TypeVar("AnyMeasure")


def measure_of(
    metric: str | None, measures: Mapping[str, AnyMeasure], usual: str, scored: str
) -> AnyMeasure:
    """The measure of this name, or the usual one; UserError for one that scores something other
    than what is `scored`."""
    name = metric or usual
    if name not in measures:
        raise UserError(
            f"training.metric is {name}, which scores no {scored}: expected {', '.join(measures)}"
        )
    return measures[name]


@dataclass(frozen=True)
class FreeWriting:
    """Called with a model, it validates it. `write` makes texts for all `sources`, each of which
    has one or more references; `batches` are the true targets, for the loss."""

    write: Callable[[nn.Module], Sequence[Translation]]
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    measure: Measure
    batches: PairBatches

    def __call__(self, model: nn.Module) -> Validation:
        """UserError where the model's probabilities are no numbers."""
        try:
            outputs = [each.text for each in self.write(model)]
        except NotFiniteError as error:
            raise UserError(
                "what the model writes for the dev pairs has a probability that is not a number, "
                f"so training stopped and these weights are not kept. {REMEDY}"
            ) from error
        score = self.measure(outputs, self.references)
        loss = mean_loss(NextToken(), model, (each.batch for each in self.batches.in_order()))
        shown = zip(self.sources, self.references, outputs, strict=True)
        examples = [Example(source, first, output) for source, (first, *_), output in shown]
        return Validation(score.value, score.name, loss, tuple(examples[:NUM_EXAMPLES]))
