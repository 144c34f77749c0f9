"""Work on an input in parts, which the commands define, and the faults of the parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.inference.parts import Part

Faults = Mapping[str, Any]
"""Faults of a part by name: numbers, lists, and dictionaries of such values, as JSON has them."""


@runtime_checkable
class PartWorker(Protocol):
    """A loaded model that processes parts of an input."""

    def run(self, part: Part, outputs: Sequence[Path | None]) -> Faults:
        """Process a part, write each of its outputs to a file, and return its faults. None: an
        output that the command does not write."""
        ...


@runtime_checkable
class Job(Protocol):
    """Description of the work, which workers on other machines receive."""

    def open(self) -> PartWorker:
        """Load the model. UserError if that fails."""
        ...


def merged(faults: Iterable[Faults]) -> dict[str, Any]:
    """Return the faults of all parts, which are in their order: numbers are added, lists joined,
    and dictionaries merged."""
    return reduce(_both, faults, dict[str, Any]())


def _both(first: Any, second: Any) -> Any:
    match first:
        case dict():
            common = {name: _both(first[name], second[name]) for name in first if name in second}
            return {**first, **second, **common}
        case list() | int():
            return first + second
        case _:
            return second
