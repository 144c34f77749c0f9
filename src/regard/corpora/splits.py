"""Training pairs and held-out pairs of a configuration. Pairs of large files are not held in
memory; every pass reads the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from regard.config import Data
from regard.corpora.cache import DataCache, cache_folder
from regard.corpora.file_digests import digests_of
from regard.corpora.held_out import HoldOut, SplitResult, split_corpus
from regard.corpora.held_out_files import pairs_of, split_files
from regard.corpora.number_tables import describe_numbers
from regard.corpora.sources import DataSources, read_sources
from regard.data.examples import Corpus, Pair
from regard.data.files.lines import LeftOut, LineNumbers
from regard.data.invisible import InvisibleCharacters
from regard.data.labels.readers import several_labels_of
from regard.data.recognition.decimals import NEARLY_ALL
from regard.data.recognition.table import Table
from regard.data.text.pairs.streamed import PairFiles
from regard.data.text.report import Overlap
from regard.data.text.vocabulary import LONG_WORD, long_words
from regard.errors import UserError
from regard.names import Fault
from regard.runtime.progress import OnProgress, with_progress

UNREADABLE: dict[Fault, str] = {
    "one column": "--data.delimiter",
    "few columns": "--data.delimiter, --data.source-column and --data.target-column",
    "many columns": "--data.delimiter",
    "tab": "--data.target-path",
    "quotes": "--data.delimiter",
    "not JSON": "the format of the file",
    "several texts": "--data.source-column and --data.target-column",
    "not UTF-8": "--data.encoding",
    "NUL": "--data.encoding",
}
"""Faults of lines that cannot be read, and the options that may help."""
MANY_WIDE = 0.1
"""Share of rows with too many cells above which training stops."""
NO_NUMBERS: tuple[Fault, ...] = ("no number", "other number")
"""Faults of targets that are no numbers. With more than a few of them, training stops."""


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

    def file_of(self, pair: Pair) -> int:
        """Return the number of the file of a pair, from 0."""
        return self.source.file_of(pair) if isinstance(self.source, PairFiles) else 0

    def corpus_of(self, pair: Pair) -> int:
        """Return the number of the corpus of a pair, from 0."""
        return self.source.corpus_of(pair) if isinstance(self.source, PairFiles) else 0

    @property
    def units(self) -> tuple[str, ...] | None:
        """Units of the target columns; None for other targets than numbers."""
        return self.source.units if isinstance(self.source, Corpus) else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files."""
        if not isinstance(self.source, PairFiles):
            return ("",)
        return tuple(file.path.name for file in self.source.files)

    def with_progress(self, label: str, on_progress: OnProgress | None) -> Iterator[Pair]:
        """Yield the pairs and report progress."""
        every = pairs_of(self.source) if isinstance(self.source, PairFiles) else self.source.pairs
        pairs = islice(every, self.first)
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


def read(
    config: Data,
    on_progress: OnProgress | None = None,
    table: Table | None = None,
    sources: DataSources | None = None,
) -> Split:
    """Read or generate the pairs, or take those of a table or of `sources`, and hold out dev and
    test pairs. No held-out source is trained on. UserError if there are no pairs, or if the
    held-out sizes cannot be met."""
    sources = sources or read_sources(config, table, on_progress)
    source, dev, test = sources.train, sources.dev, sources.test
    rule = HoldOut(config, sources)
    if isinstance(source, Corpus):
        cache, result = None, split_corpus(rule, source, on_progress)
    else:
        cache = DataCache(cache_folder(), _digest(source))
        result = _cached_split(rule, source, cache, on_progress)
    train = TrainingPairs(source, result.num_train, result.first, frozenset(result.held_out), cache)
    unusable = _unreadable(result.num_pairs, result.left_out)
    unusable += _no_numbers(result.num_pairs, result.left_out)
    unusable += several_labels_of(result.left_out)
    left_out = result.left_out.summary() + (source.remarks if isinstance(source, Corpus) else ())
    left_out += result.invisible.summary()
    left_out += _long_words(source.pairs) if isinstance(source, Corpus) else ()
    for corpus in (dev, test):
        left_out += corpus.summary() if corpus else ()
        if corpus is not None:
            unusable += _unreadable(len(corpus.pairs), corpus.left_out)
            unusable += several_labels_of(corpus.left_out)
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
    num_wide = counts["many columns"]
    if num_pairs >= num_faults and num_wide > MANY_WIDE * (num_pairs + num_faults):
        return (
            f"{num_wide:,} of {num_pairs + num_faults:,} rows have more cells than the header or "
            f"most rows: {left_out.summary()[0]}; to train without these rows: --data.checks warn",
        )
    if num_faults <= num_pairs:
        return ()
    options = dict.fromkeys(UNREADABLE[fault] for fault in faults)
    return (
        f"only {num_pairs:,} of {num_pairs + num_faults:,} lines can be read: "
        f"{left_out.summary()[0]}; check {' and '.join(options)}",
    )


def _long_words(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return a sentence if pairs have words from which nothing is learned."""
    lines = LineNumbers()
    for pair in pairs:
        if long_words(pair.source) or long_words(pair.target):
            lines.add(pair.line)
    if not lines.count:
        return ()
    have = "pair has" if lines.count == 1 else "pairs have"
    return (
        f"{lines.count:,} {have} text of more than {LONG_WORD:,} characters without a space "
        f"({lines}), such as base64 or packed code: no vocabulary is learned from it",
    )


def _no_numbers(num_pairs: int, left_out: LeftOut) -> tuple[str, ...]:
    """Return a sentence if more than a few targets are no numbers, or have another unit than the
    others."""
    counts = left_out.counts()
    num_faults = sum(counts[fault] for fault in NO_NUMBERS)
    num_rows = num_pairs + num_faults
    if num_faults <= (1 - NEARLY_ALL) * num_rows:
        return ()
    return (
        f"{num_faults:,} of {num_rows:,} targets are no numbers of one form and unit: "
        f"{left_out.summary()[0]}; correct them, name another column (--data.target-column), or "
        "train without these lines (--data.checks warn)",
    )


def _cached_split(
    rule: HoldOut, files: PairFiles, cache: DataCache, on_progress: OnProgress | None
) -> SplitResult:
    """Return the cached split of files, or split them and cache it. Files may have moved."""
    values = cache.recall_or_compute(
        "split", rule.facts(), lambda: _to_json(split_files(rule, files, on_progress), files)
    )
    return _from_json(values, files)


def _digest(files: PairFiles) -> str:
    """Return a digest of the content of files. UserError if one cannot be read, or changed."""
    names = list(map(str, files.paths))
    digests = digests_of(names, cache_folder())
    for name, digest in zip(names, digests, strict=True):
        if digest is None:
            raise UserError(
                f"cannot read {name}: expected a regular file, because it is read several times; "
                "save the data to a file, or name the files of a folder by a pattern ('FOLDER/*')"
            )
    for file in files.files:
        file.check()
    return files.digest([digest for digest in digests if digest is not None])


def _to_json(result: SplitResult, source: PairFiles) -> dict[str, Any]:
    return {"split": asdict(result), "paths": list(map(str, source.paths))}


def _from_json(values: dict[str, Any], source: PairFiles) -> SplitResult:
    """Return a cached result, with the present paths of files that may have moved."""
    result, now = values["split"], dict(zip(values["paths"], map(str, source.paths), strict=True))
    places = {
        now[path]: {kind: LineNumbers(**lines) for kind, lines in kinds.items()}
        for path, kinds in result["left_out"]["places"].items()
    }
    parts = {part: tuple(Pair(**pair) for pair in result[part]) for part in ("dev", "test")}
    invisible = result["invisible"]
    lines = {path: LineNumbers(**numbers) for path, numbers in invisible["lines"].items()}
    invisible = {**invisible, "lines": lines}
    moved = {
        name: {now[path]: value for path, value in by_file.items()}
        for name, by_file in invisible.items()
    }
    values = {
        **parts,
        "held_out": tuple(result["held_out"]),
        "left_out": LeftOut(places),
        "invisible": InvisibleCharacters(**moved),
    }
    return SplitResult(**{**result, **values})
