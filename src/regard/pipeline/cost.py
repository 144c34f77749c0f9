"""What a recipe's model costs: its parameters and the arithmetic of training it.

A token that goes through a matrix of N weights costs N multiplications and N additions, 2 N FLOPs,
and twice that on the way back: 6 N in training (Kaplan et al. 2020, section 2.1). So it is the sum
over all matrices, those of the encoder for every source token and those of the decoder for every
target token. Looking an embedding up costs nothing; padding costs as much as words. Left out are
what grows with the length of a sentence, attention's own products (1 to 4 % at 30 tokens), and what
is small: biases, norms, activations, Adam.

Models are built without their numbers, and no file of pairs is read. Pairs that a recipe generates
are made, and their tokenizers trained, since nothing else tells how many words there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from regard.build import build_model
from regard.config import DataConfig, Experiment
from regard.data.text import Corpus
from regard.data.tokenizer_settings import SUBWORD_SIZE, SUBWORDS
from regard.layers.positions import Learned
from regard.pipeline import prepare, splitting
from regard.pipeline.splitting import TrainingPairs

LOOKED_UP = (nn.Embedding, Learned)
"""Whose rows are looked up instead of multiplied."""
ASSUMED = 8000
"""Words of a vocabulary that nothing is known of before the data is read."""


@dataclass(frozen=True)
class Cost:
    """`num_source` and `num_target` are the sizes of the vocabularies, `is_assumed` where nothing
    but the data would tell them. FLOPs are those of training."""

    num_source: int
    num_target: int
    is_assumed: bool
    num_parameters: int
    source_token: int
    """FLOPs for a source token."""
    target_token: int
    """FLOPs for a target token."""
    batch_tokens: int | None
    """Tokens of an update, half of them on each side, where a recipe says how many."""
    num_updates: int | None
    """Updates of the whole training, where a recipe says how many."""

    @property
    def update(self) -> float | None:
        """FLOPs of an update."""
        if self.batch_tokens is None:
            return None
        return self.batch_tokens / 2 * (self.source_token + self.target_token)

    @property
    def training(self) -> float | None:
        """FLOPs of the whole training."""
        if self.update is None or self.num_updates is None:
            return None
        return self.update * self.num_updates


def cost_of(experiment: Experiment) -> Cost:
    """The cost of a recipe. UserError where its model cannot be built."""
    num_source, num_target, is_assumed = _vocabularies(experiment.data)
    with torch.device("meta"):
        model = build_model(experiment.model, num_source, num_target)
    data, batch_tokens = experiment.data, None
    if data.batch_tokens is not None and data.batch_sentences is None:
        batch_tokens = data.batch_tokens * experiment.training.accumulate
    return Cost(
        num_source=num_source,
        num_target=num_target,
        is_assumed=is_assumed,
        num_parameters=sum(weight.numel() for weight in model.parameters()),
        source_token=6 * _num_multiplied(cast(nn.Module, model.encoder)),
        target_token=6 * _num_multiplied(cast(nn.Module, model.decoder)),
        batch_tokens=batch_tokens,
        num_updates=experiment.training.updates,
    )


def _num_multiplied(side: nn.Module) -> int:
    """The weights of all matrices that tokens are multiplied by. One that is an embedding too
    stands where it multiplies."""
    return sum(
        weight.numel()
        for module in side.modules()
        if not isinstance(module, LOOKED_UP)
        for weight in module.parameters(recurse=False)
        if weight.dim() >= 2
    )


def _vocabularies(config: DataConfig) -> tuple[int, int, bool]:
    """The sizes of both, and whether they are a guess. Data that is made here tells them."""
    if config.generated is not None or config.vocabulary is not None:
        nothing = TrainingPairs(Corpus(()), 0, 0, frozenset(), None)
        pairs = nothing if config.generated is None else splitting.read(config, seed=1).train
        tokenizers = prepare.train_tokenizers(config, pairs)
        return len(tokenizers.source), len(tokenizers.target), False
    kinds = config.tokenizer, config.target_tokenizer or config.tokenizer
    known = [kind in SUBWORDS for kind in kinds]
    usual = [SUBWORD_SIZE if is_subwords else ASSUMED for is_subwords in known]
    source, target = (config.vocabulary_size or size for size in usual)
    return source, target, not all(known)
