"""A trained translation model with its tokenizers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import index, itemgetter
from pathlib import Path
from typing import Any, SupportsIndex, overload

from regard.characters import is_blank_text
from regard.config import (
    DataConfig,
    Experiment,
    SearchConfig,
    TranslationModelConfig,
    longest_sequence,
)
from regard.data.batch import END, START, Tokens
from regard.data.batching import BatchSettings, PairBatches
from regard.data.text.copying import CopySource
from regard.errors import UserError
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.runs.ensemble import all_members, warn_of_other_data
from regard.runtime.device import cpu_by_default, device_named, float32_by_default
from regard.runtime.wanted import check_wanted
from regard.search import Limits
from regard.shapes import Int, Tensor
from regard.tasks.arguments import check_pairs, check_texts, search_of, sections_of
from regard.tasks.display import describe_model
from regard.tasks.exceptions import Exceptions, ExceptionsOrFile
from regard.tasks.generation import (
    GeneratedText,
    Searcher,
    forbidden_tokens,
    generated_texts,
    restrictions_of,
)
from regard.tasks.memory import (
    DecodingMemory,
    ResultMemory,
    batches_within,
    check_each,
    parts_within,
)
from regard.tasks.prefixes import (
    check_prefix,
    check_prefixes,
    problem_of_prefix,
    without_end,
)
from regard.tasks.source_form import SourceForm
from regard.tasks.tracing import LazyTrace, Output, TextSources, Tracer, bytes_of_attention
from regard.tasks.translation.encoding import EncodedSource, PairEncoder, Tokenizers
from regard.tasks.translation.limits import LengthLimit, limit_of_scored, limit_of_sources
from regard.tasks.translation.loaded import TranslationRun
from regard.tasks.translation.unknown_words import UnknownReplacement

SENTENCES_AT_A_TIME = 64
SCORED_AT_A_TIME = BatchSettings(tokens=4096, sentences=SENTENCES_AT_A_TIME)
DEFAULT_RATIO, BEYOND_RATIO = 2.0, 10
MAX_TOKENS = 1 << 40
"""Upper bound of a computed length, so that a huge ratio does not overflow int64."""


class TranslationModel:
    """A trained translation model or ensemble: translates texts and scores given translations.
    `regard.load` returns it for runs that translate."""

    def __init__(
        self,
        experiment: Experiment,
        tokenizers: Tokenizers,
        model: Seq2Seq | Ensemble,
        others: Sequence[TranslationModelConfig] = (),
        *,
        is_private: bool = False,
    ) -> None:
        """`others` are the configurations of an ensemble's further models. `is_private` says that
        no other code has the model, so that changes of its weights need not be looked for."""
        data, config = sections_of(experiment, DataConfig, experiment.name)
        self.experiment = experiment
        self.data = data
        self.tokenizers = tokenizers
        self._members = [config, *others]
        self._searcher = Searcher(model, is_private=is_private)
        self._encoder = PairEncoder(data, config, tokenizers)
        self.source_form = SourceForm(data.feature_columns or (), tokenizers.source)
        sources = TextSources(tokenizers.source, data.source_language)
        self.memory = DecodingMemory(self._members, len(tokenizers.target))
        self._tracer = Tracer(sources, tokenizers.target, data.target_language, model, self.memory)

    @classmethod
    @cpu_by_default()
    @float32_by_default()
    def load(cls, run: str | Path, *others: str | Path, device: str = "auto") -> TranslationModel:
        """Load a run folder, or several runs or an ensemble's folder as an ensemble that searches
        as the first run does. Warn of runs that were trained on other data.

        UserError if a folder is no run, or if the vocabularies differ."""
        place = device_named(device)
        paths = all_members((run, *others))
        first, *rest = [TranslationRun.load(path) for path in paths]
        if not rest:
            model = first.model.to(place)
            return cls(first.experiment, first.tokenizers, model, is_private=True)
        for other in rest:
            first.check_vocabularies(other, "be an ensemble")
            if first.config.copy != other.config.copy:
                raise UserError(
                    f"{first.path} and {other.path} cannot be an ensemble: model.copy is "
                    f"{first.config.copy} and {other.config.copy}. Use runs with the same output"
                )
        warn_of_other_data(paths)
        ensemble = Ensemble([member.model for member in (first, *rest)]).to(place).eval()
        configs = [member.config for member in rest]
        return cls(first.experiment, first.tokenizers, ensemble, configs, is_private=True)

    def __repr__(self) -> str:
        source, target = len(self.tokenizers.source), len(self.tokenizers.target)
        sizes = f"vocabulary {source:,} and {target:,}"
        if len(self._members) > 1:
            sizes = f"ensemble of {len(self._members)}, {sizes}"
        return describe_model("TranslationModel", self.experiment, self._tracer.model, sizes)

    @property
    def model(self) -> Seq2Seq | Ensemble:
        """The model itself, which may be changed: the next call gives the numbers of the changed
        model. From the first access on, each search compares all weights first."""
        return self._searcher.model

    @overload  # a str matches both overloads; this one applies
    def translate(  # type: ignore[overload-overlap]
        self,
        text: str,
        *,
        search: SearchConfig | None = None,
        beam: SupportsIndex | None = None,
        num_best: SupportsIndex = 1,
        attention: bool = True,
        prefix: str | Iterable[str] | None = None,
        exceptions: ExceptionsOrFile | None = None,
    ) -> GeneratedText: ...
    @overload
    def translate(
        self,
        text: Iterable[str],
        *,
        search: SearchConfig | None = None,
        beam: SupportsIndex | None = None,
        num_best: SupportsIndex = 1,
        attention: bool = True,
        prefix: str | Iterable[str] | None = None,
        exceptions: ExceptionsOrFile | None = None,
    ) -> list[GeneratedText]: ...
    @cpu_by_default()
    def translate(
        self,
        text: str | Iterable[str],
        *,
        search: SearchConfig | None = None,
        beam: SupportsIndex | None = None,
        num_best: SupportsIndex = 1,
        attention: bool = True,
        prefix: str | Iterable[str] | None = None,
        exceptions: ExceptionsOrFile | None = None,
    ) -> GeneratedText | list[GeneratedText]:
        """Translate one text or several texts. A blank text has a blank translation. `beam` is
        short for the run's own search with this beam.

        Texts are sorted by length, decoded in batches and returned in their order; a translation
        does not depend on the other texts. `attention=False` is faster. A text of more tokens than
        the `source_limit` has a blank translation with `is_refused`. Each translation begins with
        the tokens of the `prefix`: a text for all, or one for each text; "" for none. PrefixError,
        a ValueError, if it has unknown words or more tokens than the output may have. SourceError,
        a ValueError, for a text that has another number of features than the training sources, or
        words in pieces. UserError if the model cannot do the search.

        A text without a prefix that is a source of the `exceptions` (a file of pairs, or a
        dictionary) is not decoded: the result has the target of that source, `is_exception`, the
        score NaN, and neither attention nor alternatives. ExceptionsError, a ValueError, for a file
        that cannot be read and for a source with several targets."""
        if isinstance(text, str):
            return self.translate(
                [text],
                search=search,
                beam=beam,
                num_best=num_best,
                attention=attention,
                prefix=prefix,
                exceptions=exceptions,
            )[0]
        search = search_of(self.experiment, search, beam, num_best)
        num_best = index(num_best)
        texts = check_texts("text", text)
        prefixes = check_prefix(prefix, len(texts))
        self.source_form.check("text", texts)
        self._check(search)
        replacement = None
        if search.unknown_replacement:
            replacement = UnknownReplacement.of(search, self.tokenizers)
        results = [GeneratedText(source, "", 0.0) for source in texts]
        exact = dict[int, str]()
        if exceptions is not None:
            exact = Exceptions.of(exceptions, self).among(texts, prefixes)
        for number, target in exact.items():
            results[number] = GeneratedText(texts[number], target, math.nan, is_exception=True)
        filled = [
            number
            for number, source in enumerate(texts)
            if not is_blank_text(source) and number not in exact
        ]
        sources = self._encoder.sources([texts[number] for number in filled])
        forced = self._forced([prefixes[number] for number in filled], sources)
        max_source = self.source_limit(search).tokens
        lengths = [len(ids) for ids in sources]
        needs_weights = attention or replacement is not None
        needs = self._search_bytes(lengths, search, num_best, attention=needs_weights)
        decoded = [place for place, length in enumerate(lengths) if length <= max_source]
        check_each(((filled[place], needs[place]) for place in decoded), search)
        if any(forced):
            check_prefixes(self.prefix_problems(texts, prefixes, search), "text")
        memory = ResultMemory(search)
        for number, source_ids in zip(filled, sources, strict=True):
            if len(source_ids) > max_source:
                results[number] = replace(results[number], is_long=True, is_refused=True)
        text_of = partial(self._text, replacement=replacement)
        decoded.sort(key=lengths.__getitem__)
        for places in batches_within(decoded, needs.__getitem__, SENTENCES_AT_A_TIME):
            check_wanted()
            numbers, ids = [filled[place] for place in places], [sources[place] for place in places]
            batch = self._tracer.sources.pad(ids)
            limits = self._limits(batch, search, [forced[place] for place in places])
            hypotheses = self._searcher.search(
                batch, limits, search, num_best, attention=needs_weights
            )
            encoded = list(zip([texts[number] for number in numbers], ids, strict=True))
            generated = generated_texts(
                self._tracer, encoded, hypotheses, text_of, attention=attention
            )
            for number, tokens, result in zip(numbers, ids, generated, strict=True):
                results[number] = replace(
                    result,
                    is_long=len(tokens) > self.data.max_length,
                    unknown=self._unknown_share_of(tokens),
                )
                if attention:
                    memory.add(result.num_bytes)
        return results

    def unknown_share(self, texts: Sequence[str]) -> float:
        """Return the share of unknown tokens in sources; 0 if the model copies such words."""
        return 0.0 if self.copies else self.tokenizers.source.unknown_share_of(texts)

    def _unknown_share_of(self, source: EncodedSource) -> float:
        """Return the share of unknown tokens in a source; 0 if the model copies such words."""
        if isinstance(source, CopySource):
            return 0.0
        return self.tokenizers.source.unknown_share(source)

    def unknown_in(self, text: str) -> tuple[str, ...]:
        """Return the parts of a source that are unknown to the model."""
        return self.tokenizers.source.unknown_in(text)

    @property
    def copies(self) -> bool:
        """Whether the model copies words of the source."""
        return self._encoder.has_copies

    @property
    def attends(self) -> bool:
        """Whether a decoder attends to the source."""
        return any(config.decoder.attends for config in self._members)

    def source_limit(self, search: SearchConfig | None = None) -> LengthLimit:
        """Return the largest number of source tokens that this search decodes."""
        return limit_of_sources(search or self.experiment.search, self.data, self._members)

    @property
    def scored_limit(self) -> LengthLimit:
        """Largest number of tokens on a side of a pair that is scored."""
        return limit_of_scored(self.experiment.search, self._members)

    def _check(self, search: SearchConfig) -> None:
        """Raise a UserError if the search needs attention that the model lacks, a second option,
        or longer outputs than the model can write."""
        longest = longest_sequence(self._members)
        if longest is not None and search.min_length > longest:
            raise UserError(
                f"search.min_length is {search.min_length}, but the model has learned positions "
                f"for {longest} tokens (max_positions): expected no more"
            )
        if search.lexicon is not None and not search.unknown_replacement:
            raise UserError(
                f"search.lexicon is {search.lexicon}, but only search.unknown_replacement reads "
                "it: set search.unknown_replacement too"
            )
        if search.unknown_replacement and self.copies:
            raise UserError(
                "search.unknown_replacement copies source words for <unk>, but this model copies "
                "them itself (model.copy pointer_generator): leave it out"
            )
        if self.attends:
            return
        if search.coverage_penalty:
            raise UserError(
                f"search.coverage_penalty is {search.coverage_penalty}, but the model has no "
                "attention that could cover the source: set it to 0"
            )
        if search.unknown_replacement:
            raise UserError(
                "search.unknown_replacement copies the source word that an <unk> attends to, but "
                "the model has no attention: leave it out"
            )

    @cpu_by_default()
    def score(self, pairs: Iterable[Any], *, attention: bool = True) -> list[GeneratedText]:
        """Compute the log probability of given targets, token by token, with their attention.
        `pairs` are tuples of source and target, dictionaries, or a data frame with these columns.

        Pairs are scored in batches of similar lengths. `attention=False` omits the maps from the
        traces: that is faster and allows far longer texts. The score is NaN, and there is no trace,
        if a side is blank, and if a side has more tokens than the `scored_limit`. Then `is_refused`
        is true too. SourceError as in `translate`."""
        pairs = check_pairs(pairs)
        self.source_form.check("pairs", [source for source, _ in pairs])
        sources = self._encoder.sources([source for source, _ in pairs])
        targets = self._encoder.targets([target for _, target in pairs], sources)
        longest = self.scored_limit.tokens
        lengths = [max(map(len, sides)) for sides in zip(sources, targets, strict=True)]
        results = [
            GeneratedText(*pair, math.nan, is_refused=length > longest)
            for pair, length in zip(pairs, lengths, strict=True)
        ]
        filled = [n for n, pair in enumerate(pairs) if not any(map(is_blank_text, pair))]
        filled = [number for number in filled if not results[number].is_refused]
        encoded = self._encoder.pairs(
            [sources[number] for number in filled], [targets[number] for number in filled]
        )
        needs = {
            place: self.memory.of_forced(
                len(sources[place]), len(targets[place]), attention=attention
            )
            for place in filled
        }
        check_each(needs.items(), self.experiment.search, "pairs")
        memory = ResultMemory(self.experiment.search)
        batches = PairBatches(encoded, SCORED_AT_A_TIME, seed=0)
        similar = ([filled[index] for index in batch.indices] for batch in batches.in_order())
        for places in chain.from_iterable(
            batches_within(each, needs.__getitem__, SENTENCES_AT_A_TIME) for each in similar
        ):
            check_wanted()
            outputs = [
                Output(pairs[place][0], sources[place], targets[place], target_text=pairs[place][1])
                for place in places
            ]
            traces = self._tracer.forced(outputs, attention=attention)
            for place, lazy_trace in zip(places, traces, strict=True):
                results[place] = replace(
                    results[place], score=lazy_trace.score, lazy_trace=lazy_trace
                )
                memory.add(bytes_of_attention([lazy_trace]))
        return results

    def _search_bytes(
        self, lengths: Sequence[int], search: SearchConfig, num_best: int, *, attention: bool
    ) -> list[int]:
        """Estimate the memory of a search for sources of these lengths."""
        different = list(set(lengths))
        maxima = self.longest_outputs(different, search)
        needs = {
            length: self.memory.of_search(
                length, maximum, search.beam, num_best, attention=attention
            )
            for length, maximum in zip(different, maxima, strict=True)
        }
        return [needs[length] for length in lengths]

    def longest_outputs(self, lengths: Sequence[int], search: SearchConfig) -> list[int]:
        """Return the maximum number of tokens of an output for sources of these lengths."""
        if search.max_length is None:
            ratio = search.max_ratio or DEFAULT_RATIO
            maxima = [
                math.ceil(min(ratio * length, MAX_TOKENS)) + BEYOND_RATIO for length in lengths
            ]
        else:
            maxima = [search.max_length] * len(lengths)
        longest = longest_sequence(self._members)
        maxima = [max(maximum, search.min_length) for maximum in maxima]
        return maxima if longest is None else [min(maximum, longest) for maximum in maxima]

    def parts(
        self, texts: Sequence[str], search: SearchConfig | None = None, num_best: int = 1
    ) -> Iterator[list[str]]:
        """Yield consecutive texts whose attention fits into the memory together, for a program that
        writes the attention of many texts."""
        search = search_of(self.experiment, search, num_best=num_best)
        lengths = list(map(len, self._encoder.sources(texts)))
        maxima = self.longest_outputs(lengths, search)
        needs = map(partial(self.memory.of_maps, num_best=num_best), lengths, maxima)
        pairs = zip(texts, needs, strict=True)
        for part in parts_within(list(pairs), itemgetter(1)):
            yield [text for text, _ in part]

    def parts_of_pairs(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
        """Yield consecutive pairs whose attention fits into the memory together, as `parts`."""
        sources = self._encoder.sources([source for source, _ in pairs])
        targets = self._encoder.targets([target for _, target in pairs], sources)
        needs = (
            self.memory.of_maps(len(source), len(target))
            for source, target in zip(sources, targets, strict=True)
        )
        for part in parts_within(list(zip(pairs, needs, strict=True)), itemgetter(1)):
            yield [pair for pair, _ in part]

    def _forced(self, prefixes: Sequence[str], sources: Sequence[EncodedSource]) -> list[list[int]]:
        """Return the tokens of the prefix of each source."""
        if all(map(is_blank_text, prefixes)):
            return [[] for _ in prefixes]
        return without_end(prefixes, self._encoder.targets(prefixes, sources), END)

    def prefix_problems(
        self, texts: Sequence[str], prefixes: Sequence[str], search: SearchConfig
    ) -> list[str | None]:
        """Return for each text why its translation cannot begin with its prefix; None if it can,
        and for a text that is not decoded."""
        sources = self._encoder.sources(texts)
        lengths, longest = list(map(len, sources)), self.source_limit(search).tokens
        rows = zip(
            texts,
            prefixes,
            lengths,
            self._forced(prefixes, sources),
            self.longest_outputs(lengths, search),
            strict=True,
        )
        return [
            None
            if is_blank_text(text) or length > longest
            else problem_of_prefix(prefix, tokens, self.tokenizers.target, maximum)
            for text, prefix, length, tokens, maximum in rows
        ]

    def _limits(
        self, source: Tokens, search: SearchConfig, prefixes: Sequence[Sequence[int]]
    ) -> Limits:
        return Limits(
            start=START,
            end=END if self.data.target_end else None,
            maximum=self._maximum(source.mask.sum(dim=1), search),
            minimum=search.min_length,
            forbidden=forbidden_tokens(search, self.tokenizers.target, "allow"),
            restrictions=restrictions_of(search, prefixes),
        )

    def _maximum(self, lengths: Int[Tensor, "batch"], search: SearchConfig) -> Int[Tensor, "batch"]:
        """Return the maximum length of the output for sources of these lengths."""
        return lengths.new_tensor(self.longest_outputs(lengths.tolist(), search))

    def _text(
        self, output: Output, lazy_trace: LazyTrace, replacement: UnknownReplacement | None
    ) -> str:
        if replacement and replacement.is_needed(output.target):
            return replacement.text(output.target, lazy_trace.source, lazy_trace.maps)
        return self._tracer.decode(output)
