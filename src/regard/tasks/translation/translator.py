"""A trained model with its tokenizers: text in, text and attention out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from regard.config import DataConfig, Experiment, SearchConfig, WriterConfig
from regard.data.batch import END, PAD, START, Tokens, pad
from regard.data.batching import BatchSettings, PairBatches
from regard.data.text.encoded import EncodedPairs
from regard.device import device_named
from regard.errors import UserError
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.search import Limits
from regard.tasks.arguments import check_how, check_pairs, check_texts
from regard.tasks.generation import Found, Searcher
from regard.tasks.tracing import Looked, TextSources, Tracer, Written
from regard.tasks.translation import encoding
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.loaded import Loaded
from regard.tasks.translation.unknown_words import UnknownReplacement
from regard.trace import AttentionMap, Trace, of_kind

SENTENCES_AT_A_TIME = 64
SCORED_AT_A_TIME = BatchSettings(tokens=4096, sentences=SENTENCES_AT_A_TIME)
DEFAULT_RATIO, BEYOND_RATIO = 2.0, 10
MOST_TOKENS = 1 << 40
"""Bound of a computed length, so that a huge ratio does not overflow int64."""
MAX_SCORED = 5000
"""Largest number of tokens of a side that is scored, unless `search.max_source` names another."""


@dataclass(frozen=True)
class Translation:
    """One output: its text, its score, and, where it was asked for, what it looked at.

    `score` is what it was ranked by; `alternatives` are the next best, best first. `is_long` where
    the source has more tokens than any in training could have (`data.max_length`); `is_refused`
    where it has more than are decoded (`search.max_source`) and the text is empty. Two with the
    same texts and scores are equal."""

    source: str
    text: str
    score: float
    alternatives: tuple[Translation, ...] = ()
    is_long: bool = False
    is_refused: bool = False
    looked: Looked | None = field(default=None, repr=False, compare=False)

    @property
    def trace(self) -> Trace | None:
        """All there is to know of it, made when it is first asked for; None for a blank text, or
        where no attention was asked for."""
        return None if self.looked is None else self.looked.trace

    @property
    def maps(self) -> tuple[AttentionMap, ...]:
        """Who looked at what, of every kind, with all layers and heads; of several models one after
        the other. None for a blank text, or where no attention was asked for."""
        return () if self.looked is None else self.looked.maps

    @property
    def attention(self) -> np.ndarray:
        """The weights on the source as an array with axes layer, head, target and source; of
        several models the first one's (`maps` has all). ValueError where there are none."""
        if self.looked is None:
            raise ValueError(
                "there is no attention: the text is blank, or none was asked for, as "
                "translate(..., attention=True) does"
            )
        return of_kind(self.maps, "cross")[0].weights


class Translator:
    """What `regard.load` gives: translates texts and scores given translations."""

    def __init__(
        self,
        experiment: Experiment,
        tokenizers: Tokenizers,
        model: Seq2Seq | Ensemble,
        others: Sequence[WriterConfig] = (),
    ) -> None:
        """`others` are an ensemble's members beside the experiment's own model. The weights are not
        to change from the first translation on."""
        data, config = experiment.data, experiment.model
        if not isinstance(data, DataConfig) or not isinstance(config, WriterConfig):
            raise UserError(f"a model that is trained to {data.task} translates nothing")
        self.experiment = experiment
        self.data = data
        self.tokenizers = tokenizers
        self.model = model
        self._members = [config, *others]
        self._searcher = Searcher(model)
        sources = TextSources(tokenizers.source, data.source_language)
        self._tracer = Tracer(sources, tokenizers.target, data.target_language, model)

    @classmethod
    def load(cls, run: str | Path, *others: str | Path, device: str = "auto") -> Translator:
        """Load a run folder, or several runs that are to write together, with the search of the
        first; UserError where one is none, or where their vocabularies differ."""
        place = device_named(device)
        first, *rest = [Loaded.of(Path(each)) for each in (run, *others)]
        if not rest:
            return cls(first.experiment, first.tokenizers, first.model.to(place))
        for other in rest:
            first.check_vocabularies(other, "write together")
        together = Ensemble([each.model for each in (first, *rest)]).to(place)
        models = [each.config for each in rest]
        return cls(first.experiment, first.tokenizers, together, models)

    @overload  # of the two that fit a str the first is meant
    def translate(  # type: ignore[overload-overlap]
        self,
        text: str,
        *,
        search: SearchConfig | None = None,
        num_best: int = 1,
        attention: bool = True,
    ) -> Translation: ...
    @overload
    def translate(
        self,
        text: Iterable[str],
        *,
        search: SearchConfig | None = None,
        num_best: int = 1,
        attention: bool = True,
    ) -> list[Translation]: ...
    def translate(
        self,
        text: str | Iterable[str],
        *,
        search: SearchConfig | None = None,
        num_best: int = 1,
        attention: bool = True,
    ) -> Translation | list[Translation]:
        """Translate one text or many; a blank one gives a blank one.

        The texts are the same whatever stands beside them: they are sorted by length, worked on in
        batches, and handed back in their order. `attention` False is faster. A text of more than
        `search.max_source` tokens gives a blank one too, with `is_refused`. UserError for a text
        that is too long for the model, or a search that it cannot do."""
        if isinstance(text, str):
            return self.translate([text], search=search, num_best=num_best, attention=attention)[0]
        check_how(search, num_best)
        if num_best < 1:
            raise UserError(f"num_best (--nbest) is {num_best}: expected 1 or more")
        texts = check_texts("text", text)
        search = search or self.experiment.search
        search = replace(search, beam=max(search.beam, num_best))
        self._check(search)
        replacement = None
        if search.unknown_replacement:
            replacement = UnknownReplacement.of(search, self.tokenizers)
        results = [Translation(each, "", 0.0) for each in texts]
        filled = [number for number, text in enumerate(texts) if text.strip()]
        sources = self._encoded([texts[number] for number in filled])
        max_source = self.max_source(search)
        for number, source_ids in zip(filled, sources, strict=True):
            if len(source_ids) > max_source:
                results[number] = replace(results[number], is_long=True, is_refused=True)
        for numbers, ids in self._batches(texts, filled, sources, max_source):
            source = pad(ids)
            limits = self._limits(source, search)
            looks = attention or replacement is not None
            found = self._searcher.search(source, limits, search, num_best, attention=looks)
            read = list(zip([texts[number] for number in numbers], ids, strict=True))
            text_of = partial(self._text, replacement=replacement)
            written = translations(self._tracer, read, found, text_of, attention=attention)
            for number, tokens, result in zip(numbers, ids, written, strict=True):
                results[number] = replace(result, is_long=len(tokens) > self.data.max_length)
        return results

    def max_source(self, search: SearchConfig | None = None) -> int:
        """Largest number of tokens of a source that is translated by this search."""
        search = search or self.experiment.search
        return search.max_source or 2 * self.data.max_length

    def _check(self, search: SearchConfig) -> None:
        """UserError where a search asks for what this model has not, or for half of something."""
        if search.lexicon is not None and not search.unknown_replacement:
            raise UserError(
                f"search.lexicon is {search.lexicon}, but nothing is looked up in it: set "
                "search.unknown_replacement too"
            )
        if any(each.attends for each in self._members):
            return
        if search.coverage_penalty:
            raise UserError(
                f"search.coverage_penalty is {search.coverage_penalty}, but this model has no "
                "attention to cover the source with: set it to 0"
            )
        if search.unknown_replacement:
            raise UserError(
                "search.unknown_replacement puts in what an <unk> looked at, but this model has no "
                "attention: leave it out"
            )

    def score(
        self, pairs: Sequence[tuple[str, str]], *, attention: bool = True
    ) -> list[Translation]:
        """The log probability of given targets, token by token, with what each looked at.

        Worked on in batches of like lengths. `attention` False leaves the maps out of the traces,
        which is faster and lets texts be far longer. Where the source is blank, or no token of the
        target is left to look up, there is no trace, and the score is NaN; also, with `is_refused`,
        where a side has more tokens than the run's `search.max_source`, or else `MAX_SCORED`."""
        data, pairs = self.data, check_pairs(pairs)
        sources = encoding.encode_sources(data, self.tokenizers.source, [s for s, _ in pairs])
        targets = encoding.encode_targets(data, self.tokenizers.target, [t for _, t in pairs])
        longest = self.experiment.search.max_source or MAX_SCORED
        lengths = [max(map(len, sides)) for sides in zip(sources, targets, strict=True)]
        results = [
            Translation(*pair, math.nan, is_refused=length > longest)
            for pair, length in zip(pairs, lengths, strict=True)
        ]
        filled = [n for n, (text, _) in enumerate(pairs) if text.strip() and targets[n]]
        filled = [number for number in filled if not results[number].is_refused]
        for side, ids in enumerate((sources, targets)):
            texts = [pairs[number][side] for number in filled]
            check_lengths(self._members, texts, [ids[number] for number in filled])
        found = EncodedPairs.of(
            [sources[each] for each in filled], [targets[each] for each in filled]
        )
        batches = PairBatches(found, SCORED_AT_A_TIME, seed=0)
        for batch in batches.in_order():
            places = [filled[each] for each in batch.indices]
            written = [Written(pairs[each][0], sources[each], targets[each]) for each in places]
            read = self._tracer.read(written, attention=attention)
            for place, looked in zip(places, read, strict=True):
                results[place] = replace(results[place], score=looked.score, looked=looked)
        return results

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return encoding.encode_sources(self.data, self.tokenizers.source, texts)

    def _batches(
        self,
        texts: Sequence[str],
        filled: Sequence[int],
        sources: Sequence[list[int]],
        max_source: int,
    ) -> Iterator[tuple[list[int], list[list[int]]]]:
        """Sources, of those of these texts, that are not too long, in batches of like lengths, with
        their places."""
        order = [place for place, ids in enumerate(sources) if len(ids) <= max_source]
        check_lengths(
            self._members,
            [texts[filled[place]] for place in order],
            [sources[place] for place in order],
        )
        order.sort(key=lambda place: len(sources[place]))
        for first in range(0, len(order), SENTENCES_AT_A_TIME):
            places = order[first : first + SENTENCES_AT_A_TIME]
            yield [filled[place] for place in places], [sources[place] for place in places]

    def _limits(self, source: Tokens, search: SearchConfig) -> Limits:
        lengths = source.mask.sum(dim=1)
        if search.max_length is None:
            ratio = search.max_ratio or DEFAULT_RATIO
            maximum = (ratio * lengths).ceil().clamp(max=MOST_TOKENS).long() + BEYOND_RATIO
        else:
            maximum = torch.full_like(lengths, search.max_length)
        longest = longest_sequence(self._members)
        if longest is not None:
            maximum = maximum.clamp(max=longest)
        return Limits(
            start=START,
            end=END if self.data.target_end else None,
            maximum=maximum,
            minimum=search.min_length,
            forbidden=(PAD, START),
        )

    def _text(
        self, written: Written, looked: Looked, replacement: UnknownReplacement | None
    ) -> str:
        if replacement and replacement.is_needed(written.target):
            return replacement.text(written.target, looked.source, looked.maps)
        return self.tokenizers.target.decode(written.target)


def translations(
    tracer: Tracer,
    sources: Sequence[tuple[str, Any]],
    found: Sequence[Found],
    text_of: Callable[[Written, Looked], str],
    *,
    attention: bool,
) -> list[Translation]:
    """What was found for each source (its text, and what its encoder read), decoded, with what it
    looked at, where that is wanted."""
    written = [
        Written(
            text,
            content,
            list(each.tokens),
            result.encoder + each.attention,
            each.score,
            result.lattice,
        )
        for (text, content), result in zip(sources, found, strict=True)
        for each in result.hypotheses
    ]
    flat = (
        Translation(
            each.text, text_of(each, looked), each.score, looked=looked if attention else None
        )
        for each, looked in zip(written, tracer.found(written), strict=True)
    )
    ranked = [list(islice(flat, len(result.hypotheses))) for result in found]
    return [replace(best, alternatives=tuple(others)) for best, *others in ranked]


def longest_sequence(models: Iterable[WriterConfig]) -> int | None:
    """The longest that all of these models can read and write; None where there is no end."""
    known = (each.longest_sequence for each in models)
    return min((each for each in known if each is not None), default=None)


def check_lengths(
    models: Sequence[WriterConfig], texts: Sequence[str], ids: Sequence[Sequence[int]]
) -> None:
    """UserError for the first text that is longer than these models can read."""
    longest = longest_sequence(models)
    for text, tokens in zip(texts, ids, strict=True):
        if longest is not None and len(tokens) > longest:
            raise UserError(
                f"{text[:40]!r}… has {len(tokens)} tokens, but this model has learned positions "
                f"for {longest}: cut it into shorter texts, or train with a larger model.longest "
                "or other model.positions"
            )
