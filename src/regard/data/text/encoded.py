"""Pairs as numbers, in arrays that may lie in a file instead of in memory.

    numbers            source 0, target 0, source 1, target 1, ...
    source_lengths     how many numbers each source has
    target_lengths     and each target

The file is in the format of safetensors. It is written while the pairs come, and of the numbers
only those of the batches at hand are read, so that neither takes memory for all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from regard.data.batch import PAD, START, PairBatch, Tokens

HEAD = 4096
"""Bytes of the file that tell what is in it."""
CHUNK = 1 << 20
"""Numbers that are looked at together."""
LENGTHS = ("source_lengths", "target_lengths")
TYPES: dict[str, np.dtype[Any]] = {"U16": np.dtype("<u2"), "I32": np.dtype("<i4")}


class DamagedError(Exception):
    """A file does not hold what was written."""


class EncodedPairs:
    """Sources and targets as numbers; a target is what is to be written, END included."""

    def __init__(
        self,
        numbers: np.ndarray,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        digest: str | None = None,
    ) -> None:
        """`digest` is theirs, where it is known already."""
        self.numbers = numbers
        self.source_lengths = source_lengths
        self.target_lengths = target_lengths
        lengths = np.add(source_lengths, target_lengths, dtype=np.int64)
        self._starts = np.cumsum(lengths) - lengths
        self._digest = digest

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> EncodedPairs:
        """ValueError where the sides differ in number or a sequence is empty."""
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets: expected pairs")
        in_turn = chain.from_iterable(chain.from_iterable(zip(sources, targets, strict=True)))
        numbers = np.fromiter(in_turn, np.int32)
        return cls(numbers, _lengths("source", sources), _lengths("target", targets))

    @classmethod
    def joined(cls, parts: Iterable[EncodedPairs]) -> EncodedPairs:
        """All of these, one after the other, in memory."""
        columns = [(part.numbers, part.source_lengths, part.target_lengths) for part in parts]
        if not columns:
            return cls.of([], [])
        numbers, sources, targets = map(np.concatenate, zip(*columns, strict=True))
        return cls(numbers, sources, targets)

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self.source_lengths)

    @property
    def digest(self) -> str:
        """The same for the same pairs, and for no others, wherever they lie."""
        if self._digest is None:
            told = _Digest()
            told.add(self.numbers)
            told.end(self.source_lengths, self.target_lengths)
            self._digest = told.hexdigest()
        return self._digest

    def batch(self, indices: np.ndarray) -> PairBatch:
        """These pairs, padded."""
        starts, middles = self._starts[indices], self.source_lengths[indices]
        outputs = self._tokens(starts + middles, self.target_lengths[indices])
        inputs = torch.full_like(outputs.ids, START)
        inputs[:, 1:] = outputs.ids[:, :-1]
        return PairBatch(self._tokens(starts, middles), inputs, outputs.ids, outputs.mask)

    def _tokens(self, starts: np.ndarray, lengths: np.ndarray) -> Tokens:
        positions = np.arange(lengths.max())
        mask = positions < lengths[:, None]
        ids = np.full(mask.shape, PAD, dtype=np.int64)
        ids[mask] = self.numbers[(starts[:, None] + positions)[mask]]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))


@runtime_checkable
class PairSource(Protocol):
    """Pairs that are encoded while they are written."""

    @property
    def vocabulary(self) -> int:
        """What all numbers are below."""

    def parts(self) -> Iterable[EncodedPairs]:
        """All pairs, some at a time; from the beginning at each call."""

    def about(self) -> str:
        """At most some lines about the pairs, known when the last of them have come."""


def write(path: Path, pairs: PairSource) -> None:
    """Write all pairs to one file, with the text about them."""
    kind = "U16" if pairs.vocabulary <= 1 << 16 else "I32"
    told, sources, targets = _Digest(), [np.empty(0, "<i4")], [np.empty(0, "<i4")]
    with path.open("wb") as file:
        file.write(bytes(HEAD))
        for part in pairs.parts():
            told.add(part.numbers)
            file.write(part.numbers.astype(TYPES[kind]).tobytes())
            sources.append(part.source_lengths)
            targets.append(part.target_lengths)
        lengths = [np.concatenate(side, dtype="<i4") for side in (sources, targets)]
        for side in lengths:
            file.write(side.tobytes())
        about = pairs.about()
        file.seek(0)
        file.write(_head(kind, lengths, {"about": about, "sha256": _seal(told, lengths, about)}))


def read(path: Path) -> tuple[EncodedPairs, str]:
    """The pairs of a file that `write` wrote, their numbers left there, and its text. All of it is
    looked through once. DamagedError where it is something else or not whole; OSError where it
    cannot be read."""
    try:
        with path.open("rb") as file:
            first_bytes = file.read(HEAD)
            head = json.loads(first_bytes[8:])
            about = head["__metadata__"]["about"]
            kind, count = TYPES[head["numbers"]["dtype"]], head["numbers"]["shape"][0]
            if HEAD + head["target_lengths"]["data_offsets"][1] != path.stat().st_size:
                raise DamagedError(f"{path} is not whole")
            told = _Digest()
            for first in range(0, count, CHUNK):
                told.add(np.fromfile(file, kind, min(CHUNK, count - first)))
            sources, targets = (
                np.fromfile(file, TYPES["I32"], head[name]["shape"][0]) for name in LENGTHS
            )
            metadata = {"about": about, "sha256": _seal(told, (sources, targets), about)}
            if _head(head["numbers"]["dtype"], (sources, targets), metadata) != first_bytes:
                raise DamagedError(f"{path} holds something else than was written")
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedError(f"{path} is no file of encoded pairs: {error}") from error
    numbers = np.memmap(path, kind, "r", HEAD, (count,)) if count else np.empty(0, kind)
    return EncodedPairs(numbers, sources, targets, told.hexdigest()), about


def _head(kind: str, lengths: Sequence[np.ndarray], metadata: dict[str, str]) -> bytes:
    """The file's beginning: the length of what follows, and that as JSON, filled up with spaces."""
    sizes = [sum(int(side.sum(dtype=np.int64)) for side in lengths), *map(len, lengths)]
    head: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, number, size in zip(("numbers", *LENGTHS), (kind, "I32", "I32"), sizes, strict=True):
        first, end = end, end + size * TYPES[number].itemsize
        head[name] = {"dtype": number, "shape": [size], "data_offsets": [first, end]}
    told = json.dumps(head).encode().ljust(HEAD - 8)
    if len(told) > HEAD - 8:
        raise ValueError(f"{len(metadata['about'])} letters about the pairs are too many")
    return (HEAD - 8).to_bytes(8, "little") + told


def _seal(told: _Digest, lengths: Sequence[np.ndarray], about: str) -> str:
    """By which damage is noticed; the lengths are told now."""
    told.end(*lengths)
    return hashlib.sha256(f"{told.hexdigest()} {about}".encode()).hexdigest()


def _lengths(name: str, sequences: Sequence[Sequence[int]]) -> np.ndarray:
    lengths = np.fromiter(map(len, sequences), np.int32, len(sequences))
    if not lengths.all():
        raise ValueError(f"{name} {int(np.argmin(lengths))} is empty: expected at least one token")
    return lengths


class _Digest:
    """Of numbers that come piece by piece, whatever type they are stored as."""

    def __init__(self) -> None:
        self._told = hashlib.sha256()

    def add(self, numbers: np.ndarray) -> None:
        for first in range(0, len(numbers), CHUNK):
            self._told.update(numbers[first : first + CHUNK].astype("<i4").tobytes())

    def end(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> None:
        for lengths in (source_lengths, target_lengths):
            self._told.update(len(lengths).to_bytes(8, "little"))
            self.add(lengths)

    def hexdigest(self) -> str:
        return self._told.hexdigest()
