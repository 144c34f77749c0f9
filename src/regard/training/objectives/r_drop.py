"""R-Drop: two passes with different dropout make equal predictions (Liang et al. 2021).

    loss = (CE_1 + CE_2) / 2 + w (KL(p_1 || p_2) + KL(p_2 || p_1)) / 2

The indices are the passes. This is the form of the authors' README. Equation 4 of the paper adds
the cross entropies without the factor 1/2, so its alpha is twice the weight w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from regard.data.batch import ClassificationBatch, PairBatch
from regard.models.contracts import HeadOutput, Measure, Penalty
from regard.models.seq2seq import Seq2SeqOutput
from regard.numerics.precision import at_least_float32
from regard.shapes import Float, Int, Tensor
from regard.training.losses.loss import CrossEntropy, smoothed_entropy
from regard.training.objectives.objective import ClassObjective, Loss, NextToken, check_true_inputs
from regard.training.schedule import Progress

NAME = "r_drop"
"""Name of the divergence among the penalties of the log."""


@dataclass(frozen=True)
class RDrop:
    """Cross entropy of two passes, and their divergence as a penalty. The penalties and measures of
    the model are means of both passes."""

    objective: NextToken | ClassObjective
    weight: float

    def __post_init__(self) -> None:
        check_true_inputs(self.objective, "both passes have equal inputs")

    def count(self, batch: Any) -> int | float:
        """Return the divisor of the objective of one pass."""
        return self.objective.count(batch)

    def size(self, batch: Any) -> int:
        return self.objective.size(batch)

    def __call__(
        self,
        model: nn.Module,
        batch: PairBatch | ClassificationBatch,
        progress: Progress,
        generator: torch.Generator,
    ) -> Loss:
        """Compute the loss. All inputs of a decoder are true tokens. ValueError for a model that
        copies."""
        del progress, generator
        if isinstance(self.objective, ClassObjective):
            targets = cast(ClassificationBatch, batch).targets
            labels: tuple[HeadOutput, HeadOutput] = model(batch.source), model(batch.source)
            logits = torch.stack([output.predictions for output in labels])
            smoothing, weights = self.objective.label_smoothing, self.objective.weights(logits)
            terms = two_pass_terms(logits, targets, smoothing, self.weight, weights)
            return self._loss(terms.sum(), terms, labels)
        words = model(batch), model(batch)
        return self._loss(*self._of_words(words, self.objective.loss), words)

    def _of_words(
        self, passes: tuple[Seq2SeqOutput, Seq2SeqOutput], cross_entropy: CrossEntropy
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "term"]]:
        first, second = passes
        if first.copying is not None:
            raise ValueError("R-Drop needs one distribution over the vocabulary, got copied words")

        def loss(
            logits: Float[Tensor, "pass word vocabulary"], part: slice
        ) -> Float[Tensor, "term"]:
            smoothing = cross_entropy.label_smoothing
            return two_pass_terms(logits, first.targets[part], smoothing, self.weight)

        return cross_entropy.functions.loss_of_logits(
            torch.stack([first.features, second.features]), first.projection, loss
        )

    def _loss(
        self,
        total: Float[Tensor, ""],
        terms: Float[Tensor, "term"],
        passes: Sequence[Seq2SeqOutput | HeadOutput],
    ) -> Loss:
        """Split the total into its cross entropy and its penalty: their values are those of the
        terms, and all of the gradient is that of the cross entropy."""
        divergence = terms[1].detach()
        first, second = passes
        penalties = tuple(
            Penalty(term.name, (term.value + again.value) / 2, term.is_mean)
            for term, again in zip(first.penalties, second.penalties, strict=True)
        )
        measures = tuple(
            Measure(term.name, (term.value + again.value) / 2)
            for term, again in zip(first.measures, second.measures, strict=True)
        )
        return Loss(total - divergence, (*penalties, Penalty(NAME, divergence)), measures)


def two_pass_terms(
    logits: Float[Tensor, "pass word vocabulary"],
    targets: Int[Tensor, "word"],
    smoothing: float,
    weight: float,
    label_weights: Float[Tensor, "vocabulary"] | None = None,
) -> Float[Tensor, "term"]:
    """Return the mean cross entropy of two passes and their weighted divergence, summed over words.
    The mean of both Kullback-Leibler divergences is sum_v (p_v - q_v)(log p_v - log q_v) / 2. Both
    terms of a target are multiplied by the weight of its label."""
    logs = at_least_float32(logits).log_softmax(dim=-1)
    twice = targets.repeat(2)
    entropy = smoothed_entropy(logs.flatten(0, 1), twice, smoothing, label_weights) / 2
    probabilities = logs.exp()
    # Liang et al. 2021, eq. 4 if r_drop: (KL(p_1, p_2) + KL(p_2, p_1)) / 2
    divergence = (probabilities[0] - probabilities[1]) * (logs[0] - logs[1])
    if label_weights is not None:
        divergence = divergence * label_weights[targets, None]
    return torch.stack([entropy, weight * divergence.sum() / 2])
