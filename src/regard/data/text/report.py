"""A look at pairs before anything is trained on them: what they are, and what will go wrong."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from regard.data.examples import Corpus, Pair
from regard.data.files.lines import numbers_of
from regard.data.splits import canonical_text
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.tokenizer_settings import SUBWORDS, TokenizerSettings

CUTOFFS = (1, 2, 3, 5, 10)
PERCENTILES = (1, 25, 50, 75, 99, 100)

TEXTS_AT_A_TIME = 8192
FEW_PAIRS = 1000
MANY_UNKNOWN = 0.05
LONG_WORD = 20
"""Letters of a mean word from which on a text seems to be written without spaces."""
ODD_RATIO = math.log(3)
"""How far a pair's logarithm of target to source length may be from the median."""
LOOSE = 0.2
"""A correlation of lengths below which two sides seem not to belong together."""


@dataclass(frozen=True)
class CheckSettings:
    """How the pairs would be read in training."""

    source: TokenizerSettings = field(default_factory=TokenizerSettings)
    """How sources are cut."""
    target: TokenizerSettings = field(default_factory=TokenizerSettings)
    """How targets are cut."""
    max_length: int = 200
    """The most tokens of a side; training leaves longer pairs out."""


@dataclass(frozen=True)
class Cutoff:
    """What a minimum count would do: pieces that stay, and the shares of pieces that become <unk>:
    in these texts, in new ones (estimated), and in the dev texts, where there are any."""

    min_count: int
    vocabulary: int
    unknown: float
    unknown_in_new: float
    unknown_in_dev: float | None


@dataclass(frozen=True)
class SideReport:
    """One side of the pairs; lengths in tokens at each of `PERCENTILES`."""

    name: str
    tokens: int
    lengths: tuple[int, ...]
    cutoffs: tuple[Cutoff, ...]


@dataclass(frozen=True)
class Overlap:
    """How many pairs of another part have a source that is trained on."""

    name: str
    pairs: int
    shared: int

    @classmethod
    def of(cls, name: str, part: Sequence[Pair], training: Sequence[Pair]) -> Overlap:
        """Counted by `canonical_text`."""
        trained = {canonical_text(pair.source) for pair in training}
        return cls(name, len(part), sum(canonical_text(pair.source) in trained for pair in part))

    def warnings(self) -> tuple[str, ...]:
        """A sentence where there are any."""
        if not self.shared:
            return ()
        return (
            f"a source of the training data in {self.shared} of {self.pairs} {self.name} pairs: "
            "scores will be too good",
        )


@dataclass(frozen=True)
class Report:
    """What was found. `warnings` are sentences, and so are the `left_out` among them."""

    pairs: int
    left_out: tuple[str, ...]
    source: SideReport
    target: SideReport
    duplicates: int
    sources_with_several_targets: int
    overlaps: tuple[Overlap, ...]
    warnings: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report as plain text."""
        return [
            f"{self.pairs} pairs; {self.duplicates} repeat an earlier one; "
            f"{self.sources_with_several_targets} sources have several targets",
            *(line for side in (self.source, self.target) for line in _side_lines(side)),
            *(
                f"{each.name}: {each.pairs} pairs, {each.shared} with a source of the training data"
                for each in self.overlaps
            ),
            *(f"warning: {warning}" for warning in self.warnings),
        ]


def check(
    corpus: Corpus,
    *,
    dev: Corpus | None = None,
    test: Corpus | None = None,
    settings: CheckSettings | None = None,
) -> Report:
    """Look at the training pairs, and at how dev and test stand to them.

    The share of unknown pieces in new texts is Good's (1953) estimate: what occurs r times here is
    expected to make up the share that pieces with r + 1 occurrences have here. ValueError where
    there are no pairs.
    """
    if not corpus.pairs:
        raise ValueError("no pairs came: expected a corpus with at least one")
    settings = settings or CheckSettings()
    source = _Side("source", settings.source, corpus, dev)
    target = _Side("target", settings.target, corpus, dev)
    named = [(name, part) for name, part in (("dev", dev), ("test", test)) if part is not None]
    overlaps = tuple(Overlap.of(name, part.pairs, corpus.pairs) for name, part in named)
    targets_of: defaultdict[str, set[str]] = defaultdict(set)
    for pair in corpus.pairs:
        targets_of[pair.source].add(pair.target)
    return Report(
        pairs=len(corpus.pairs),
        left_out=corpus.summary(),
        source=source.report(),
        target=target.report(),
        duplicates=len(corpus.pairs) - sum(map(len, targets_of.values())),
        sources_with_several_targets=sum(len(targets) > 1 for targets in targets_of.values()),
        overlaps=overlaps,
        warnings=(
            *corpus.summary(),
            *(warning for each in overlaps for warning in each.warnings()),
            *_pair_warnings(corpus.pairs),
            *_length_warnings(corpus.pairs, source, target, settings.max_length),
            *source.warnings(),
            *target.warnings(),
        ),
    )


class _Side:
    """The texts of one side, cut with every piece kept."""

    def __init__(
        self, name: str, settings: TokenizerSettings, corpus: Corpus, dev: Corpus | None
    ) -> None:
        self.name = name
        self._settings = settings
        self._texts = self._of(corpus)
        subwords = settings.kind in SUBWORDS
        all_kept = settings if subwords else replace(settings, min_count=1, size=None)
        tokenizer = Tokenizer.train(self._texts, all_kept)
        self._counts = np.zeros(len(tokenizer), np.int64)
        lengths = []
        for first in range(0, len(self._texts), TEXTS_AT_A_TIME):
            ids = tokenizer.encode_batch(self._texts[first : first + TEXTS_AT_A_TIME])
            lengths.append(np.array([len(each) for each in ids]))
            self._counts += np.bincount(_flat(ids), minlength=len(tokenizer))
        self.lengths = np.concatenate(lengths)
        self._dev = None if dev is None else _flat(tokenizer.encode_batch(self._of(dev)))

    def _of(self, corpus: Corpus) -> list[str]:
        return [getattr(pair, self.name) for pair in corpus.pairs]

    def report(self) -> SideReport:
        lengths = np.percentile(self.lengths, PERCENTILES, method="nearest")
        return SideReport(
            self.name,
            int(self._counts.sum()),
            tuple(map(int, lengths)),
            tuple(map(self._cutoff, CUTOFFS)),
        )

    def _cutoff(self, min_count: int) -> Cutoff:
        counts = self._counts
        tokens = int(counts.sum())
        return Cutoff(
            min_count,
            vocabulary=int((counts >= min_count).sum()),
            unknown=int(counts[counts < min_count].sum()) / tokens,
            unknown_in_new=int(counts[counts <= min_count].sum()) / tokens,
            unknown_in_dev=(
                None if self._dev is None else float((counts[self._dev] < min_count).mean())
            ),
        )

    def warnings(self) -> Iterator[str]:
        cutoff = self._cutoff(self._settings.min_count)
        share = cutoff.unknown_in_new if cutoff.unknown_in_dev is None else cutoff.unknown_in_dev
        letters = sum(map(len, self._texts)) / sum(len(text.split()) for text in self._texts)
        if letters > LONG_WORD and self._settings.kind in ("words", "spaces"):
            yield (
                f"{self.name} words have {letters:.0f} letters in the mean, as where no spaces "
                "are written: take characters, unigram or spacy"
            )
        elif share > MANY_UNKNOWN and self._settings.kind not in SUBWORDS:
            yield (
                f"{share:.0%} of the {self.name} pieces of new texts would be unknown: take "
                "bpe or unigram, or lower min_count"
            )
        broken = [text for text in self._texts if _is_garbled(text)]
        if broken:
            yield (
                f"letters lost by reading in a wrong encoding, before, in {len(broken)} of "
                f"{len(self._texts)} {self.name} texts: {broken[0]!r}"
            )


def _flat(ids: list[list[int]]) -> np.ndarray:
    return np.fromiter(chain.from_iterable(ids), np.int64)


def _side_lines(side: SideReport) -> Iterator[str]:
    lengths = ", ".join(
        f"{length} ({percent}%)" for percent, length in zip(PERCENTILES, side.lengths, strict=True)
    )
    yield f"{side.name}: {side.tokens} tokens; tokens a text (percentile): {lengths}"
    for cutoff in side.cutoffs:
        dev = cutoff.unknown_in_dev
        yield (
            f"  min_count {cutoff.min_count}: vocabulary {cutoff.vocabulary}, unknown "
            f"{cutoff.unknown:.1%} here, {cutoff.unknown_in_new:.1%} expected in new texts"
            + ("" if dev is None else f", {dev:.1%} in dev")
        )


def _pair_warnings(pairs: Sequence[Pair]) -> Iterator[str]:
    if len(pairs) < FEW_PAIRS:
        yield f"few pairs ({len(pairs)}): expect the model to learn them by heart"
    same = [pair.line for pair in pairs if pair.source == pair.target]
    if same:
        yield (
            f"the same text on both sides in {_places(same, pairs)}: untranslated, unless copying "
            "is part of the task"
        )


def _places(lines: Sequence[int], pairs: Sequence[Pair]) -> str:
    return f"{len(lines)} of {len(pairs)} pairs ({numbers_of(lines)})"


def _length_warnings(
    pairs: Sequence[Pair], source: _Side, target: _Side, most: int
) -> Iterator[str]:
    longest = np.maximum(source.lengths, target.lengths)
    long = [pair.line for pair, length in zip(pairs, longest, strict=True) if length > most]
    if long:
        yield (
            f"more than {most} tokens on a side in {_places(long, pairs)}: training leaves them out"
        )
    # Some letters are added, so that very short texts may differ more.
    letters = np.array([(len(pair.source) + 5, len(pair.target) + 5) for pair in pairs])
    logs = np.log(letters)
    ratios = logs[:, 1] - logs[:, 0]
    distance = np.abs(ratios - np.median(ratios))
    odd = [pair.line for pair, far in zip(pairs, distance, strict=True) if far > ODD_RATIO]
    if odd:
        yield (
            f"sides of very different lengths in {_places(odd, pairs)}: are they translations of "
            "each other?"
        )
    if len(pairs) >= 100 and logs.std(axis=0).min() > 0.1:
        correlation = float(np.corrcoef(logs.T)[0, 1])
        if correlation < LOOSE:
            yield (
                f"the lengths of sources and targets hardly go together (correlation "
                f"{correlation:.2f}): has one side slipped by a line?"
            )


def _is_garbled(text: str) -> bool:
    """UTF-8 that was once read as if it were Windows-1252 (Ã¼ for ü), or what is left of bytes
    that could not be read."""
    if "\ufffd" in text:
        return True
    if not re.search("[Â-ô]", text):
        return False
    try:
        return len(text.encode("cp1252").decode("utf8")) < len(text)
    except UnicodeError:
        return False
