"""Verbs of loaded models: lengths of texts, and results of a batch as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from regard.characters import is_blank_text
from regard.runtime.wanted import check_wanted
from regard.serving.api.errors import RequestError
from regard.serving.api.verbs import Settings

if TYPE_CHECKING:
    from regard.pipeline.load import Model
    from regard.tasks.captioning.model import CaptionModel
    from regard.tasks.classification.model import ClassificationModel
    from regard.tasks.exceptions import Exceptions
    from regard.tasks.generation import GeneratedText
    from regard.tasks.memory import DecodingMemory
    from regard.tasks.tracing import LazyTrace
    from regard.tasks.translation.limits import LengthLimit
    from regard.tasks.translation.model import TranslationModel

BYTES_OF_LABEL = 200
"""Memory of a label with its probability."""
BYTES_OF_NUMBER = 20
"""Largest size of a number of a trace as JSON, with its part of the rest of the trace."""
CONVERTED = 5
"""Memory of the conversion of a trace to JSON, over the size of the JSON."""

Result = str | Exception
"""Result of one text as a JSON object, or the reason why it has none."""


class Need(NamedTuple):
    """Estimated memory of a text, in bytes."""

    decoding: int
    result: int
    """Size of its result as JSON."""


@runtime_checkable
class Operation(Protocol):
    """A verb of a loaded model. One thread at a time calls it."""

    def lengths(self, items: Sequence[Any], settings: Settings, /) -> list[int]:
        """Return the number of source tokens of each text, pair or image. UserError for one that
        does not have the form of the training sources, or whose output cannot begin with the
        prefix."""

    def needs(self, lengths: Sequence[int], settings: Settings) -> list[Need]:
        """Estimate the memory of each text, pair or image with these numbers of tokens."""

    def run(self, items: Sequence[Any], settings: Settings) -> Sequence[Result]:
        """Return a result for each text, pair or image. An error that is raised belongs to one of
        them, or to the settings."""


@dataclass(frozen=True)
class Translate:
    """Translation of texts."""

    model: TranslationModel
    max_numbers: int
    """Largest number of weights and scores of one text's attention."""
    exceptions: Exceptions | None = None

    def lengths(self, items: Sequence[str], settings: Settings) -> list[int]:
        lengths = _source_lengths(self.model, items)
        if settings.prefix:
            from regard.tasks.prefixes import check_prefixes

            prefixes = [settings.prefix] * len(items)
            problems = self.model.prefix_problems(items, prefixes, settings.search)
            check_prefixes(problems, "text")
        return lengths

    def needs(self, lengths: Sequence[int], settings: Settings) -> list[Need]:
        search, num_best = settings.search, settings.num_best
        beam = max(search.beam, num_best)
        memory, attention = self.model.memory, settings.attention
        needs = []
        for length, maximum in zip(
            lengths, self.model.longest_outputs(lengths, search), strict=True
        ):
            sizes = length + 1, maximum
            decoding = memory.of_search(*sizes, beam, num_best, attention=attention)
            results = memory.of_json(*sizes, beam, attention=attention)
            needs.append(_need(decoding, results, self.max_numbers))
        return needs

    def run(self, items: Sequence[str], settings: Settings) -> list[Result]:
        translations = self.model.translate(
            items,
            search=settings.search,
            num_best=settings.num_best,
            attention=settings.attention,
            prefix=settings.prefix,
            exceptions=self.exceptions,
        )
        limit = self.model.source_limit(settings.search)
        return [
            _too_long(limit)
            if translation.is_refused
            else _json(
                {
                    **_texts(translation),
                    "is_long": translation.is_long,
                    "unknown": translation.unknown,
                    "is_exception": translation.is_exception,
                },
                translation.lazy_trace,
                self.max_numbers,
            )
            for translation in translations
        ]


@dataclass(frozen=True)
class Score:
    """Log probabilities of given targets."""

    model: TranslationModel
    max_numbers: int

    def lengths(self, items: Sequence[tuple[str, str]], _settings: Settings) -> list[int]:
        sources = _source_lengths(self.model, [source for source, _ in items])
        targets = self.model.tokenizers.target.encode_batch([target for _, target in items])
        return [max(source, len(target)) for source, target in zip(sources, targets, strict=True)]

    def needs(self, lengths: Sequence[int], settings: Settings) -> list[Need]:
        sizes = ((length + 1, length + 1) for length in lengths)
        return list(_forced_needs(self.model.memory, sizes, self.max_numbers, settings))

    def run(self, items: Sequence[tuple[str, str]], settings: Settings) -> list[Result]:
        scored = self.model.score(items, attention=settings.attention)
        limit = self.model.scored_limit
        return [
            _too_long(limit, "on a side of the pair ")
            if target.is_refused
            else _json(
                {"score": _number(target.score)},
                target.lazy_trace if settings.attention else None,
                self.max_numbers,
            )
            for target in scored
        ]


@dataclass(frozen=True)
class Classify:
    """Prediction of labels or numbers."""

    model: ClassificationModel
    max_numbers: int

    def lengths(self, items: Sequence[str], _settings: Settings) -> list[int]:
        self.model.source_form.check("", items)
        return _lengths(items, self.model.inputs.reader.encode)

    def needs(self, lengths: Sequence[int], settings: Settings) -> list[Need]:
        labels = BYTES_OF_LABEL * len(self.model.labels)
        sizes = ((length, 1) for length in lengths)
        needs = _forced_needs(self.model.memory, sizes, self.max_numbers, settings)
        return [Need(need.decoding + labels, need.result + labels) for need in needs]

    def run(self, items: Sequence[str], settings: Settings) -> list[Result]:
        return [
            _json(
                {
                    "text": prediction.text,
                    "probabilities": [
                        {"label": label, "probability": min(probability, 1.0)}
                        for label, probability in prediction.probabilities
                    ],
                    "is_long": prediction.is_long,
                    "unknown": prediction.unknown,
                },
                prediction.lazy_trace,
                self.max_numbers,
            )
            for prediction in self.model.classify(items, attention=settings.attention)
        ]


@dataclass(frozen=True)
class Caption:
    """Captions of images, which are the bytes of image files."""

    model: CaptionModel
    max_numbers: int

    def lengths(self, items: Sequence[bytes], _settings: Settings) -> list[int]:
        return [1] * len(items)

    def needs(self, lengths: Sequence[int], settings: Settings) -> list[Need]:
        search, num_best = settings.search, settings.num_best
        beam = max(search.beam, num_best)
        search = replace(search, beam=beam)
        decoding = self.model.bytes_of_search(search, num_best, attention=settings.attention)
        sizes = self.model.num_cells, search.max_length or 100
        result = self.model.memory.of_json(*sizes, beam, attention=settings.attention)
        return [_need(decoding, result, self.max_numbers)] * len(lengths)

    def run(self, items: Sequence[bytes], settings: Settings) -> list[Result]:
        from regard.data.images.images import ImageError, decode_image

        sources = self.model.sources
        results: list[Result] = []
        decoded = []
        for content in items:
            check_wanted()
            try:
                name = f"({len(content):,} bytes)"
                decoded.append(decode_image(content, name, sources.side, sources.max_pixels))
                results.append("")
            except ImageError as error:
                results.append(error)
        contents = sources.features_of(decoded) if decoded else ()
        captions = iter(
            self.model.generate(
                [("image", content) for content in contents],
                search=settings.search,
                num_best=settings.num_best,
                attention=settings.attention,
                prefix=settings.prefix,
            )
        )
        return [
            result if isinstance(result, Exception) else self._json_of(next(captions))
            for result in results
        ]

    def _json_of(self, caption: GeneratedText) -> Result:
        return _json(_texts(caption), caption.lazy_trace, self.max_numbers)


def _need(decoding: int, result: int, max_numbers: int) -> Need:
    """Return the memory of a text. A trace of more numbers is not converted to JSON."""
    result = min(result, BYTES_OF_NUMBER * max_numbers)
    return Need(decoding + CONVERTED * result, result)


def _forced_needs(
    memory: DecodingMemory,
    sizes: Iterable[tuple[int, int]],
    max_numbers: int,
    settings: Settings,
) -> Iterator[Need]:
    """Yield the memory of sources with given targets, of these lengths."""
    for source, target in sizes:
        decoding = memory.of_forced(source, target, attention=settings.attention)
        result = memory.of_json(source, target, 1, attention=settings.attention)
        yield _need(decoding, result, max_numbers)


def operations_of(
    model: Model, max_numbers: int, file: Path | None = None
) -> Mapping[str, Operation]:
    """Return the operations of a model by the names of their verbs. `max_numbers` is the largest
    number of weights and scores of one text's attention. `file` has the exceptions. UserError if it
    cannot be read."""
    from regard.tasks.captioning.model import CaptionModel
    from regard.tasks.exceptions import Exceptions
    from regard.tasks.translation.model import TranslationModel

    if isinstance(model, TranslationModel):
        exceptions = None if file is None else Exceptions.of(file, model)
        return {
            "translate": Translate(model, max_numbers, exceptions),
            "score": Score(model, max_numbers),
        }
    if isinstance(model, CaptionModel):
        return {"caption": Caption(model, max_numbers)}
    return {"classify": Classify(model, max_numbers)}


def _source_lengths(model: TranslationModel, texts: Sequence[str]) -> list[int]:
    model.source_form.check("", texts)
    return _lengths(texts, model.tokenizers.source.encode_batch)


def _lengths(texts: Sequence[str], encode: Callable[[list[str]], Iterable[Sized]]) -> list[int]:
    """Return the number of tokens of each text; 0 for a blank text."""
    lengths = map(len, encode([text for text in texts if not is_blank_text(text)]))
    return [0 if is_blank_text(text) else next(lengths) for text in texts]


def _texts(generated: GeneratedText) -> dict[str, Any]:
    """Return the fields of a generated text and its alternatives."""
    return {
        "text": generated.text,
        "score": _number(generated.score),
        "alternatives": [
            {
                "text": alternative.text,
                "score": _number(alternative.score),
                "is_cut": alternative.is_cut,
            }
            for alternative in generated.alternatives
        ],
        "is_cut": generated.is_cut,
    }


def _json(fields: Mapping[str, Any], trace: LazyTrace | None, max_numbers: int) -> Result:
    """Return the fields and the trace as JSON. A RequestError if the trace is too large."""
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    if trace is None:
        return f'{text[:-1]}, "trace": null}}'
    size = sum(block.weights.size * (1 if block.scores is None else 2) for block in trace.maps)
    if size > max_numbers:
        return RequestError(
            422,
            f"the attention has {size:,} numbers: expected at most {max_numbers:,}; send a shorter "
            "text, or leave attention out",
        )
    return f'{text[:-1]}, "trace": {trace.full.to_json()}}}'


def _too_long(limit: LengthLimit, place: str = "") -> RequestError:
    return RequestError(
        422,
        f"more tokens {place}than the model reads ({limit.field}: {limit.tokens:,}): split the "
        "text",
    )


def _number(value: float) -> float | None:
    """Return a number that JSON has: null for NaN and infinity."""
    return value if math.isfinite(value) else None
