"""What is minimised: cross entropy with smoothed labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.data.batch import PairBatch
from regard.errors import UserError
from regard.models.seq2seq import Seq2SeqOutput
from regard.shapes import Float, Tensor
from regard.training.linear_cross_entropy import linear_cross_entropy


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy against labels that give a share of the probability to every word alike
    (Szegedy et al. 2016, section 7): -(1 - e) log p(target) - e / |V| sum over v of log p(v).

    It comes as a sum, with what to divide it by apart, so that a large batch can be gone through in
    parts and still have one mean.
    """

    label_smoothing: float = 0.0
    per: Literal["word", "sentence"] = "word"
    """Divide by all words, or by sentences: then a sentence's loss is the sum over its words."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"label_smoothing is {self.label_smoothing}: expected 0 to below 1")

    def __call__(self, output: Seq2SeqOutput) -> Float[Tensor, ""]:
        """The sum over words, in nats; at least in float32."""
        projection = output.projection
        return linear_cross_entropy(
            output.features,
            projection.weight,
            projection.bias,
            output.targets,
            self.label_smoothing,
        )

    def count(self, batch: PairBatch) -> int:
        """What a batch's sum is divided by: its words or its sentences."""
        return int(batch.mask.sum()) if self.per == "word" else batch.mask.size(0)


@torch.no_grad()
def mean_word_loss(model: nn.Module, batches: Iterable[PairBatch]) -> float:
    """The mean cross entropy of a word, in nats, every input being the true one: a dev loss."""
    device = next(model.parameters()).device
    loss = CrossEntropy()
    total, words = 0.0, 0
    for batch in batches:
        total += float(loss(model(batch.to(device))))
        words += loss.count(batch)
    if words == 0:
        raise ValueError("batches hold no words: expected at least one to take a mean")
    return total / words
