"""Report on pairs before training: their sizes, their vocabularies and likely faults."""

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
from regard.data.text.features import split_source
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.tokenizer_settings import SUBWORDS, TokenizerSettings

CUTOFFS = (1, 2, 3, 5, 10)
PERCENTILES = (1, 25, 50, 75, 99, 100)

TEXTS_AT_A_TIME = 8192
FEW_PAIRS = 1000
MANY_UNKNOWN = 0.05
LONG_WORD = 20
"""Mean letters of a word above which a text is probably written without spaces."""
ODD_RATIO = math.log(3)
"""Largest distance of the log ratio of target to source length from its median."""
LOOSE = 0.2
"""Correlation of lengths below which the sides probably do not match."""


@dataclass(frozen=True)
class CheckSettings:
    """Settings by which training would read the pairs."""

    source: TokenizerSettings = field(default_factory=TokenizerSettings)
    """Tokenizer of sources."""
    target: TokenizerSettings = field(default_factory=TokenizerSettings)
    """Tokenizer of targets."""
    max_length: int = 200
    """Largest number of tokens of a side; training drops longer pairs."""


@dataclass(frozen=True)
class Cutoff:
    """Effect of a minimum count: size of the vocabulary, and shares of pieces that become <unk> in
    these texts, in new texts (estimated), and in the dev texts, if there are any."""

    min_count: int
    vocabulary: int
    unknown: float
    unknown_in_new: float
    unknown_in_dev: float | None


@dataclass(frozen=True)
class SideReport:
    """Source side or target side of the pairs. `lengths` are lengths in tokens at each of
    `PERCENTILES`."""

    name: str
    tokens: int
    lengths: tuple[int, ...]
    cutoffs: tuple[Cutoff, ...]


@dataclass(frozen=True)
class Overlap:
    """Number of pairs of a held-out split whose source is in the training split."""

    name: str
    pairs: int
    shared: int

    @classmethod
    def of(cls, name: str, part: Sequence[Pair], training: Sequence[Pair]) -> Overlap:
        """Count the pairs of `part` whose `canonical_text` of the source is in `training`."""
        trained = {canonical_text(pair.source) for pair in training}
        return cls(name, len(part), sum(canonical_text(pair.source) in trained for pair in part))

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence if there are such pairs."""
        if not self.shared:
            return ()
        return (
            f"{self.shared} of {self.pairs} {self.name} pairs have a source of the training data: "
            "scores will be too good",
        )


@dataclass(frozen=True)
class Report:
    """Findings about a corpus. `warnings` are sentences and include those of `left_out`."""

    pairs: int
    left_out: tuple[str, ...]
    source: SideReport
    target: SideReport
    duplicates: int
    sources_with_several_targets: int
    overlaps: tuple[Overlap, ...]
    warnings: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        return [
            f"{self.pairs} pairs; {self.duplicates} repeat an earlier one; "
            f"{self.sources_with_several_targets} sources have several targets",
            *(line for side in (self.source, self.target) for line in _side_lines(side)),
            *(
                f"{overlap.name}: {overlap.pairs} pairs, {overlap.shared} with a source of the "
                "training data"
                for overlap in self.overlaps
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
    """Report on the training pairs and on their overlap with dev and test pairs.

    The share of unknown pieces in new texts is Good's (1953) estimate: pieces that occur r times
    here are expected to have the share of pieces that occur r + 1 times here. ValueError if there
    are no pairs.
    """
    if not corpus.pairs:
        raise ValueError("got no pairs: expected a corpus with at least 1")
    settings = settings or CheckSettings()
    source = _Side("source", settings.source, corpus, dev)
    target = _Side("target", settings.target, corpus, dev)
    named = [(name, part) for name, part in (("dev", dev), ("test", test)) if part is not None]
    overlaps = tuple(Overlap.of(name, part.pairs, corpus.pairs) for name, part in named)
    left_out = corpus.summary()
    targets_of: defaultdict[str, set[str]] = defaultdict(set)
    for pair in corpus.pairs:
        targets_of[pair.source].add(pair.target)
    return Report(
        pairs=len(corpus.pairs),
        left_out=left_out,
        source=source.report(),
        target=target.report(),
        duplicates=len(corpus.pairs) - sum(map(len, targets_of.values())),
        sources_with_several_targets=sum(len(targets) > 1 for targets in targets_of.values()),
        overlaps=overlaps,
        warnings=(
            *left_out,
            *(warning for overlap in overlaps for warning in overlap.warnings()),
            *_pair_warnings(corpus.pairs),
            *_length_warnings(corpus.pairs, source, target, settings.max_length),
            *source.warnings(),
            *target.warnings(),
        ),
    )


class _Side:
    """Texts of one side, tokenized without a minimum count."""

    def __init__(
        self, name: str, settings: TokenizerSettings, corpus: Corpus, dev: Corpus | None
    ) -> None:
        self.name = name
        self._settings = settings
        self._texts = self._of(corpus)
        subwords = settings.kind in SUBWORDS
        unlimited = settings if subwords else replace(settings, min_count=1, size=None)
        tokenizer = Tokenizer.train(self._texts, unlimited)
        self._counts = np.zeros(len(tokenizer), np.int64)
        lengths = []
        for first in range(0, len(self._texts), TEXTS_AT_A_TIME):
            ids = tokenizer.encode_batch(self._texts[first : first + TEXTS_AT_A_TIME])
            lengths.append(np.array(list(map(len, ids))))
            self._counts += np.bincount(_flat(ids), minlength=len(tokenizer))
        self.lengths = np.concatenate(lengths)
        self._dev = None if dev is None else _flat(tokenizer.encode_batch(self._of(dev)))

    def _of(self, corpus: Corpus) -> list[str]:
        """Return the texts of this side, without features."""
        return [split_source(getattr(pair, self.name))[0] for pair in corpus.pairs]

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
                f"{self.name} words have {letters:.0f} letters on average, as in texts without "
                "spaces: use the tokenizer characters, unigram or spacy"
            )
        elif share > MANY_UNKNOWN and self._settings.kind not in SUBWORDS:
            remedy = (
                "add pairs, or lower min_count"
                if self._settings.kind == "characters"
                else "use the tokenizer bpe or unigram, or lower min_count"
            )
            yield (f"{share:.0%} of the {self.name} pieces of new texts would be unknown: {remedy}")
        broken = [text for text in self._texts if _is_garbled(text)]
        if broken:
            yield (
                f"{len(broken)} of {len(self._texts)} {self.name} texts have letters that were "
                f"decoded with a wrong encoding before: {broken[0]!r}"
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
        yield f"few pairs ({len(pairs)}): the model will probably memorise them"
    same = [pair.line for pair in pairs if pair.source == pair.target]
    if same:
        yield (
            f"equal texts on both sides in {_places(same, pairs)}: they are untranslated, unless "
            "copying is part of the task"
        )


def _places(lines: Sequence[int], pairs: Sequence[Pair]) -> str:
    return f"{len(lines)} of {len(pairs)} pairs ({numbers_of(lines)})"


def _length_warnings(
    pairs: Sequence[Pair], source: _Side, target: _Side, max_length: int
) -> Iterator[str]:
    longest = np.maximum(source.lengths, target.lengths)
    long = [pair.line for pair, length in zip(pairs, longest, strict=True) if length > max_length]
    if long:
        yield (
            f"more than {max_length} tokens on a side in {_places(long, pairs)}: training drops "
            "them"
        )
    # Added letters, so that the ratios of very short texts may differ more.
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
                f"the lengths of sources and targets hardly correlate ({correlation:.2f}): is one "
                "side shifted by a line?"
            )


def _is_garbled(text: str) -> bool:
    """Return whether a text was UTF-8 decoded as Windows-1252 (Ã¼ for ü), or has replacement
    characters of undecodable bytes."""
    if "\ufffd" in text:
        return True
    if not re.search("[Â-ô]", text):
        return False
    try:
        return len(text.encode("cp1252").decode("utf8")) < len(text)
    except UnicodeError:
        return False
