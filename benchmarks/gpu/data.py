"""Generated data and models of a recipe's sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from regard import recipes
from regard.building.translators import build_translation
from regard.config import Experiment, resolve
from regard.data.batching import BatchSettings, PairBatches
from regard.data.special_tokens import END, SPECIAL
from regard.data.text.pairs.encoded import EncodedPairs
from regard.models.seq2seq import Seq2Seq
from regard.tasks.translation.cost import vocabulary_sizes

LENGTHS = {"wmt14": 27.0, "multi30k": 14.0}
"""Mean number of tokens of a sentence, by the first part of a recipe's name."""
SPREAD = 0.5
"""Standard deviation of the logarithm of lengths."""
NUM_BATCHES, SMALL_BATCHES = 20, 2
SMALL_TOKENS, SMALL_VOCABULARY = 256, 100
SMALL = {"layers": 1, "feed_forward": 64}


@dataclass(frozen=True)
class Work:
    """A recipe, its untrained model, and batches that are repeated without end."""

    experiment: Experiment
    model: Seq2Seq
    vocabulary_size: int
    batches: list[Any]

    def num_batches(self, number: int) -> int:
        del number  # epochs are equal
        return len(self.batches)

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        del number
        return iter(self.batches[start:])

    def fingerprint(self) -> str:
        return "generated"


def experiment_of(name: str, *, small: bool) -> Experiment:
    """Return a recipe, with small sizes for a CPU."""
    experiment = recipes.load(recipes.find(name))
    if not small:
        return resolve(experiment)
    data = replace(experiment.data, vocabulary_size=SMALL_VOCABULARY, batch_tokens=SMALL_TOKENS)
    model = replace(
        experiment.model,
        size=32,
        encoder=smaller(experiment.model.encoder),
        decoder=smaller(experiment.model.decoder),
    )
    return resolve(replace(experiment, data=data, model=model))


def smaller(part: Any) -> Any:
    """Return an encoder or a decoder of one layer."""
    names = {field.name for field in fields(part)}
    return replace(part, **{name: size for name, size in SMALL.items() if name in names})


def work_of(name: str, device: torch.device, *, small: bool) -> Work:
    """Return the work of a recipe on random sentences, whose lengths vary as those of texts."""
    experiment = experiment_of(name, small=small)
    size = vocabulary_sizes(experiment.data).source
    torch.manual_seed(1)
    model = build_translation(experiment.model, size, size).to(device)
    number, tokens = SMALL_BATCHES if small else NUM_BATCHES, experiment.data.batch_tokens
    mean = LENGTHS[name.split("-")[0]]
    random = np.random.default_rng(1)
    num_pairs = int(1.5 * number * tokens / (2 * mean)) + 50
    sides = [sentences(random, num_pairs, mean, size) for _ in range(2)]
    targets = [[*target, END] for target in sides[1]]
    pairs = EncodedPairs.of([[*source, END] for source in sides[0]], targets)
    batches = PairBatches(pairs, BatchSettings(tokens=tokens), seed=1)
    some = [batch for batch, _ in zip(batches.epoch(1), range(number), strict=False)]
    return Work(experiment, model, size, some)


def sentences(random: np.random.Generator, number: int, mean: float, size: int) -> list[list[int]]:
    """Return random token numbers."""
    logs = np.log(mean) - SPREAD**2 / 2 + SPREAD * random.normal(size=number)
    lengths = np.exp(logs).round().clip(1, 100).astype(int)
    return [random.integers(len(SPECIAL), size, length).tolist() for length in lengths]
