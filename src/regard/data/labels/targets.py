"""Answers to whole sources: one of several labels, or numbers. How texts become what a model is
trained towards, and how its outputs become texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.data.examples import Pair
from regard.errors import UserError
from regard.shapes import Float, Tensor


@dataclass(frozen=True)
class Labels:
    """The labels that there are, each with its place as its number."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> Labels:
        """All labels of these pairs, in the order of their letters (of whole numbers, of size).
        UserError where there is nothing to tell apart."""
        found = Counter(pair.target for pair in pairs)
        if len(found) < 2:
            raise UserError(
                f"all examples have the label {next(iter(found), None)!r}: expected two labels or "
                "more to tell apart"
            )
        return cls(tuple(sorted(found, key=_in_order)))

    @property
    def size(self) -> int:
        """How many outputs a model needs."""
        return len(self.names)

    def encode(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Their numbers. UserError for a label that is none of these, with its line."""
        numbers = {name: number for number, name in enumerate(self.names)}
        for pair in pairs:
            if pair.target not in numbers:
                names = [name[:40] for name in self.names[:10]]
                shown = ", ".join(names) + (" …" if len(self.names) > 10 else "")
                raise UserError(
                    f"{pair.place}: the label {pair.target[:40]!r} is not one that is learned: "
                    f"expected one of {shown}"
                )
        return np.array([numbers[pair.target] for pair in pairs], dtype=np.int64)

    def decode(self, outputs: Float[Tensor, "batch class"]) -> list[str]:
        """The likeliest label of each."""
        return [self.names[number] for number in outputs.argmax(dim=-1).tolist()]


@dataclass(frozen=True)
class Standardiser:
    """Numbers, each output moved and stretched so that those trained on have mean 0 and standard
    deviation 1, or left as they are."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair], *, standardised: bool) -> Standardiser:
        """From the pairs to train on. UserError where a target is not as many numbers as the
        first."""
        numbers = _numbers(pairs, None)
        count = numbers.shape[1]
        if not standardised:
            return cls((0.0,) * count, (1.0,) * count)
        deviations = np.where(numbers.std(axis=0) > 0, numbers.std(axis=0), 1.0)
        return cls(tuple(numbers.mean(axis=0).tolist()), tuple(deviations.tolist()))

    @property
    def size(self) -> int:
        """How many outputs a model needs."""
        return len(self.means)

    def encode(self, pairs: Sequence[Pair]) -> np.ndarray:
        """As a model learns them. UserError for a target that is not so many numbers."""
        numbers = _numbers(pairs, self.size)
        return ((numbers - self.means) / self.deviations).astype(np.float32)

    def restore(self, outputs: Float[Tensor, "batch output"]) -> np.ndarray:
        """As they stand in the data."""
        return outputs.double().cpu().numpy() * self.deviations + self.means

    def decode(self, outputs: Float[Tensor, "batch output"]) -> list[str]:
        """With the six digits that a float32 is sure of."""
        return [" ".join(f"{number:.6g}" for number in row) for row in self.restore(outputs)]


Targets = Labels | Standardiser
KINDS: dict[str, type[Labels] | type[Standardiser]] = {"labels": Labels, "scale": Standardiser}


def to_page(answers: Targets) -> dict[str, Any]:
    """As JSON can hold them."""
    (kind,) = (name for name, each in KINDS.items() if isinstance(answers, each))
    return {"kind": kind, **asdict(answers)}


def from_page(page: dict[str, Any]) -> Targets:
    """What `to_page` told of; LookupError or TypeError for anything else."""
    fields = {name: tuple(values) for name, values in page.items() if name != "kind"}
    return KINDS[page["kind"]](**fields)


def _numbers(pairs: Sequence[Pair], count: int | None) -> np.ndarray:
    rows = []
    for pair in pairs:
        try:
            row = [float(word) for word in pair.target.split()]
        except ValueError as error:
            raise UserError(f"{pair.place}: {pair.target!r} is no number: {error}") from error
        count = count or len(row)
        if len(row) != count or not all(map(math.isfinite, row)):
            raise UserError(
                f"{pair.place}: {pair.target!r} came, but expected {count} finite "
                f"{'number' if count == 1 else 'numbers'}"
            )
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1)


def _in_order(name: str) -> tuple[int, int, str]:
    """Whole numbers by size, before all else."""
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
