"""Targets of the classification task: labels or numbers. They are encoded for training, and outputs
of a model are decoded as texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.characters import composed, quoted, with_escapes
from regard.data.examples import Pair
from regard.errors import UserError, listed
from regard.shapes import Float, Tensor

LARGEST = 1e37
"""Largest absolute value of a target. Models compute with targets in float32."""
MAX_SHOWN = 5
"""Largest number of labels in a message."""


@dataclass(frozen=True)
class Labels:
    """Labels; the number of a label is its position."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Labels:
        """Return all labels of these pairs in alphabetical order; integers come first, by size.
        UserError if there are fewer than two labels."""
        counts = Counter(composed(pair.target) for pair in pairs)
        if len(counts) < 2:
            name = quoted(next(iter(counts), ""), 40)
            raise UserError(f"all examples have the label {name}: expected at least 2 labels")
        return cls(tuple(sorted(counts, key=_sort_key)))

    @property
    def size(self) -> int:
        """Number of outputs of a model."""
        return len(self.names)

    def encode(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the numbers of the labels. UserError for an unknown label, with its line."""
        for pair in self.unseen(pairs):
            shown = listed([with_escapes(name[:40]) for name in self.names], 10)
            raise UserError(
                f"{pair.place}: the label {quoted(pair.target, 40)} is not in the training data: "
                f"expected one of {shown}"
            )
        numbers = [self.number(pair.target) for pair in pairs]
        return np.array(numbers, dtype=np.int64)

    def unseen(self, pairs: Iterable[Pair]) -> tuple[Pair, ...]:
        """Return the pairs with a label that the training data lack."""
        return tuple(pair for pair in pairs if self.number(pair.target) is None)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Numbers of the labels."""
        return {name: number for number, name in enumerate(self.names)}

    def number(self, label: str) -> int | None:
        """Return the number of a label; None if it is unknown."""
        return self._numbers.get(composed(label))

    def decode(self, outputs: Float[Tensor, "batch class"]) -> list[str]:
        """Return the most probable label of each output."""
        return [self.names[number] for number in outputs.argmax(dim=-1).tolist()]


@dataclass(frozen=True)
class Standardiser:
    """Standardisation of numbers: each output has mean 0 and standard deviation 1 in the training
    data. With means 0 and deviations 1 numbers are unchanged."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    units: tuple[str, ...] | None = None
    """Units of the columns of the training targets, blank for none; None if not known."""

    @classmethod
    def of(
        cls, pairs: Sequence[Pair], units: tuple[str, ...] | None = None, *, standardised: bool
    ) -> Standardiser:
        """Return the standardisation of the training pairs. UserError if a target is not numbers,
        is above `LARGEST` or has another number of them than the first target."""
        numbers = _numbers(pairs, None)
        count = numbers.shape[1]
        if not standardised:
            return cls((0.0,) * count, (1.0,) * count, units)
        deviations = np.where(numbers.std(axis=0) > 0, numbers.std(axis=0), 1.0)
        return cls(tuple(numbers.mean(axis=0).tolist()), tuple(deviations.tolist()), units)

    @property
    def size(self) -> int:
        """Number of outputs of a model."""
        return len(self.means)

    def encode(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return standardised targets. UserError unless each target has `size` numbers."""
        numbers = _numbers(pairs, self.size)
        return ((numbers - self.means) / self.deviations).astype(np.float32)

    def restore(self, outputs: Float[Tensor, "batch output"]) -> np.ndarray:
        """Return outputs in the unit of the data."""
        return outputs.double().cpu().numpy() * self.deviations + self.means

    def decode(self, outputs: Float[Tensor, "batch output"]) -> list[str]:
        """Return outputs in the unit of the data as text, with the six significant digits of
        float32."""
        return [" ".join(f"{number:.6g}" for number in row) for row in self.restore(outputs)]


Targets = Labels | Standardiser
KINDS: dict[str, type[Labels] | type[Standardiser]] = {"labels": Labels, "scale": Standardiser}


def describe_unseen(unseen: Sequence[Pair], num_pairs: int, outcome: str) -> tuple[str, ...]:
    """Return a sentence about held-out pairs with unseen labels and their outcome, if there are
    any."""
    if not unseen:
        return ()
    labels = list(dict.fromkeys(pair.target for pair in unseen))
    shown = listed([with_escapes(label[:40]) for label in labels], MAX_SHOWN)
    return (
        f"{len(unseen):,} of {num_pairs:,} {outcome}, because no training example has their label: "
        f"{shown}",
    )


def to_json(targets: Targets) -> dict[str, Any]:
    """Return targets as values for JSON."""
    (kind,) = (name for name, record in KINDS.items() if isinstance(targets, record))
    return {"kind": kind, **asdict(targets)}


def from_json(values: dict[str, Any]) -> Targets:
    """Return the targets that `to_json` encoded. LookupError or TypeError for any other value."""
    fields = {
        name: tuple(field)
        for name, field in values.items()
        if name != "kind" and (name, field) != ("units", None)
    }
    return KINDS[values["kind"]](**fields)


def _numbers(pairs: Sequence[Pair], count: int | None) -> np.ndarray:
    rows = []
    for pair in pairs:
        try:
            row = [float(word) for word in pair.target.split()]
        except ValueError as error:
            raise UserError(
                f"{pair.place}: the target {quoted(pair.target, 40)} is not a number: correct "
                f"or remove it, or name another column with --data.target-column{header_hint(pair)}"
            ) from error
        count = count or len(row)
        if len(row) != count or not all(map(math.isfinite, row)):
            raise UserError(
                f"{pair.place}: expected {count} finite {'number' if count == 1 else 'numbers'}, "
                f"got {quoted(pair.target, 40)}"
            )
        if max(map(abs, row), default=0.0) > LARGEST:
            raise UserError(
                f"{pair.place}: expected targets from {-LARGEST:g} to {LARGEST:g}, got "
                f"{quoted(pair.target, 40)}: correct or remove it"
            )
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1)


def header_hint(pair: Pair) -> str:
    """Return the option for a pair that may be a header, to end a message; blank for a pair below
    the first line."""
    return "; if the line names the columns, use --data.header" if pair.line == 1 else ""


def _sort_key(name: str) -> tuple[int, int, str]:
    """Return a key that sorts integers first, by size."""
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
