"""Dev scores: by which measure, and, of a model that writes, of what it writes freely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from regard.data.batching import PairBatches
from regard.errors import UserError
from regard.metrics.metric import Function, Metric, named
from regard.metrics.text import TextFunction
from regard.names import MetricName
from regard.tasks.generation import NotFiniteError
from regard.tasks.setup import NUM_EXAMPLES
from regard.tasks.translation.translator import Translation
from regard.training.log import Example, Validation
from regard.training.objective import NextToken, mean_loss
from regard.training.recorder import REMEDY


def metric_named(
    name: str | None, metrics: Sequence[Metric[Function]], default: MetricName, scored: str
) -> Metric[Function]:
    """Return the metric of this name, or the default. UserError if it is none of `metrics`, which
    score the kind of output in `scored`."""
    metric = named(metrics, name or default)
    if metric is None:
        names = ", ".join(metric.name for metric in metrics)
        raise UserError(f"training.metric is {name}, which scores no {scored}: expected {names}")
    return metric


@dataclass(frozen=True)
class FreeWriting:
    """Called with a model, it validates it. `write` makes texts for all `sources`, each of which
    has one or more references; `batches` are the true targets, for the loss."""

    write: Callable[[nn.Module], Sequence[Translation]]
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    metric: Metric[TextFunction]
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
        score = self.metric.compute(outputs, self.references)
        loss = mean_loss(NextToken(), model, (each.batch for each in self.batches.in_order()))
        shown = zip(self.sources, self.references, outputs, strict=True)
        examples = [Example(source, first, output) for source, (first, *_), output in shown]
        return Validation(
            score.value,
            score.name,
            loss,
            tuple(examples[:NUM_EXAMPLES]),
            self.metric.higher_is_better,
        )
