"""Initialisation with the weights of another run, for models of every task.

Weights with the same name and shape in both models are copied. Weights with a row for each token
(embeddings and the layer that computes logits) are copied row by row, for the tokens that both
vocabularies have. All other weights stay newly initialised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from torch import Tensor, nn

from regard import recipes
from regard.config import ModelConfig
from regard.config.checks import option_of
from regard.data.special_tokens import SPECIAL
from regard.errors import UserError, listed
from regard.names import Side, VocabularySide
from regard.runs.folder import RunFolder
from regard.tasks.training.tokenizers import AnyTokenizer

Value = TypeVar("Value")

SIDES: tuple[Side, ...] = ("source", "target")
SHOWN = 4
"""Number of weights that one message lists."""


@dataclass(frozen=True)
class WordWeights:
    """Tokenizers of a model, and the side of each weight that has a row for each word."""

    tokenizers: Mapping[Side, AnyTokenizer]
    sides: Mapping[str, Side]
    is_one_matrix: bool = False
    """Whether both sides share one embedding."""


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

    @property
    def is_mostly_new(self) -> bool:
        """Whether most weights are newly initialised."""
        return len(self.new) > len(self.copied + self.by_words)

    @property
    def share_copied(self) -> str:
        """Number of copied weights, in words."""
        num_copied = len(self.copied + self.by_words)
        return f"{num_copied} of {num_copied + len(self.new)} weights"

    def __str__(self) -> str:
        counts = [
            f"{shared.known:,} of {shared.size:,} {shared.side} words" for shared in self.words
        ]
        return "; ".join(
            [
                f"initialised from {self.run}: {self.share_copied}",
                *counts,
                f"newly initialised: {listed(self.new, SHOWN) or 'none'}",
            ]
        )


def copy_weights(
    run: Path,
    weights: Mapping[str, Tensor],
    their_words: WordWeights,
    model: nn.Module,
    our_words: WordWeights,
) -> Initialisation:
    """Copy the weights of a run into the model, as far as both have them. UserError if the run
    shares no weights with the model."""
    theirs = _by_shared_name(weights)
    sides, their_sides = map(_by_shared_name, (our_words.sides, their_words.sides))
    words: dict[Side, SharedWords] = {}
    copied: list[str] = []
    by_words: list[str] = []
    new: list[str] = []
    for names, tensor in _distinct(model):
        names = [_shared_name(name) for name in names]
        name = next((name for name in names if name in theirs), names[0])
        values, side, their_side = theirs.get(name), sides.get(name), their_sides.get(name)
        if values is None or (side is None) != (their_side is None):
            new.append(name)
        elif side is not None and their_side is not None and tensor[0].shape == values[0].shape:
            ours = our_words.tokenizers[side]
            known = _common(ours, their_words.tokenizers[their_side])
            tensor[list(known)] = values[list(known.values())].to(tensor)
            by_words.append(name)
            label: VocabularySide = "shared" if our_words.is_one_matrix else side
            words[side] = _count(label, ours, known)
        elif side is None and tensor.shape == values.shape:
            tensor.copy_(values)
            copied.append(name)
        else:
            new.append(name)
    is_counter = {name: not values.is_floating_point() for name, values in theirs.items()}
    if all(is_counter[name] for name in copied) and not any(
        shared.known for shared in words.values()
    ):
        raise UserError(
            f"{run} shares no weights with this model: none have the same name and shape, and the "
            "vocabularies have no words in common. Copy the model's fields from its config.yaml, "
            "or leave --init-from out"
        )
    counts = tuple(words[side] for side in SIDES if side in words)
    return Initialisation(run, tuple(copied), tuple(by_words), tuple(new), counts)


def differing_options(run: Path, model: ModelConfig) -> tuple[str, ...]:
    """Return the model options of a run that differ from those of a resolved model, as they are
    written on the command line. Dropout is left out, and so are values that parts inherit."""
    theirs = dict(recipes.flat({"model": asdict(RunFolder(run).experiment().model)}))
    ours = dict(recipes.flat({"model": asdict(model)}))
    values = {
        name: (value, ours.get(name))
        for name, value in theirs.items()
        if value != ours.get(name) and not name.endswith("dropout")
    }
    inherited = values.get("model.size")
    own = (name for name, both in values.items() if name == "model.size" or both != inherited)
    return tuple(
        option_of(name, theirs[name]) for name in sorted(own, key=lambda name: name.count("."))
    )


def _shared_name(name: str) -> str:
    """Return the name that a weight has in a model with soft attention and without copying: hard
    attention has a soft attention inside it, and a pointer-generator has a decoder."""
    return name.replace("decoder.inner.", "decoder.", 1).replace(".attention.soft.", ".attention.")


def _by_shared_name(values: Mapping[str, Value]) -> dict[str, Value]:
    return {_shared_name(name): value for name, value in values.items()}


def _distinct(model: nn.Module) -> Iterable[tuple[list[str], Tensor]]:
    """Yield each weight once, with all its names."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    tensors = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names[id(tensor)].append(name)
        tensors[id(tensor)] = tensor.detach()
    return ((names[number], tensor) for number, tensor in tensors.items())


def _common(ours: AnyTokenizer, theirs: AnyTokenizer) -> dict[int, int]:
    """Return the numbers of the pieces in both vocabularies: ours to theirs."""
    numbers = {piece: number for number, piece in enumerate(theirs.vocabulary)}
    return {
        number: numbers[piece] for number, piece in enumerate(ours.vocabulary) if piece in numbers
    }


def _count(side: VocabularySide, ours: AnyTokenizer, known: Iterable[int]) -> SharedWords:
    """Count shared words, without special tokens."""
    num_known = sum(ours.vocabulary[number] not in SPECIAL for number in known)
    return SharedWords(side, num_known, sum(piece not in SPECIAL for piece in ours.vocabulary))
