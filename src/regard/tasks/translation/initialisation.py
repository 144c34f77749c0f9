"""Beginning with another run's weights, and leaving some of them as they are.

What both models have by one name and in one shape is copied. What belongs to a vocabulary
(embeddings, and the layer that makes logits) is copied row by row, for every piece that both
vocabularies have. All else keeps the weights that it was made with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from regard.building import build_translation
from regard.config import WriterConfig
from regard.data.special_tokens import SPECIAL
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.linear import meta_device
from regard.names import Side
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.loaded import Loaded

SIDES: tuple[Side, ...] = ("source", "target")
SHOWN = 4
"""Names of weights that one line lists."""


@dataclass(frozen=True)
class Words:
    """How many words of a vocabulary (the source's, the target's, or a shared one) the other run
    knew."""

    side: Side | Literal["shared"]
    known: int
    size: int


@dataclass(frozen=True)
class Beginning:
    """What a model began with: the weights that were copied whole, by words, and not at all."""

    run: Path
    copied: tuple[str, ...]
    by_words: tuple[str, ...]
    fresh: tuple[str, ...]
    words: tuple[Words, ...]

    def __str__(self) -> str:
        taken = len(self.copied + self.by_words)
        every = taken + len(self.fresh)
        known = [f"{each.known:,} of {each.size:,} {each.side} words" for each in self.words]
        left = ", ".join(self.fresh[:SHOWN]) or "nothing"
        more = len(self.fresh) - SHOWN
        return "; ".join(
            [
                f"begun with {self.run}: {taken} of {every} weights",
                *known,
                f"fresh: {left}" + (f" and {more} more" if more > 0 else ""),
            ]
        )


def begin_with(
    run: Path, config: WriterConfig, model: nn.Module, tokenizers: Tokenizers
) -> Beginning:
    """Set what of a model another run has to that run's weights. UserError where it is no run, or
    has nothing of this model."""
    other = Loaded.of(run)
    theirs = other.model.state_dict()
    sides = vocabulary_sides(config, tokenizers)
    their_sides = vocabulary_sides(other.config, other.tokenizers)
    words: dict[Side, Words] = {}
    copied: list[str] = []
    by_words: list[str] = []
    fresh: list[str] = []
    for names, tensor in _distinct(model):
        name = next((name for name in names if name in theirs), names[0])
        weights, side, their_side = theirs.get(name), sides.get(name), their_sides.get(name)
        if weights is None or (side is None) != (their_side is None):
            fresh.append(name)
        elif side is not None and their_side is not None and tensor[0].shape == weights[0].shape:
            ours = getattr(tokenizers, side)
            known = _common(ours, getattr(other.tokenizers, their_side))
            tensor[list(known)] = weights[list(known.values())].to(tensor)
            by_words.append(name)
            label: Literal["shared"] | Side = "shared" if config.tied == "all" else side
            words[side] = _count(label, ours, known)
        elif side is None and tensor.shape == weights.shape:
            tensor.copy_(weights)
            copied.append(name)
        else:
            fresh.append(name)
    if not copied and not any(each.known for each in words.values()):
        raise UserError(
            f"there is nothing in {run} that this model could begin with: no weights of one name "
            "and shape, and no words in common. Take the model's fields from its config.yaml, or "
            "leave --init-from out"
        )
    counts = tuple(words[side] for side in SIDES if side in words)
    return Beginning(run, tuple(copied), tuple(by_words), tuple(fresh), counts)


def vocabulary_sides(config: WriterConfig, tokenizers: Tokenizers) -> Mapping[str, Side]:
    """Which weights have a row for every word of a vocabulary, whatever model that is: those whose
    size changes with it. Nothing is computed on the meta device."""
    sizes = [len(getattr(tokenizers, side)) for side in SIDES]
    found: dict[str, Side] = {}
    for number, side in enumerate(SIDES):
        more = [size + (place == number) for place, size in enumerate(sizes)]
        if config.tied == "all":  # one matrix for both
            more = [size + 1 for size in sizes]
        before, after = _shapes(config, sizes), _shapes(config, more)
        found |= {name: side for name, shape in before.items() if shape != after[name]}
    return found


def _shapes(config: WriterConfig, sizes: Sequence[int]) -> dict[str, torch.Size]:
    with meta_device():
        state = build_translation(config, *sizes).state_dict()
    return {name: tensor.shape for name, tensor in state.items()}


def _distinct(model: nn.Module) -> Iterable[tuple[list[str], Tensor]]:
    """Every weight once, with all of its names."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    tensors = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names[id(tensor)].append(name)
        tensors[id(tensor)] = tensor.detach()
    return ((names[number], tensor) for number, tensor in tensors.items())


def _common(ours: Tokenizer, theirs: Tokenizer) -> dict[int, int]:
    """Our numbers of the pieces that both have, with theirs."""
    numbers = {piece: number for number, piece in enumerate(theirs.vocabulary)}
    return {
        number: numbers[piece] for number, piece in enumerate(ours.vocabulary) if piece in numbers
    }


def _count(side: Side | Literal["shared"], ours: Tokenizer, known: Iterable[int]) -> Words:
    """Special tokens are no words."""
    num_known = sum(ours.vocabulary[number] not in SPECIAL for number in known)
    return Words(side, num_known, sum(piece not in SPECIAL for piece in ours.vocabulary))
