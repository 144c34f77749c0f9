"""Dev scores of models that generate texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from regard.data.batching import PairBatches
from regard.errors import UserError
from regard.metrics.metric import Function, Metric, named
from regard.metrics.text import TextFunction
from regard.names import MetricName
from regard.runtime import processes
from regard.tasks.generation import GeneratedText, NotFiniteError
from regard.tasks.training.setup import NUM_EXAMPLES
from regard.training.log import Example, Validation
from regard.training.objectives.objective import NextToken, mean_loss
from regard.training.recorder import REMEDY


def metric_named(
    name: str | None, metrics: Sequence[Metric[Function]], default: MetricName, scored: str
) -> Metric[Function]:
    """Return the metric of this name, or the default. UserError for a metric outside `metrics`,
    which score the kind of output in `scored`."""
    metric = named(metrics, name or default)
    if metric is None:
        names = ", ".join(metric.name for metric in metrics)
        raise UserError(f"training.metric is {name}, which scores no {scored}: expected {names}")
    return metric


@dataclass(frozen=True)
class DecodingValidation:
    """Validation of a model by decoding the sources of the dev split.

    `decode` generates a text for each source in this process's share of `sources`; each source has
    one or more references.
    `batches` have the true targets, for the loss."""

    decode: Callable[[nn.Module], Sequence[GeneratedText]]
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    metric: Metric[TextFunction]
    batches: PairBatches

    def __call__(self, model: nn.Module) -> Validation:
        """Validate a model. UserError if its probabilities are not finite."""
        try:
            outputs = processes.gathered([output.text for output in self.decode(model)])
        except NotFiniteError as error:
            raise UserError(
                "training stopped: decoding the dev split gave probabilities that are not finite. "
                f"These weights are not saved. {REMEDY}"
            ) from error
        score = self.metric.compute(outputs, self.references)
        loss = mean_loss(NextToken(), model, (batch.batch for batch in self.batches.in_order()))
        shown = zip(self.sources, self.references, outputs, strict=True)
        examples = [Example(source, first, output) for source, (first, *_), output in shown]
        return Validation(
            score.value,
            score.name,
            loss,
            tuple(examples[:NUM_EXAMPLES]),
            self.metric.higher_is_better,
        )
