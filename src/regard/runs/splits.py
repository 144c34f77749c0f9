"""Which pairs are trained on and which are held out. Pairs of large files are not kept in memory,
but read anew each time."""

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
from regard.data.splits import DEV, MOST_HELD_OUT, TEST, TRAIN, assign_splits, source_hashes
from regard.data.text.parallel import no_pairs
from regard.data.text.report import Overlap
from regard.data.text.streamed import PairFiles
from regard.errors import UserError
from regard.runs.cache import DataCache, cache_folder
from regard.runs.corpora import DataSources, read_sources
from regard.runs.progress import OnProgress, with_progress

UNUSED = 3
"""The part of pairs after the limit that are not needed."""


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs that are trained on, in their order, as often as they are asked for."""

    source: PairFiles | Corpus
    num_pairs: int
    first: int
    """They are among the first so many pairs of the source."""
    held_out: frozenset[int]
    """The places of those among them that are not trained on."""
    cache: DataCache | None = None
    """Where what is made of them is kept."""

    def facts(self) -> object:
        """Which pairs of the source they are."""
        return [self.first, sorted(self.held_out)]

    def __len__(self) -> int:
        return self.num_pairs

    def __iter__(self) -> Iterator[Pair]:
        return self.with_progress("reading", None)

    def with_progress(self, label: str, on_progress: OnProgress | None) -> Iterator[Pair]:
        """The pairs, while `on_progress` is told how many have come."""
        pairs = islice(_pairs(self.source), self.first)
        kept = (pair for place, pair in enumerate(pairs) if place not in self.held_out)
        return with_progress(kept, label, self.num_pairs, on_progress)


@dataclass(frozen=True)
class Split:
    """Pairs to train on, pairs for the dev score, pairs for the test, and what was left out."""

    train: TrainingPairs
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    left_out: tuple[str, ...]


def read(config: Data, on_progress: OnProgress | None = None) -> Split:
    """Read or make the pairs and hold some out. No held-out source is trained on."""
    sources = read_sources(config)
    source, dev, test = sources.train, sources.dev, sources.test
    dev_marks, test_marks = (source_hashes(part.pairs if part else ()) for part in (dev, test))
    splitter = _Splitter(config, sources, dev_marks, test_marks, on_progress)
    if isinstance(source, Corpus):
        cache, result = None, splitter.deal()
    else:
        cache = DataCache(cache_folder(), source.digest())
        result = _of_page(
            cache.page("split", splitter.facts(), lambda: _page(splitter.deal(), source)), source
        )
    train = TrainingPairs(source, result.num_train, result.first, frozenset(result.held_out), cache)
    left_out = result.left_out.summary() + (source.remarks if isinstance(source, Corpus) else ())
    for given in (dev, test):
        left_out += given.summary() if given else ()
    if dev is not None:
        left_out += Overlap("dev", len(dev.pairs), result.num_shared).warnings()
    if test is not None:
        left_out += Overlap("test", len(test.pairs), result.num_test_shared).warnings()
    return Split(
        train,
        dev.pairs if dev else result.dev,
        test.pairs if test else result.test,
        left_out,
    )


@dataclass(frozen=True)
class _SplitResult:
    """What is known when all pairs have been looked at once."""

    num_train: int
    first: int
    held_out: tuple[int, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    left_out: LeftOut
    num_shared: int
    """Dev pairs of a file of their own whose source is trained on."""
    num_test_shared: int
    """Test pairs of a file of their own whose source is trained on."""


@dataclass(frozen=True)
class _Splitter:
    """Deals the pairs of a source out. They are known by eight bytes each."""

    config: Data
    sources: DataSources
    dev_marks: np.ndarray
    test_marks: np.ndarray
    on_progress: OnProgress | None

    @property
    def source(self) -> PairFiles | Corpus:
        return self.sources.train

    def facts(self) -> object:
        """All that the parts depend on, but for the pairs."""
        config = self.config
        dev = self.sources.dev and hashlib.sha256(self.dev_marks.tobytes()).hexdigest()
        test = self.sources.test and hashlib.sha256(self.test_marks.tobytes()).hexdigest()
        return ["split", config.limit, config.dev_size, config.test_size, config.seed, dev, test]

    def deal(self) -> _SplitResult:
        left_out = LeftOut()
        pairs = with_progress(_pairs(self.source, left_out), "reading", None, self.on_progress)
        marks = source_hashes(pairs)
        if isinstance(self.source, PairFiles) and not len(marks):
            raise no_pairs((self.source.path, self.source.target_path), left_out)
        part_of, first = self._parts(marks)
        trained = part_of == TRAIN
        if not trained.any():
            raise UserError(
                f"all {len(marks)} pairs are held out, which leaves none to train on: lower "
                "--data.dev-size or --data.test-size"
            )
        held_out = self._taken(np.flatnonzero((part_of == DEV) | (part_of == TEST)))
        return _SplitResult(
            num_train=int(trained.sum()),
            first=first,
            held_out=tuple(np.flatnonzero(~trained[:first]).tolist()),
            dev=tuple(held_out[place] for place in np.flatnonzero(part_of == DEV).tolist()),
            test=tuple(held_out[place] for place in np.flatnonzero(part_of == TEST).tolist()),
            left_out=left_out,
            num_shared=int(np.isin(self.dev_marks, marks[trained]).sum()),
            num_test_shared=int(np.isin(self.test_marks, marks[trained]).sum()),
        )

    def _parts(self, marks: np.ndarray) -> tuple[np.ndarray, int]:
        """The part of each pair, and how many there are up to the limit."""
        limit = self.config.limit
        limited = limit is not None and limit < len(marks)
        first = limit if limit is not None and limited else len(marks)
        part_of = np.full(len(marks), UNUSED, np.uint8)
        free = np.arange(len(marks))
        if limited:
            part_of[:first] = TRAIN
            free = free[first:][~np.isin(marks[first:], marks[:first])]
        sizes = self._sizes(len(marks), len(free))
        near = 2 * sum(sizes) if limited else len(free)
        parts = self._hold_out(marks[free], sizes, near)
        self._check_filled(parts, len(free))
        part_of[free[: len(parts)]] = np.where(parts == TRAIN, UNUSED, parts) if limited else parts
        return part_of, first

    def _sizes(self, num_pairs: int, num_free: int) -> tuple[int, int]:
        """The most pairs to hold out for dev and test. Where the dev pairs have a file of their
        own, those of the test usually have too, so that none are held out unasked."""
        config = self.config
        usual = min(num_pairs // 20, num_free // 2, MOST_HELD_OUT)
        has_dev, has_test = self.sources.dev is not None, self.sources.test is not None
        dev = 0 if has_dev else usual if config.dev_size is None else config.dev_size
        if has_test:
            return dev, 0
        return dev, (0 if has_dev else usual) if config.test_size is None else config.test_size

    def _hold_out(self, marks: np.ndarray, sizes: tuple[int, int], near: int) -> np.ndarray:
        """Out of the first pairs if these suffice: in a file that is sorted by length they are most
        like those that are trained on."""
        while True:
            parts = assign_splits(marks[:near], sizes, self.config.seed)
            if near >= len(marks) or _held_out(parts) == sizes:
                return parts
            near *= 2

    def _check_filled(self, parts: np.ndarray, num_pairs: int) -> None:
        """UserError where fewer are held out than was asked for; the usual number is only a
        most."""
        config, sources = self.config, self.sources
        asked = {
            "dev": config.dev_size if sources.dev is None else None,
            "test": config.test_size if sources.test is None else None,
        }
        for (name, size), found in zip(asked.items(), _held_out(parts), strict=True):
            if size is not None and found < size:
                raise UserError(
                    f"--data.{name}-size is {size}, but only {found} of {num_pairs} pairs can be "
                    "held out for it, since pairs with one source stay together: lower "
                    "--data.dev-size or --data.test-size"
                )

    def _taken(self, places: np.ndarray) -> dict[int, Pair]:
        """The pairs at these places."""
        wanted = frozenset(places.tolist())
        num_read = max(wanted, default=-1) + 1
        pairs = islice(_pairs(self.source), num_read)
        read_again = with_progress(pairs, "holding out", num_read, self.on_progress)
        return {place: pair for place, pair in enumerate(read_again) if place in wanted}


def _pairs(source: PairFiles | Corpus, left_out: LeftOut | None = None) -> Iterator[Pair]:
    for each in source.each_line():
        if isinstance(each, Pair):
            yield each
        elif left_out is not None:
            left_out.add(each)


def _held_out(parts: np.ndarray) -> tuple[int, int]:
    return int((parts == DEV).sum()), int((parts == TEST).sum())


def _page(result: _SplitResult, source: PairFiles) -> dict[str, Any]:
    return {"dealt": asdict(result), "paths": list(map(str, source.paths))}


def _of_page(page: dict[str, Any], source: PairFiles) -> _SplitResult:
    """What was written down, of files that may lie elsewhere now."""
    result, now = page["dealt"], dict(zip(page["paths"], map(str, source.paths), strict=True))
    places = {
        now[path]: {kind: LineNumbers(**found) for kind, found in kinds.items()}
        for path, kinds in result["left_out"]["places"].items()
    }
    parts = {part: tuple(Pair(**pair) for pair in result[part]) for part in ("dev", "test")}
    held_out = tuple(result["held_out"])
    return _SplitResult(**{**result, **parts, "held_out": held_out, "left_out": LeftOut(places)})
