"""Cost of a recipe: parameters of the model, and arithmetic of its training.

A token that is multiplied by a matrix of N weights costs N multiplications and N additions, 2 N
FLOPs, and twice that in the backward pass: 6 N in training (Kaplan et al. 2020, section 2.1). The
cost of a source token is the sum over all matrices of the encoder, the cost of a target token that
over all matrices of the decoder. Looking an embedding up costs nothing; padding costs as much as
words. Attention's own products, which grow with the length of a sentence (1 to 4 % at 30 tokens),
and the small terms (biases, norms, activations, Adam) are left out.

These are the FLOPs of the likelihood. Other objectives run the model several times in an update.

Models are built without memory for their weights, and no file of pairs is read. Generated pairs are
generated, and their tokenizers are trained, because nothing else gives the size of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import nn

from regard.config import Experiment, TrainingConfig
from regard.data.text.tokenizer_settings import SUBWORD_SIZE, SUBWORDS
from regard.layers.positions import Learned
from regard.names import TokenizerKind

TABLES = (nn.Embedding, Learned)
"""Layers whose weights are looked up instead of multiplied."""
READ, LEARN = 2, 6
"""FLOPs for each weight of a forward pass, and of a forward and a backward pass."""
ASSUMED_WORDS = 8000
"""Size of a vocabulary of words that only the data gives."""
ASSUMED_CHARACTERS = 100
"""Size of a vocabulary of characters, or of symbols such as phonemes."""
ASSUMED_LABELS = 2
"""Number of labels if only the data gives it."""


@runtime_checkable
class PartlyMultiplied(Protocol):
    """Module that multiplies each token by a part of its matrices alone, as a mixture of experts
    does."""

    @property
    def num_multiplied(self) -> int:
        """Number of weights by which a token is multiplied, submodules included."""


@dataclass(frozen=True)
class VocabularySizes:
    """Sizes of the vocabularies of source and target in tokens; 0 for images and for numbers, which
    have no vocabulary. `is_assumed` is True if only the data gives them."""

    source: int
    target: int
    is_assumed: bool
    num_features: int = 0
    """Numbers at each position of a series or with each item."""
    num_labels: int = 0
    """Labels that a classifier predicts."""

    def __str__(self) -> str:
        """Return the sizes for a message, the largest first; an empty text without any."""
        sizes = sorted({self.source, self.target} - {0}, reverse=True)
        words = [f"vocabulary {' and '.join(f'{size:,}' for size in sizes)}"] if sizes else []
        labels = [f"{self.num_labels} labels"] if self.num_labels else []
        parts = ", ".join([*words, *labels])
        return f"{parts}, assumed: only the data gives it" if parts and self.is_assumed else parts


@dataclass(frozen=True)
class Cost:
    """Cost of a recipe. FLOPs are those of training with the likelihood."""

    sizes: VocabularySizes
    num_parameters: int
    source_token: int
    """FLOPs for a source token."""
    target_token: int
    """FLOPs for a target token."""
    batch_tokens: int | None
    """Tokens of an update, half of them on each side; None if the recipe does not set them."""
    num_updates: int | None
    """Updates of the whole training; None if the recipe does not set them."""

    @classmethod
    def of_model(
        cls,
        experiment: Experiment,
        sizes: VocabularySizes,
        model: nn.Module,
        sides: tuple[nn.Module, nn.Module],
        batch_tokens: int | None,
    ) -> Cost:
        """Return the cost of a model of two sides, of which one multiplies source tokens and the
        other target tokens. `batch_tokens` are those of a batch of text."""
        source_token, target_token = (LEARN * num_multiplied(side) for side in sides)
        if batch_tokens is not None:
            batch_tokens *= experiment.training.accumulate
        return cls(
            sizes=sizes,
            num_parameters=num_parameters(model),
            source_token=source_token,
            target_token=target_token,
            batch_tokens=batch_tokens,
            num_updates=experiment.training.updates,
        )

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

    def times_likelihood(self, training: TrainingConfig) -> float:
        """Return the FLOPs of an update with the objective of a training, divided by those with the
        likelihood. Samples are taken to be as long as references. The passes of teachers are left
        out, because only their run folders have their sizes."""
        if not training.has_rewards:
            return 2.0 if training.r_drop else 1.0
        source, target = flops_of_weight(training)
        likelihood = LEARN * (self.source_token + self.target_token)
        return (source * self.source_token + target * self.target_token) / likelihood


def flops_of_weight(training: TrainingConfig) -> tuple[int, int]:
    """Return the FLOPs of an update with rewards for each weight that a source token is multiplied
    by, and for each weight that a target token of the reference is multiplied by. A source is
    encoded once to draw all its samples, and once to train on them."""
    source, target = READ + LEARN, training.samples * (READ + LEARN)
    match training.objective:
        case "minimum_risk":  # the reference is one of the sequences
            target += LEARN
        case "self_critical":  # the greedy output is the baseline
            target += READ
    if training.weight_beside_reward:
        source, target = source + LEARN, target + LEARN
    return source, target


def assumed_size(kind: TokenizerKind, source_kind: TokenizerKind | None = None) -> int:
    """Return the default size of a vocabulary of subwords, and a likely size of any other. Targets
    that are split at spaces are symbols if their sources are characters: `source_kind`."""
    if kind in SUBWORDS:
        return SUBWORD_SIZE
    is_symbols = kind == "spaces" and source_kind == "characters"
    return ASSUMED_CHARACTERS if kind == "characters" or is_symbols else ASSUMED_WORDS


def num_parameters(model: nn.Module) -> int:
    """Return the number of parameters."""
    return sum(weight.numel() for weight in model.parameters())


def num_multiplied(side: nn.Module) -> int:
    """Return the number of weights in all matrices that tokens are multiplied by. A matrix that is
    an embedding too is counted in the layer that multiplies by it."""
    sparse = [module for module in side.modules() if isinstance(module, PartlyMultiplied)]
    inside = {id(module) for part in sparse for module in part.modules()}
    dense = sum(
        weight.numel()
        for module in side.modules()
        if id(module) not in inside and not isinstance(module, TABLES)
        for weight in module.parameters(recurse=False)
        if weight.dim() >= 2
    )
    return dense + sum(part.num_multiplied for part in sparse)
