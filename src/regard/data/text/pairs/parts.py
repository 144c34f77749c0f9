"""Parts of encoded pairs: files in the format safetensors, which are mapped.

A part has pairs of one corpus, group after group: pairs with the same source length and the same
target length are neighbours, so the place of a pair follows from the sizes of the groups.

    groups     [groups, 3] source length, target length, number of pairs
    numbers    source 0, target 0, source 1, target 1, ...
               for models that copy: source 0, copies 0, target 0, source 1, ...

Processes of one machine share the pages of the files.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from regard.data.text.pairs.encoded import EncodedPairs
from regard.storage.files import BLOCK, UnwritableError

TYPES: dict[str, np.dtype[Any]] = {"U16": np.dtype("<u2"), "I32": np.dtype("<i4")}
"""Types of token numbers, by their names in the file."""
GROUPS = np.dtype("<i8")


class DamagedError(Exception):
    """Damaged file of encoded pairs."""


@runtime_checkable
class PairSource(Protocol):
    """Pairs that are encoded in parts."""

    def parts(self, first: int) -> Iterator[Part]:
        """Yield the parts from the one that begins with this pair, at every call."""


@dataclass(frozen=True)
class PartFacts:
    """Place of a part among all pairs."""

    corpus: int
    """Number of the corpus, from 0."""
    first: int
    """Number of pairs before the first pair of this part, including pairs that were left out."""
    num_read: int
    """Number of pairs that this part was made of, including pairs that were left out."""
    is_last: bool
    has_copies: bool
    about: str
    """Text about the pairs that were left out."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Part:
    """Encoded pairs of one corpus, in memory or in a file."""

    facts: PartFacts
    groups: np.ndarray
    """[groups, 3] source length, target length and number of pairs of each group."""
    numbers: np.ndarray
    """Token numbers, group after group, as 16-bit integers for vocabularies of up to 65,536."""
    digest: str
    """Digest of the facts, the groups and the token numbers."""
    map: mmap.mmap | None = None
    """File that the token numbers are mapped from."""

    @classmethod
    def of(cls, pairs: EncodedPairs, facts: PartFacts, vocabulary: int) -> Part:
        """Return a part in memory. All token numbers are below `vocabulary`."""
        order = np.lexsort((pairs.target_lengths, pairs.source_lengths))
        sides = np.stack([pairs.source_lengths, pairs.target_lengths], axis=1)
        lengths, counts = np.unique(sides, axis=0, return_counts=True)
        groups = np.concatenate([lengths, counts[:, None]], axis=1).astype(GROUPS)
        kind = TYPES["U16" if vocabulary <= 1 << 16 else "I32"]
        numbers = pairs.taken(order).numbers.astype(kind)
        return cls(facts, groups, numbers, _digest(facts.to_json(), groups, [numbers.tobytes()]))

    def write(self, path: Path) -> None:
        """Write the part to a file of the format safetensors. UnwritableError if it cannot be
        written."""
        metadata = {"facts": self.facts.to_json(), "sha256": self.digest}
        try:
            save_file({"groups": self.groups, "numbers": self.numbers}, path, metadata)
        except SafetensorError as error:  # which hides an OSError
            raise UnwritableError(f"cannot write {path.parent}: {error}") from error

    @classmethod
    def read(cls, path: Path) -> Part:
        """Return a part of a file of `write`, which is mapped and checked once. DamagedError if it
        is incomplete or another file; OSError if it cannot be read."""
        try:
            with path.open("rb") as file:
                return cls._read(path, file)
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedError(f"{path} is not a file of encoded pairs: {error}") from error

    @classmethod
    def _read(cls, path: Path, file: BinaryIO) -> Part:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            raise DamagedError(f"{path} is incomplete")
        head = json.loads(file.read(size))
        about, digest = (head["__metadata__"][name] for name in ("facts", "sha256"))
        begin, end = (8 + size + offset for offset in head["groups"]["data_offsets"])
        file.seek(begin)
        groups = np.frombuffer(file.read(end - begin), GROUPS).reshape(-1, 3)
        begin, end = (8 + size + offset for offset in head["numbers"]["data_offsets"])
        file.seek(begin)
        blocks = iter(lambda: file.read(min(BLOCK, end - file.tell())), b"")
        if _digest(about, groups, blocks) != digest:
            raise DamagedError(f"{path} is incomplete, or has changed since it was written")
        facts, kind = PartFacts(**json.loads(about)), TYPES[head["numbers"]["dtype"]]
        if begin == end:
            return cls(facts, groups, np.empty(0, kind), digest)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        numbers = np.frombuffer(mapped, kind, (end - begin) // kind.itemsize, begin)
        return cls(facts, groups, numbers, digest, mapped)

    def release(self) -> None:
        """Leave the pages of the file to the system, which otherwise count as resident memory."""
        if self.map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.map.madvise(mmap.MADV_DONTNEED)


def _digest(facts: str, groups: np.ndarray, numbers: Iterable[bytes]) -> str:
    """Return the digest of a part, whose facts are JSON, and whose token numbers are in blocks."""
    digest = hashlib.sha256(facts.encode() + groups.tobytes())
    for block in numbers:
        digest.update(block)
    return digest.hexdigest()
