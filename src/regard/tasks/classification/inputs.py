"""How the sources of one-answer tasks become numbers, and what of them a trace shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from regard import trace
from regard.config import AnswerDataConfig
from regard.data.examples import Pair
from regard.data.labels import targets as answering
from regard.data.labels.encoded import EncodedSource
from regard.data.labels.numeric import NamedSeries, Series, parse_items, parse_series
from regard.data.labels.targets import Labels, Standardiser, Targets
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.names import TokenizerKind
from regard.runs.folder import RunFolder

Read = TypeVar("Read")


class SourceError(UserError):
    """One of several sources that cannot be read; `place` is which, from 0."""

    def __init__(self, why: str, place: int) -> None:
        super().__init__(why)
        self.place = place


@contextmanager
def placed(pairs: Sequence[Pair]) -> Iterator[None]:
    """Names the line of a pair whose source cannot be read."""
    try:
        yield
    except SourceError as error:
        raise UserError(f"{pairs[error.place].place}: {error}") from error


def _each(read: Callable[[str], Read], texts: Iterable[str]) -> list[Read]:
    """SourceError where one is not what is to be read."""
    found = []
    for place, text in enumerate(texts):
        try:
            found.append(read(text))
        except UserError as error:
            raise SourceError(str(error), place) from error
    return found


@dataclass(frozen=True)
class TextReader:
    """Texts, cut to tokens. What is beyond `longest` tokens is not read."""

    tokenizer: Tokenizer
    language: str
    longest: int
    features = 0

    def encode(self, texts: Sequence[str]) -> list[EncodedSource]:
        """ValueError where a text is blank."""
        found = self.tokenizer.encode_batch(texts)
        return [EncodedSource(ids).cut(self.longest) for ids in found]

    def sequence(self, text: str) -> trace.TokenSequence:
        """What a model sees of a text."""
        found = self.tokenizer.encode(text)
        part = slice(self.longest)
        return trace.TokenSequence(text, found.pieces[part], found.words[part], self.language)


@dataclass(frozen=True)
class ItemReader:
    """Items with numbers: a whole name is one token. What is beyond `longest` items is not
    read."""

    tokenizer: Tokenizer
    language: str
    longest: int
    features: int

    def encode(self, texts: Sequence[str]) -> list[EncodedSource]:
        """SourceError for a text that is no items."""
        found = _each(partial(parse_items, features=self.features), texts)
        ids = self.tokenizer.encode_batch([as_tokens(each) for each in found])
        return [
            EncodedSource(numbers, each.series.values).cut(self.longest)
            for numbers, each in zip(ids, found, strict=True)
        ]

    def sequence(self, text: str) -> trace.TokenSequence:
        """Every item is a word."""
        series = parse_items(text, self.features).series
        return _series(text, series, self.language, self.longest)


@dataclass(frozen=True)
class SeriesReader:
    """Numbers alone, so many at each position. What is beyond `longest` positions is not read."""

    language: str
    longest: int
    features: int

    def encode(self, texts: Sequence[str]) -> list[EncodedSource]:
        """SourceError for a text that is no series."""
        found = _each(partial(parse_series, features=self.features), texts)
        return [EncodedSource(None, each.values).cut(self.longest) for each in found]

    def sequence(self, text: str) -> trace.TokenSequence:
        """Every position is a word."""
        return _series(text, parse_series(text, self.features), self.language, self.longest)


Reader = TextReader | ItemReader | SeriesReader


@dataclass(frozen=True)
class Reading:
    """How sources and answers become numbers and come back."""

    reader: Reader
    answers: Targets

    @classmethod
    def of(cls, config: AnswerDataConfig, pairs: Sequence[Pair]) -> Reading:
        """Learned from the examples to train on. UserError where these are not what the recipe
        says."""
        if config.answer == "label":
            answers: Targets = Labels.of(pairs)
        else:
            answers = Standardiser.of(pairs, standardised=config.standardise)
        with placed(pairs):
            return cls(_learned(config, [pair.source for pair in pairs]), answers)

    @classmethod
    def load(cls, folder: RunFolder, config: AnswerDataConfig) -> Reading:
        """Read what `save` wrote; UserError where it is something else."""
        try:
            page = json.loads(folder.answers.read_text(encoding="utf8"))
            answers = answering.from_page(page["answers"])
            features = int(page["features"])
        except OSError as error:
            raise UserError(f"cannot read {folder.answers}: {error.strerror}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(
                f"{folder.answers} is not what regard wrote there: {error!r}"
            ) from error
        if config.source == "series":
            reader = SeriesReader(config.source_language, config.max_length, features)
            return cls(reader, answers)
        return cls(_reader(config, Tokenizer.load(folder.source_tokenizer), features), answers)

    def save(self, folder: RunFolder) -> None:
        """Write it into a run."""
        if not isinstance(self.reader, SeriesReader):
            self.reader.tokenizer.save(folder.source_tokenizer)
        page = {"answers": answering.to_page(self.answers), "features": self.reader.features}
        folder.write(folder.answers, json.dumps(page, ensure_ascii=False, indent=1))

    @property
    def num_source(self) -> int:
        """How many tokens there are; 0 where sources are numbers alone."""
        return 0 if isinstance(self.reader, SeriesReader) else len(self.reader.tokenizer)


def as_tokens(items: NamedSeries) -> str:
    """The names with a space between them and none inside."""
    return " ".join("_".join(name.split()) for name in items.names)


def _learned(config: AnswerDataConfig, texts: Sequence[str]) -> Reader:
    match config.source:
        case "series":
            (first,) = _each(parse_series, texts[:1])
            features = first.values.shape[1]
            return SeriesReader(config.source_language, config.max_length, features)
        case "items":
            (beginning,) = _each(parse_items, texts[:1])
            features = beginning.series.values.shape[1]
            names = map(as_tokens, _each(partial(parse_items, features=features), texts))
            return _reader(config, Tokenizer.train(names, _settings(config, "spaces")), features)
        case "text":
            return _reader(config, Tokenizer.train(texts, _settings(config, config.tokenizer)), 0)


def _reader(config: AnswerDataConfig, tokenizer: Tokenizer, features: int) -> Reader:
    if config.source == "items":
        return ItemReader(tokenizer, config.source_language, config.max_length, features)
    return TextReader(tokenizer, config.source_language, config.max_length)


def _settings(config: AnswerDataConfig, kind: TokenizerKind) -> TokenizerSettings:
    return TokenizerSettings(
        kind=kind,
        language=config.source_language,
        lowercase=config.lowercase,
        min_count=config.min_count,
        size=config.vocabulary_size,
    )


def _series(text: str, series: Series, language: str, longest: int) -> trace.TokenSequence:
    pieces = series.pieces[:longest]
    return trace.TokenSequence(text, pieces, tuple(range(len(pieces))), language)
