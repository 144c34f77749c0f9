"""Encoded pairs, in arrays in memory or in a file.

    numbers            source 0, target 0, source 1, target 1, ...
                       for models that copy: source 0, copies 0, target 0, source 1, ...
    source_lengths     number of tokens of each source
    target_lengths     number of tokens of each target

The file has the format of safetensors. It is written while pairs are encoded, and only the numbers
of the current batch are read, so neither needs memory for all pairs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from regard.data.batch import PAD, START, PairBatch, Tokens

HEAD = 4096
"""Size of the header in bytes."""
CHUNK = 1 << 20
"""Number of token numbers that are digested together."""
LENGTHS = ("source_lengths", "target_lengths")
COPIES = {"copies": "true"}
"""Metadata of a file whose sources have numbers to copy."""
TYPES: dict[str, np.dtype[Any]] = {"U16": np.dtype("<u2"), "I32": np.dtype("<i4")}


class DamagedError(Exception):
    """Damaged file of encoded pairs."""


class EncodedPairs:
    """Sources and targets as token numbers. Targets end with END."""

    def __init__(
        self,
        numbers: np.ndarray,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        digest: str | None = None,
        *,
        has_copies: bool = False,
    ) -> None:
        """`digest` is the digest of the pairs, if it is known. `has_copies` is true if a number to
        copy follows for each number of a source."""
        self.has_copies = has_copies
        self.numbers = numbers
        self.source_lengths = source_lengths
        self.target_lengths = target_lengths
        lengths = np.add(source_lengths, target_lengths, dtype=np.int64)
        if has_copies:
            lengths += source_lengths
        self._starts = np.cumsum(lengths) - lengths
        self._digest = digest

    @classmethod
    def of(
        cls,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        copies: Sequence[Sequence[int]] | None = None,
    ) -> EncodedPairs:
        """Return encoded pairs in memory, with the numbers to copy of each source, if any.
        ValueError if the numbers of sources and targets differ, or if a sequence is empty."""
        if len(sources) != len(targets):
            raise ValueError(
                f"got {len(sources)} sources and {len(targets)} targets: expected equal numbers"
            )
        sides = [sources, targets] if copies is None else [sources, copies, targets]
        tokens = chain.from_iterable(chain.from_iterable(zip(*sides, strict=True)))
        numbers = np.fromiter(tokens, np.int32)
        lengths = _lengths("source", sources), _lengths("target", targets)
        return cls(numbers, *lengths, has_copies=copies is not None)

    @classmethod
    def joined(cls, parts: Iterable[EncodedPairs]) -> EncodedPairs:
        """Concatenate encoded pairs in memory."""
        parts = list(parts)
        if not parts:
            return cls.of([], [])
        columns = [(part.numbers, part.source_lengths, part.target_lengths) for part in parts]
        numbers, sources, targets = map(np.concatenate, zip(*columns, strict=True))
        return cls(numbers, sources, targets, has_copies=parts[0].has_copies)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.source_lengths)

    @property
    def digest(self) -> str:
        """Digest of the pairs, in memory or in a file."""
        if self._digest is None:
            digest = _Digest()
            digest.add(self.numbers)
            digest.end(self.source_lengths, self.target_lengths)
            self._digest = digest.hexdigest()
        return self._digest

    def pair(self, index: int) -> tuple[list[int], list[int]]:
        """Return the token numbers of one source and its target. ValueError with copies."""
        if self.has_copies:
            raise ValueError("pairs have numbers to copy: read them as a batch")
        start = self._starts[index]
        middle = start + self.source_lengths[index]
        end = middle + self.target_lengths[index]
        return self.numbers[start:middle].tolist(), self.numbers[middle:end].tolist()

    def batch(self, indices: np.ndarray) -> PairBatch:
        """Return a padded batch of the pairs with these numbers."""
        starts, lengths = self._starts[indices], self.source_lengths[indices]
        source, middles = self._tokens(starts, lengths), starts + lengths
        if self.has_copies:
            source = replace(source, copies=self._tokens(middles, lengths).ids)
            middles = middles + lengths
        outputs = self._tokens(middles, self.target_lengths[indices])
        inputs = torch.full_like(outputs.ids, START)
        inputs[:, 1:] = outputs.ids[:, :-1]
        return PairBatch(source, inputs, outputs.ids, outputs.mask)

    def _tokens(self, starts: np.ndarray, lengths: np.ndarray) -> Tokens:
        positions = np.arange(lengths.max())
        mask = positions < lengths[:, None]
        ids = np.full(mask.shape, PAD, dtype=np.int64)
        ids[mask] = self.numbers[(starts[:, None] + positions)[mask]]
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))


@runtime_checkable
class PairSource(Protocol):
    """Pairs that are encoded while they are written to a file."""

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary; all token numbers are smaller."""

    @property
    def has_copies(self) -> bool:
        """Whether sources have numbers to copy."""

    def parts(self) -> Iterable[EncodedPairs]:
        """Yield all pairs in parts, from the beginning at every call."""

    def about(self) -> str:
        """Return a short text about the pairs, which is complete after the last part."""


def write(path: Path, pairs: PairSource) -> None:
    """Write all pairs and the text about them to one file."""
    kind = "U16" if pairs.vocabulary <= 1 << 16 else "I32"
    digest, sources, targets = _Digest(), [np.empty(0, "<i4")], [np.empty(0, "<i4")]
    with path.open("wb") as file:
        file.write(bytes(HEAD))
        for part in pairs.parts():
            digest.add(part.numbers)
            file.write(part.numbers.astype(TYPES[kind]).tobytes())
            sources.append(part.source_lengths)
            targets.append(part.target_lengths)
        lengths = [np.concatenate(side, dtype="<i4") for side in (sources, targets)]
        for side in lengths:
            file.write(side.tobytes())
        about = pairs.about()
        metadata = {"about": about, "sha256": _seal(digest, lengths, about)}
        if pairs.has_copies:
            metadata |= COPIES
        file.seek(0)
        file.write(_head(kind, lengths, metadata))


def read(path: Path) -> tuple[EncodedPairs, str]:
    """Return the pairs of a file of `write`, with their numbers mapped from the file, and its text.
    The whole file is checked once. DamagedError if it is incomplete or another file; OSError if it
    cannot be read."""
    try:
        with path.open("rb") as file:
            first_bytes = file.read(HEAD)
            head = json.loads(first_bytes[8:])
            about = head["__metadata__"]["about"]
            kind, count = TYPES[head["numbers"]["dtype"]], head["numbers"]["shape"][0]
            if HEAD + head["target_lengths"]["data_offsets"][1] != path.stat().st_size:
                raise DamagedError(f"{path} is incomplete")
            digest = _Digest()
            for first in range(0, count, CHUNK):
                digest.add(np.fromfile(file, kind, min(CHUNK, count - first)))
            sources, targets = (
                np.fromfile(file, TYPES["I32"], head[name]["shape"][0]) for name in LENGTHS
            )
            metadata = {"about": about, "sha256": _seal(digest, (sources, targets), about)}
            has_copies = "copies" in head["__metadata__"]
            if has_copies:
                metadata |= COPIES
            if _head(head["numbers"]["dtype"], (sources, targets), metadata) != first_bytes:
                raise DamagedError(f"{path} has changed since it was written")
    except (ValueError, LookupError, TypeError) as error:
        raise DamagedError(f"{path} is not a file of encoded pairs: {error}") from error
    numbers = np.memmap(path, kind, "r", HEAD, (count,)) if count else np.empty(0, kind)
    pairs = EncodedPairs(numbers, sources, targets, digest.hexdigest(), has_copies=has_copies)
    return pairs, about


def _head(kind: str, lengths: Sequence[np.ndarray], metadata: dict[str, str]) -> bytes:
    """Return the header: the length of its JSON, then the JSON, padded with spaces."""
    sides = [int(side.sum(dtype=np.int64)) for side in lengths]
    if "copies" in metadata:
        sides.append(sides[0])
    sizes = [sum(sides), *map(len, lengths)]
    head: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, number, size in zip(("numbers", *LENGTHS), (kind, "I32", "I32"), sizes, strict=True):
        first, end = end, end + size * TYPES[number].itemsize
        head[name] = {"dtype": number, "shape": [size], "data_offsets": [first, end]}
    content = json.dumps(head).encode().ljust(HEAD - 8)
    if len(content) > HEAD - 8:
        raise ValueError(
            f"the text about the pairs has {len(metadata['about'])} characters, which are too many"
        )
    return (HEAD - 8).to_bytes(8, "little") + content


def _seal(digest: _Digest, lengths: Sequence[np.ndarray], about: str) -> str:
    """Add the lengths to the digest and return a checksum of pairs and text."""
    digest.end(*lengths)
    return hashlib.sha256(f"{digest.hexdigest()} {about}".encode()).hexdigest()


def _lengths(name: str, sequences: Sequence[Sequence[int]]) -> np.ndarray:
    lengths = np.fromiter(map(len, sequences), np.int32, len(sequences))
    if not lengths.all():
        raise ValueError(f"{name} {int(np.argmin(lengths))} is empty: expected at least 1 token")
    return lengths


class _Digest:
    """Digest of numbers that come in parts, independent of their stored type."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, numbers: np.ndarray) -> None:
        for first in range(0, len(numbers), CHUNK):
            self._hash.update(numbers[first : first + CHUNK].astype("<i4").tobytes())

    def end(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> None:
        for lengths in (source_lengths, target_lengths):
            self._hash.update(len(lengths).to_bytes(8, "little"))
            self.add(lengths)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()
