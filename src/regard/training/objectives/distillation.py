"""Distillation at the level of words (Kim and Rush 2016, section 3.1): a student learns the
probabilities of a trained teacher.

    loss = (1 - a) CE(y) + a T^2 D(p_T || q_T)
    p_T = softmax(log p / T)        q_T = softmax(log q / T)

p are the probabilities of the teacher, q those of the student, for every next word after a true
history. CE is the cross entropy with label smoothing. D is the Kullback-Leibler divergence, whose
gradient is that of the cross entropy of the paper, or the Jensen-Shannon divergence. The
temperature T and the factor T^2 are those of Hinton et al. (2015, section 2). Several teachers have
the mean of their probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn

from regard.data.batch import ClassificationBatch, PairBatch
from regard.models.contracts import HeadOutput, Measure
from regard.models.seq2seq import Seq2Seq, Seq2SeqOutput
from regard.names import DivergenceName
from regard.numerics.precision import at_least_float32, log_of_mean
from regard.shapes import Float, Int, Tensor
from regard.training.losses.loss import jensen_shannon_divergence, kl_divergence, smoothed_entropy
from regard.training.objectives.objective import ClassObjective, Loss, NextToken, check_true_inputs
from regard.training.schedule import Progress

DIVERGENCES: Mapping[
    DivergenceName,
    Callable[[Float[Tensor, "*batch word"], Float[Tensor, "*batch word"]], Float[Tensor, "*batch"]],
] = {"kullback_leibler": kl_divergence, "jensen_shannon": jensen_shannon_divergence}
"""Divergence of each name, of the teacher from the student."""
LogProbabilities = Callable[[slice], Float[Tensor, "word vocabulary"]]


@dataclass(frozen=True)
class Teachers:
    """Trained models of one vocabulary. They are frozen, without dropout."""

    models: tuple[nn.Module, ...] = field(repr=False)
    """Models of texts (`Seq2Seq`) or of labels (`HeadModel`)."""
    digests: tuple[str, ...]
    """Digest of the weights of each model, which identifies the teachers of a resumed run."""

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("teachers: expected at least one model, got none")
        for model in self.models:
            model.eval().requires_grad_(False)

    @torch.no_grad()
    def of_words(self, batch: PairBatch) -> LogProbabilities:
        """Read a batch. Return the function from places of words to the log probabilities of all
        words there."""
        models = [cast(Seq2Seq, model) for model in self.models]
        features = [
            batch.real(model.decoder(batch.inputs, model.encode(batch.source)).features)
            for model in models
        ]

        @torch.no_grad()
        def log_probabilities(part: slice) -> Float[Tensor, "word vocabulary"]:
            return log_of_mean(
                [
                    model.decoder.project(values[part])
                    for model, values in zip(models, features, strict=True)
                ]
            )

        return log_probabilities

    @torch.no_grad()
    def of_labels(self, batch: ClassificationBatch) -> LogProbabilities:
        """Read a batch. Return the function from places of sources to the log probabilities of all
        labels there."""
        predictions = [model(batch.source).predictions for model in self.models]
        return log_of_mean(predictions).__getitem__


@dataclass(frozen=True)
class Distillation:
    """Cross entropy, mixed with the divergence from the probabilities of teachers."""

    objective: NextToken | ClassObjective
    teachers: Teachers
    divergence: DivergenceName = "kullback_leibler"
    weight: float = 0.5
    """Share a of the teachers in the loss."""
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.weight <= 1:
            raise ValueError(f"the share of the teachers is {self.weight}: expected above 0 to 1")
        check_true_inputs(self.objective, "student and teachers have equal inputs")

    def count(self, batch: Any) -> int | float:
        """Return the divisor of the cross entropy."""
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
        """Compute the loss, and as a measure the mean divergence of a word or label. All inputs of
        a decoder are true tokens. ValueError for a model that copies."""
        del progress, generator
        if isinstance(self.objective, ClassObjective):
            labels = cast(ClassificationBatch, batch)
            prediction: HeadOutput = model(labels.source)
            terms = self._terms(
                prediction.predictions,
                labels.targets,
                self.teachers.of_labels(labels)(slice(None)),
                self.objective.label_smoothing,
                self.objective.weights(prediction.predictions),
            )
            return self._loss(terms.sum(), terms, prediction, self.count(batch))
        output: Seq2SeqOutput = model(batch)
        sums = self._of_words(output, cast(PairBatch, batch))
        return self._loss(*sums, output, self.size(batch))

    def _of_words(
        self, output: Seq2SeqOutput, batch: PairBatch
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "term"]]:
        if output.copying is not None:
            raise ValueError(
                "distillation needs one distribution over the vocabulary, got copied words"
            )
        log_probabilities = self.teachers.of_words(batch)
        cross_entropy = cast(NextToken, self.objective).loss
        smoothing = cross_entropy.label_smoothing

        def loss(
            logits: Float[Tensor, "pass word vocabulary"], part: slice
        ) -> Float[Tensor, "term"]:
            return self._terms(logits[0], output.targets[part], log_probabilities(part), smoothing)

        return cross_entropy.functions.loss_of_logits(
            output.features[None], output.projection, loss
        )

    def _terms(
        self,
        logits: Float[Tensor, "word vocabulary"],
        targets: Int[Tensor, "word"],
        log_probabilities: Float[Tensor, "word vocabulary"],
        smoothing: float,
        label_weights: Float[Tensor, "vocabulary"] | None = None,
    ) -> Float[Tensor, "term"]:
        """Return both terms of the loss, summed over words. Both terms of a target are multiplied
        by the weight of its label."""
        logs = at_least_float32(logits).log_softmax(dim=-1)
        entropy = smoothed_entropy(logs, targets, smoothing, label_weights)
        teacher, student = log_probabilities, logs
        if self.temperature != 1:
            # Hinton et al. 2015, section 2 if objective is distillation:
            #     q_i = exp(z_i / T) / sum_j exp(z_j / T)
            teacher, student = (
                (scores / self.temperature).log_softmax(dim=-1) for scores in (teacher, student)
            )
        divergence = DIVERGENCES[self.divergence](teacher, student)
        if label_weights is not None:
            divergence = divergence * label_weights[targets]
        # Kim and Rush 2016, section 3.1 if objective is distillation: (1 - a) L_NLL + a L_WORD-KD
        return torch.stack([(1 - self.weight) * entropy, self._scale * divergence.sum()])

    @property
    def _scale(self) -> float:
        """Factor of the divergence."""
        return self.weight * self.temperature**2

    def _loss(
        self,
        total: Float[Tensor, ""],
        terms: Float[Tensor, "term"],
        output: Seq2SeqOutput | HeadOutput,
        count: int | float,
    ) -> Loss:
        """Return the loss with the mean divergence, whose divisor is `count`."""
        divergence = terms[1].detach() / self._scale / count
        measures = (*output.measures, Measure("divergence", divergence))
        return Loss(total, output.penalties, measures)
