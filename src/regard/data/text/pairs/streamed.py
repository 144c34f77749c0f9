"""Files of pairs that are too large for memory. Every pass reads them from the beginning."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from regard.data.examples import Corpus, Pair
from regard.data.files.lines import LineProblem
from regard.data.files.tables import TableSettings
from regard.data.text.parallel import PLAIN, each_line, pair_columns
from regard.errors import UserError
from regard.names import TableFormat
from regard.storage.files import GZIP

LINE_FORMATS: tuple[TableFormat, ...] = ("text", "csv", "jsonl")
"""Formats whose rows are lines."""
NUM_SAMPLES, SAMPLE_BYTES = 64, 1 << 16
"""Number and size of the samples of a file by which its lines are estimated."""


@dataclass(frozen=True)
class PairFile:
    """File of pairs, or two files. The files must not change while they are used, because each pass
    relies on the passes before."""

    path: Path
    target_path: Path | None
    stamps: tuple[tuple[int, int], ...]
    """Size and modification time of each file."""
    settings: TableSettings | None = None
    """Format and columns; None: lines of UTF-8 with the first two columns."""

    @classmethod
    def of(
        cls, path: Path, target_path: Path | None = None, settings: TableSettings | None = None
    ) -> PairFile:
        """Return the files with their sizes and times. UserError if a file cannot be read."""
        stamps = tuple(map(_stamp, _both(path, target_path)))
        return cls(path, target_path, stamps, settings)

    @property
    def paths(self) -> tuple[Path, ...]:
        return _both(self.path, self.target_path)

    def facts(self) -> object:
        """Return how the files are read, which depends on the suffix of the name too."""
        if self.settings is None:
            return [1]
        if self.target_path is not None:
            return [2] if self.settings == TableSettings() else [2, self.settings]
        columns = pair_columns(self.path, self.settings)
        return [1] if columns == PLAIN else [1, self.settings, columns]

    def each_line(self) -> Iterator[Pair | LineProblem]:
        """Yield a pair or a problem for each line. UserError if a file changed since `of`."""
        self.check()
        yield from each_line(self.path, self.target_path, self.settings)
        self.check()

    def estimated_lines(self) -> int | None:
        """Return the number of lines, estimated from line ends in a sample of the bytes. None for a
        packed file, and for a format without lines."""
        if self.target_path is None and self.settings is not None:
            form = pair_columns(self.path, self.settings).form
            if form.kind not in LINE_FORMATS:
                return None
        num_bytes, num_ends, (size, _) = 0, 0, self.stamps[0]
        step = max(SAMPLE_BYTES, size // NUM_SAMPLES)
        with self.path.open("rb") as file:
            if file.read(len(GZIP)) == GZIP:
                return None
            for begin in range(0, size, step):
                file.seek(begin)
                sample = file.read(SAMPLE_BYTES)
                num_bytes, num_ends = num_bytes + len(sample), num_ends + sample.count(b"\n")
        return round(size * num_ends / num_bytes) if num_bytes else 0

    def check(self) -> None:
        """Raise a UserError if a file changed since `of`."""
        for path, stamp in zip(self.paths, self.stamps, strict=True):
            if _stamp(path) != stamp:
                raise UserError(f"{path} changed while it was read: start again")


@dataclass(frozen=True)
class PairFiles:
    """Files of one corpus or of several."""

    corpora: tuple[tuple[PairFile, ...], ...]
    """Files of each corpus."""

    @classmethod
    def of(
        cls,
        corpora: Sequence[Sequence[tuple[Path, Path | None]]],
        settings: TableSettings | None = None,
    ) -> PairFiles:
        """Return corpora of files: each file of pairs has no second path, and each file of sources
        has that of its targets. UserError if a file cannot be read or occurs twice."""
        files = tuple(tuple(PairFile.of(*paths, settings) for paths in part) for part in corpora)
        result = cls(files)
        (name, count), *_ = Counter(str(file.path) for file in result.files).most_common(1)
        if count > 1:
            raise UserError(f"{name} is named twice: name it once, with the sum of its weights")
        return result

    @cached_property
    def files(self) -> tuple[PairFile, ...]:
        """Files of all corpora."""
        return tuple(chain.from_iterable(self.corpora))

    @property
    def paths(self) -> tuple[Path, ...]:
        """Paths of all files of pairs, sources and targets."""
        return tuple(chain.from_iterable(file.paths for file in self.files))

    def digest(self, digests: Sequence[str]) -> str:
        """Return a digest of all content and of how it is read, from the digest of each path."""
        facts = [file.facts() for file in self.files]
        sizes = [len(files) for files in self.corpora]
        return hashlib.sha256(repr([sizes, facts, list(digests)]).encode()).hexdigest()

    def each_line(self) -> Iterator[Pair | LineProblem]:
        """Yield a pair or a problem for each line. UserError if a file changed since `of`."""
        for file in self.files:
            yield from file.each_line()

    def read(self) -> Corpus:
        """Return all pairs, in memory. UserError if a file changed since `of`."""
        items = list(self.each_line())
        pairs = tuple(item for item in items if isinstance(item, Pair))
        return Corpus(pairs, tuple(item for item in items if isinstance(item, LineProblem)))

    def estimated_lines(self) -> int | None:
        """Return the number of lines of all files, estimated from samples, with two significant
        digits. None if a file has no lines that can be counted without unpacking it."""
        total = 0
        for file in self.files:
            number = file.estimated_lines()
            if number is None:
                return None
            total += number
        return round(total, 2 - len(str(total)))

    def corpus_of(self, pair: Pair) -> int:
        """Return the number of the corpus of a pair of `each_line`, from 0."""
        return self._places[pair.path][0]

    def file_of(self, pair: Pair) -> int:
        """Return the number of the file of a pair of `each_line`, from 0."""
        return self._places[pair.path][1]

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        corpora = (number for number, files in enumerate(self.corpora) for _ in files)
        return {
            str(file.path): (corpus, number)
            for number, (file, corpus) in enumerate(zip(self.files, corpora, strict=True))
        }


def _both(path: Path, target_path: Path | None) -> tuple[Path, ...]:
    return (path,) if target_path is None else (path, target_path)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    return status.st_size, status.st_mtime_ns
