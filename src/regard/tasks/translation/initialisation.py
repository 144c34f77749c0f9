"""Initialisation of a translation model with the weights of another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from regard.building.translators import build_translation
from regard.config import TranslationModelConfig
from regard.names import Side
from regard.numerics.linear import meta_device
from regard.tasks.training.initialisation import (
    SIDES,
    Initialisation,
    WordWeights,
    copy_weights,
)
from regard.tasks.training.tokenizers import AnyTokenizer
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.loaded import TranslationRun


def initialise_from(
    run: Path, config: TranslationModelConfig, model: nn.Module, tokenizers: Tokenizers
) -> Initialisation:
    """Copy the weights that a model shares with another run. UserError if that is no run, or shares
    no weights with the model."""
    initial = TranslationRun.load(run)
    their_words = _word_weights(initial.config, initial.tokenizers)
    weights = initial.model.state_dict()
    return copy_weights(run, weights, their_words, model, _word_weights(config, tokenizers))


def _word_weights(config: TranslationModelConfig, tokenizers: Tokenizers) -> WordWeights:
    sides = vocabulary_sides(config, tokenizers)
    by_side: dict[Side, AnyTokenizer] = {
        "source": tokenizers.source,
        "target": tokenizers.target,
    }
    return WordWeights(by_side, sides, is_one_matrix=config.tied == "all")


def vocabulary_sides(config: TranslationModelConfig, tokenizers: Tokenizers) -> Mapping[str, Side]:
    """Return the side of each weight that has a row for each word. These are the weights whose
    shape depends on the size of the vocabulary, in any model. No memory for weights is needed."""
    sizes = [len(getattr(tokenizers, side)) for side in SIDES]
    side_of: dict[str, Side] = {}
    for number, side in enumerate(SIDES):
        more = [size + (place == number) for place, size in enumerate(sizes)]
        if config.tied == "all":  # one matrix for both
            more = [size + 1 for size in sizes]
        before, after = _shapes(config, sizes), _shapes(config, more)
        side_of |= {name: side for name, shape in before.items() if shape != after[name]}
    return side_of


def _shapes(config: TranslationModelConfig, sizes: Sequence[int]) -> dict[str, torch.Size]:
    with meta_device():
        state = build_translation(config, *sizes).state_dict()
    return {name: tensor.shape for name, tensor in state.items()}
