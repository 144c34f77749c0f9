"""Initialisation with the weights of another run.

Weights with the same name and shape in both models are copied. Weights with a row for each token
(embeddings and the layer that computes logits) are copied row by row, for the tokens that both
vocabularies have. All other weights stay newly initialised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.building import build_translation
from regard.config import TranslationModelConfig
from regard.data.special_tokens import SPECIAL
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.linear import meta_device
from regard.names import Side, VocabularySide
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.loaded import TranslationRun

Value = TypeVar("Value")
SIDES: tuple[Side, ...] = ("source", "target")
SHOWN = 4
"""Number of weights that one message lists."""


@dataclass(frozen=True)
class SharedWords:
    """Number of words of a vocabulary (source, target, or one for both) that the other run has."""

    side: VocabularySide
    known: int
    size: int


@dataclass(frozen=True)
class Initialisation:
    """Names of a model's weights: copied whole, copied by word, and newly initialised."""

    run: Path
    copied: tuple[str, ...]
    by_words: tuple[str, ...]
    new: tuple[str, ...]
    words: tuple[SharedWords, ...]

    def __str__(self) -> str:
        num_copied = len(self.copied + self.by_words)
        total = num_copied + len(self.new)
        counts = [
            f"{shared.known:,} of {shared.size:,} {shared.side} words" for shared in self.words
        ]
        names = ", ".join(self.new[:SHOWN]) or "none"
        more = len(self.new) - SHOWN
        return "; ".join(
            [
                f"initialised from {self.run}: {num_copied} of {total} weights",
                *counts,
                f"newly initialised: {names}" + (f" and {more} more" if more > 0 else ""),
            ]
        )


def initialise_from(
    run: Path, config: TranslationModelConfig, model: nn.Module, tokenizers: Tokenizers
) -> Initialisation:
    """Copy the weights that a model shares with another run. UserError if that is no run, or shares
    no weights with the model."""
    initial = TranslationRun.load(run)
    theirs = _without_pointer(initial.model.state_dict())
    sides = _without_pointer(vocabulary_sides(config, tokenizers))
    their_sides = _without_pointer(vocabulary_sides(initial.config, initial.tokenizers))
    words: dict[Side, SharedWords] = {}
    copied: list[str] = []
    by_words: list[str] = []
    new: list[str] = []
    for names, tensor in _distinct(model):
        names = [_shared_name(name) for name in names]
        name = next((name for name in names if name in theirs), names[0])
        weights, side, their_side = theirs.get(name), sides.get(name), their_sides.get(name)
        if weights is None or (side is None) != (their_side is None):
            new.append(name)
        elif side is not None and their_side is not None and tensor[0].shape == weights[0].shape:
            ours = getattr(tokenizers, side)
            known = _common(ours, getattr(initial.tokenizers, their_side))
            tensor[list(known)] = weights[list(known.values())].to(tensor)
            by_words.append(name)
            label: VocabularySide = "shared" if config.tied == "all" else side
            words[side] = _count(label, ours, known)
        elif side is None and tensor.shape == weights.shape:
            tensor.copy_(weights)
            copied.append(name)
        else:
            new.append(name)
    if not copied and not any(shared.known for shared in words.values()):
        raise UserError(
            f"{run} shares no weights with this model: none have the same name and shape, and the "
            "vocabularies have no words in common. Copy the model's fields from its config.yaml, "
            "or leave --init-from out"
        )
    counts = tuple(words[side] for side in SIDES if side in words)
    return Initialisation(run, tuple(copied), tuple(by_words), tuple(new), counts)


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


def _shared_name(name: str) -> str:
    """Return the name that a weight has in a model without copying: a pointer-generator has the
    decoder inside it."""
    return name.replace("decoder.inner.", "decoder.", 1)


def _without_pointer(values: Mapping[str, Value]) -> dict[str, Value]:
    return {_shared_name(name): value for name, value in values.items()}


def _distinct(model: nn.Module) -> Iterable[tuple[list[str], Tensor]]:
    """Yield each weight once, with all its names."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    tensors = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names[id(tensor)].append(name)
        tensors[id(tensor)] = tensor.detach()
    return ((names[number], tensor) for number, tensor in tensors.items())


def _common(ours: Tokenizer, theirs: Tokenizer) -> dict[int, int]:
    """Return the numbers of the pieces in both vocabularies: ours to theirs."""
    numbers = {piece: number for number, piece in enumerate(theirs.vocabulary)}
    return {
        number: numbers[piece] for number, piece in enumerate(ours.vocabulary) if piece in numbers
    }


def _count(side: VocabularySide, ours: Tokenizer, known: Iterable[int]) -> SharedWords:
    """Count shared words, without special tokens."""
    num_known = sum(ours.vocabulary[number] not in SPECIAL for number in known)
    return SharedWords(side, num_known, sum(piece not in SPECIAL for piece in ours.vocabulary))
