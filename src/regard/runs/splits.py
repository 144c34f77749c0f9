"""Splits of the data: training pairs and held-out pairs. Pairs of large files are not held in
memory; every pass reads the files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from regard.config import Data
from regard.data.examples import Corpus, Pair
from regard.data.files.lines import LeftOut, LineNumbers
from regard.data.files.objects import Table
from regard.data.splits import DEV, MAX_HELD_OUT, TEST, TRAIN, assign_splits, source_hashes
from regard.data.text.parallel import no_pairs
from regard.data.text.report import Overlap
from regard.data.text.streamed import PairFiles
from regard.errors import UserError
from regard.names import Fault
from regard.runs.cache import DataCache, cache_folder
from regard.runs.corpora import DataSources, read_sources
from regard.runs.number_tables import describe_numbers
from regard.runs.progress import OnProgress, with_progress

UNREADABLE: dict[Fault, str] = {
    "one column": "--data.delimiter",
    "few columns": "--data.delimiter, --data.source-column and --data.target-column",
    "not UTF-8": "--data.encoding",
    "NUL": "--data.encoding",
}
"""Faults of lines that cannot be read, and the options that may help."""
UNUSED = 3
"""Number of the split of pairs after the limit that are not used."""


@dataclass(frozen=True)
class TrainingPairs:
    """Training pairs in their order, for any number of passes."""

    source: PairFiles | Corpus
    num_pairs: int
    first: int
    """Number of leading pairs of the source that contain the training pairs."""
    held_out: frozenset[int]
    """Positions among these that are not training pairs."""
    cache: DataCache | None = None
    """Cache for tokenizers and encoded pairs of large files."""

    def facts(self) -> object:
        """Return the values that identify these pairs in the source."""
        return [self.first, sorted(self.held_out)]

    def __len__(self) -> int:
        return self.num_pairs

    def __iter__(self) -> Iterator[Pair]:
        return self.with_progress("reading", None)

    def with_progress(self, label: str, on_progress: OnProgress | None) -> Iterator[Pair]:
        """Yield the pairs and report progress."""
        pairs = islice(_pairs(self.source), self.first)
        training = (pair for place, pair in enumerate(pairs) if place not in self.held_out)
        return with_progress(training, label, self.num_pairs, on_progress)


@dataclass(frozen=True)
class Split:
    """Training, dev and test pairs, and sentences about dropped lines."""

    train: TrainingPairs
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    left_out: tuple[str, ...]
    unusable: tuple[str, ...] = ()
    """Sentences about files of which fewer than half of the lines can be read, or that have numbers
    in place of texts."""


def read(config: Data, on_progress: OnProgress | None = None, table: Table | None = None) -> Split:
    """Read or generate the pairs, or take those of a table, and hold out dev and test pairs. No
    held-out source is trained on. UserError if there are no pairs, or if the held-out sizes cannot
    be met."""
    sources = read_sources(config, table)
    source, dev, test = sources.train, sources.dev, sources.test
    dev_hashes, test_hashes = (source_hashes(part.pairs if part else ()) for part in (dev, test))
    splitter = _Splitter(config, sources, dev_hashes, test_hashes, on_progress)
    if isinstance(source, Corpus):
        cache, result = None, splitter.split()
    else:
        cache = DataCache(cache_folder(), source.digest())
        values = cache.recall_or_compute(
            "split", splitter.facts(), lambda: _to_json(splitter.split(), source)
        )
        result = _from_json(values, source)
    train = TrainingPairs(source, result.num_train, result.first, frozenset(result.held_out), cache)
    unusable = _unreadable(result.num_pairs, result.left_out)
    left_out = result.left_out.summary() + (source.remarks if isinstance(source, Corpus) else ())
    for corpus in (dev, test):
        left_out += corpus.summary() if corpus else ()
        unusable += _unreadable(len(corpus.pairs), corpus.left_out) if corpus else ()
    if dev is not None:
        left_out += Overlap("dev", len(dev.pairs), result.num_shared).warnings()
    if test is not None:
        left_out += Overlap("test", len(test.pairs), result.num_test_shared).warnings()
    numbers = describe_numbers(config, train, table)
    if getattr(config, "source", "text") == "text":
        unusable += numbers
    else:
        left_out += numbers
    return Split(
        train,
        dev.pairs if dev else result.dev,
        test.pairs if test else result.test,
        left_out,
        unusable,
    )


def _unreadable(num_pairs: int, left_out: LeftOut) -> tuple[str, ...]:
    """Return a sentence if the lines that cannot be read outnumber the pairs. Lines with a blank
    side count for neither: missing values are usual in tables."""
    counts = left_out.counts()
    faults = {fault: counts[fault] for fault in UNREADABLE if counts[fault]}
    num_faults = sum(faults.values())
    if num_faults <= num_pairs:
        return ()
    options = dict.fromkeys(UNREADABLE[fault] for fault in faults)
    return (
        f"only {num_pairs:,} of {num_pairs + num_faults:,} lines can be read: "
        f"{left_out.summary()[0]}; check {' and '.join(options)}",
    )


@dataclass(frozen=True)
class _SplitResult:
    """Result of a pass over all pairs."""

    num_pairs: int
    num_train: int
    first: int
    held_out: tuple[int, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    left_out: LeftOut
    num_shared: int
    """Number of pairs of a dev file whose source is trained on."""
    num_test_shared: int
    """Number of pairs of a test file whose source is trained on."""


@dataclass(frozen=True)
class _Splitter:
    """Splitter of the pairs of a source, by hashes of eight bytes."""

    config: Data
    sources: DataSources
    dev_hashes: np.ndarray
    test_hashes: np.ndarray
    on_progress: OnProgress | None

    @property
    def source(self) -> PairFiles | Corpus:
        return self.sources.train

    def facts(self) -> object:
        """Return the values, apart from the pairs, that determine the split."""
        config = self.config
        dev = self.sources.dev and hashlib.sha256(self.dev_hashes.tobytes()).hexdigest()
        test = self.sources.test and hashlib.sha256(self.test_hashes.tobytes()).hexdigest()
        return ["split 2", config.limit, config.dev_size, config.test_size, config.seed, dev, test]

    def split(self) -> _SplitResult:
        left_out = LeftOut()
        pairs = with_progress(_pairs(self.source, left_out), "reading", None, self.on_progress)
        hashes = source_hashes(pairs)
        if isinstance(self.source, PairFiles) and not len(hashes):
            raise no_pairs((self.source.path, self.source.target_path), left_out)
        split_of, first = self._parts(hashes)
        trained = split_of == TRAIN
        if not trained.any():
            raise UserError(
                f"all {len(hashes)} pairs are held out, which leaves none to train on: lower "
                "--data.dev-size or --data.test-size"
            )
        held_out = self._taken(np.flatnonzero((split_of == DEV) | (split_of == TEST)))
        return _SplitResult(
            num_pairs=len(hashes),
            num_train=int(trained.sum()),
            first=first,
            held_out=tuple(np.flatnonzero(~trained[:first]).tolist()),
            dev=tuple(held_out[place] for place in np.flatnonzero(split_of == DEV).tolist()),
            test=tuple(held_out[place] for place in np.flatnonzero(split_of == TEST).tolist()),
            left_out=left_out,
            num_shared=int(np.isin(self.dev_hashes, hashes[trained]).sum()),
            num_test_shared=int(np.isin(self.test_hashes, hashes[trained]).sum()),
        )

    def _parts(self, hashes: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the split of each pair, and the number of pairs up to the limit."""
        limit = self.config.limit
        limited = limit is not None and limit < len(hashes)
        first = limit if limit is not None and limited else len(hashes)
        split_of = np.full(len(hashes), UNUSED, np.uint8)
        free = np.arange(len(hashes))
        if limited:
            split_of[:first] = TRAIN
            free = free[first:][~np.isin(hashes[first:], hashes[:first])]
        sizes = self._sizes(len(hashes), len(free))
        near = 2 * sum(sizes) if limited else len(free)
        parts = self._hold_out(hashes[free], sizes, near)
        self._check_filled(parts, len(free))
        split_of[free[: len(parts)]] = np.where(parts == TRAIN, UNUSED, parts) if limited else parts
        return split_of, first

    def _sizes(self, num_pairs: int, num_free: int) -> tuple[int, int]:
        """Return the largest numbers of dev and test pairs. If dev pairs have a file, test pairs
        usually have one too, so by default no test pairs are held out."""
        config = self.config
        usual = min(num_pairs // 20, num_free // 2, MAX_HELD_OUT)
        has_dev, has_test = self.sources.dev is not None, self.sources.test is not None
        dev = 0 if has_dev else usual if config.dev_size is None else config.dev_size
        if has_test:
            return dev, 0
        return dev, (0 if has_dev else usual) if config.test_size is None else config.test_size

    def _hold_out(self, hashes: np.ndarray, sizes: tuple[int, int], near: int) -> np.ndarray:
        """Hold out pairs among the first `near` if they suffice: in a file that is sorted by length
        they resemble the training pairs most."""
        while True:
            parts = assign_splits(hashes[:near], sizes, self.config.seed)
            if near >= len(hashes) or _held_out(parts) == sizes:
                return parts
            near *= 2

    def _check_filled(self, parts: np.ndarray, num_pairs: int) -> None:
        """Raise a UserError if fewer pairs are held out than a size that was set. The default size
        is an upper bound only."""
        config, sources = self.config, self.sources
        sizes = {
            "dev": config.dev_size if sources.dev is None else None,
            "test": config.test_size if sources.test is None else None,
        }
        for (name, size), count in zip(sizes.items(), _held_out(parts), strict=True):
            if size is not None and count < size:
                raise UserError(
                    f"--data.{name}-size is {size}, but only {count} of {num_pairs} pairs can be "
                    "held out for it, since pairs with one source stay together: lower "
                    "--data.dev-size or --data.test-size"
                )

    def _taken(self, places: np.ndarray) -> dict[int, Pair]:
        """Return the pairs at these positions."""
        positions = frozenset(places.tolist())
        num_read = max(positions, default=-1) + 1
        pairs = islice(_pairs(self.source), num_read)
        read_again = with_progress(pairs, "holding out", num_read, self.on_progress)
        return {place: pair for place, pair in enumerate(read_again) if place in positions}


def _pairs(source: PairFiles | Corpus, left_out: LeftOut | None = None) -> Iterator[Pair]:
    for item in source.each_line():
        if isinstance(item, Pair):
            yield item
        elif left_out is not None:
            left_out.add(item)


def _held_out(parts: np.ndarray) -> tuple[int, int]:
    return int((parts == DEV).sum()), int((parts == TEST).sum())


def _to_json(result: _SplitResult, source: PairFiles) -> dict[str, Any]:
    return {"split": asdict(result), "paths": list(map(str, source.paths))}


def _from_json(values: dict[str, Any], source: PairFiles) -> _SplitResult:
    """Return a cached result, with the present paths of files that may have moved."""
    result, now = values["split"], dict(zip(values["paths"], map(str, source.paths), strict=True))
    places = {
        now[path]: {kind: LineNumbers(**lines) for kind, lines in kinds.items()}
        for path, kinds in result["left_out"]["places"].items()
    }
    parts = {part: tuple(Pair(**pair) for pair in result[part]) for part in ("dev", "test")}
    held_out = tuple(result["held_out"])
    return _SplitResult(**{**result, **parts, "held_out": held_out, "left_out": LeftOut(places)})
