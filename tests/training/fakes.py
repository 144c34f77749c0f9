"""A small model, data and dev score that keep to the contracts."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from regard.data.batch import UNKNOWN, PairBatch, pair_batch
from regard.models.contracts import Measure, Penalty
from regard.models.seq2seq import Seq2SeqOutput
from regard.training.log import Validation
from regard.training.objectives.objective import NextToken, mean_loss

NUM_WORDS = 13


class TinyModel(nn.Module):
    """The next word from the source's mean and the last word. An input that is not to be the true
    one is the unknown word."""

    def __init__(
        self,
        dropout: float = 0.0,
        penalty: float | None = None,
        mean_penalty: float | None = None,
        measure: float | None = None,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_WORDS, 7)
        self.dropout = nn.Dropout(dropout)
        self.middle = nn.Linear(7, 7)
        self.output = nn.Linear(7, NUM_WORDS)
        self.penalty = penalty
        self.mean_penalty = mean_penalty
        self.measure = measure

    def forward(self, batch: PairBatch, forced: torch.Tensor | None = None) -> Seq2SeqOutput:
        inputs = batch.inputs if forced is None else batch.inputs.where(forced, UNKNOWN)
        real = batch.source.mask[..., None]
        source = (self.embedding(batch.source.ids) * real).sum(1) / real.sum(1)
        features = self.dropout(torch.tanh(self.middle(source[:, None] + self.embedding(inputs))))
        squares = source.pow(2).mean(1)
        penalties = []
        if self.penalty is not None:
            penalties.append(Penalty("size", self.penalty * squares.sum()))
        if self.mean_penalty is not None:
            penalties.append(Penalty("mean size", self.mean_penalty * squares.mean(), is_mean=True))
        measures = () if self.measure is None else (Measure("norm", self.measure * squares.mean()),)
        return Seq2SeqOutput(
            features[batch.mask],
            batch.outputs[batch.mask],
            self.output,
            tuple(penalties),
            measures,
        )


def tiny_model(seed: int = 3, **settings: float) -> TinyModel:
    torch.manual_seed(seed)
    return TinyModel(**settings)


class Tied(nn.Module):
    """One matrix under two names, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 5)
        self.output = nn.Linear(5, 11)
        self.output.weight = self.embedding.weight
        self.register_buffer("mean", torch.randn(3))


class TinyBatches:
    """Random batches of 2 to 5 pairs, in another order each epoch."""

    def __init__(self, size: int = 7, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.batches = [self._batch(random, int(random.integers(2, 6))) for _ in range(size)]
        self.seed = seed

    @staticmethod
    def _batch(random: np.random.Generator, pairs: int) -> PairBatch:
        def sequences() -> list[list[int]]:
            lengths = random.integers(1, 6, size=pairs)
            return [random.integers(4, NUM_WORDS, size=length).tolist() for length in lengths]

        return pair_batch(sequences(), sequences())

    def epoch(self, number: int, start: int = 0) -> Iterator[PairBatch]:
        order = np.random.default_rng((self.seed, number)).permutation(len(self.batches))
        return iter([self.batches[place] for place in order[start:]])

    def num_batches(self, number: int) -> int:
        return len(self.batches)

    def fingerprint(self) -> str:
        return f"{len(self.batches)} with seed {self.seed}"


def dev_score(model: nn.Module) -> Validation:
    """The loss on other data, negated; it also draws noise, which training must not notice."""
    torch.rand(11)
    loss = mean_loss(NextToken(), model, TinyBatches(3, seed=99).epoch(1))
    return Validation(-loss, "negative loss", loss)


class Watcher:
    """Reporter that records its calls, and sends a SIGINT after an update if that is set."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.interrupt_after = interrupt_after
        self.updates, self.lines = [], []

    def on_update(self, progress) -> None:
        self.updates.append(progress)
        if progress.update == self.interrupt_after:
            signal.raise_signal(signal.SIGINT)

    def on_train(self, line, progress) -> None:
        self.lines.append(line)

    def on_validation(self, line, validation) -> None:
        self.lines.append(line)

    def on_average(self, line, validation) -> None:
        self.lines.append(line)

    def on_end(self, line) -> None:
        self.lines.append(line)
