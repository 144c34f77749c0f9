"""Inputs and targets of a classifier: encoding, and the form of a source in a trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from regard import trace
from regard.config import ClassificationDataConfig
from regard.data.examples import Pair
from regard.data.labels import targets as classification_targets
from regard.data.labels.encoded import EncodedSource
from regard.data.labels.numeric import NamedSeries, Series, parse_items, parse_series
from regard.data.labels.targets import Labels, Standardiser, Targets, header_hint
from regard.data.text.features import FeatureTokenizer, load_source, split_source
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.names import TokenizerKind
from regard.runs.folder import RunFolder
from regard.tasks.source_form import SourceError, SourceForm

Parsed = TypeVar("Parsed")
Part = TypeVar("Part", list[int], tuple[str, ...], tuple[int, ...])


@contextmanager
def placed(pairs: Sequence[Pair]) -> Iterator[None]:
    """Turn a SourceError into a UserError that names the line of the pair."""
    try:
        yield
    except SourceError as error:
        pair = pairs[error.place]
        raise UserError(f"{pair.place}: {error.reason}{header_hint(pair)}") from error


def _parse_all(parse: Callable[[str], Parsed], texts: Iterable[str]) -> list[Parsed]:
    """Parse texts. SourceError for the first that fails."""
    values = []
    for place, text in enumerate(texts):
        try:
            values.append(parse(text))
        except UserError as error:
            raise SourceError(str(error), place) from error
    return values


@dataclass(frozen=True)
class TextInputs:
    """Texts as tokens, with features or without. Tokens of a text beyond `longest`, features
    included, are not read."""

    tokenizer: Tokenizer | FeatureTokenizer
    language: str
    longest: int
    features = 0

    def encode(self, texts: Sequence[str]) -> list[EncodedSource]:
        """Encode texts. ValueError for a blank text."""
        encoded = self.tokenizer.encode_batch(texts)
        return [
            EncodedSource(self._part(text, ids), is_cut=len(ids) > self.longest)
            for text, ids in zip(texts, encoded, strict=True)
        ]

    def sequence(self, text: str) -> trace.TokenSequence:
        """Return the text as a trace shows it."""
        encoding = self.tokenizer.encode(text)
        texts = self.tokenizer.texts(text, encoding.pieces)
        return trace.TokenSequence(
            text,
            self._part(text, encoding.pieces),
            self._part(text, encoding.words),
            self.language,
            self._part(text, texts),
        )

    def _part(self, text: str, values: Part) -> Part:
        """Return the values of the first tokens of a text and those of its features, which are
        last."""
        if len(values) <= self.longest or not isinstance(self.tokenizer, FeatureTokenizer):
            return values[: self.longest]
        num_features = min(len(split_source(text)[1]), self.longest)
        rest = values[len(values) - num_features :]
        return values[: self.longest - num_features] + rest


@dataclass(frozen=True)
class ItemInputs:
    """Items with numbers; the name of an item is one token. Items beyond `longest` are not read."""

    tokenizer: Tokenizer
    language: str
    longest: int
    features: int

    def encode(self, texts: Sequence[str]) -> list[EncodedSource]:
        """Encode lists of items. SourceError for a text that is no list of items."""
        items = _parse_all(partial(parse_items, features=self.features), texts)
        ids = self.tokenizer.encode_batch([as_tokens(each) for each in items])
        return [
            EncodedSource(numbers, each.series.values).cut(self.longest)
            for numbers, each in zip(ids, items, strict=True)
        ]

    def sequence(self, text: str) -> trace.TokenSequence:
        """Return the items as a trace shows them: each item is a word."""
        series = parse_items(text, self.features).series
        return _series(text, series, self.language, self.longest)


@dataclass(frozen=True)
class SeriesInputs:
    """Series with `features` numbers at each position. Positions beyond `longest` are not read."""

    language: str
    longest: int
    features: int

    def encode(self, texts: Sequence[str]) -> list[EncodedSource]:
        """Encode series. SourceError for a text that is no series."""
        series = _parse_all(partial(parse_series, features=self.features), texts)
        return [EncodedSource(None, each.values).cut(self.longest) for each in series]

    def sequence(self, text: str) -> trace.TokenSequence:
        """Return the series as a trace shows it: each position is a word."""
        return _series(text, parse_series(text, self.features), self.language, self.longest)


Inputs = TextInputs | ItemInputs | SeriesInputs


def source_form_of(reader: Inputs, config: ClassificationDataConfig) -> SourceForm:
    """Return the form of the sources of a run."""
    tokenizer = reader.tokenizer if isinstance(reader, TextInputs) else None
    return SourceForm(config.feature_columns or (), tokenizer)


@dataclass(frozen=True)
class InputsAndTargets:
    """Encoding of sources, and encoding and decoding of targets."""

    reader: Inputs
    targets: Targets

    @classmethod
    def learn(
        cls,
        config: ClassificationDataConfig,
        pairs: Sequence[Pair],
        units: tuple[str, ...] | None = None,
    ) -> InputsAndTargets:
        """Learn vocabulary and labels, or the scale of numbers, from the training split. `units`:
        units of the target columns. UserError if the pairs do not have the form that the recipe
        says."""
        if config.target == "label":
            targets: Targets = Labels.of(pairs)
        else:
            targets = Standardiser.of(pairs, units, standardised=config.standardise)
        with placed(pairs):
            return cls(_learn(config, [pair.source for pair in pairs]), targets)

    @classmethod
    def load(cls, folder: RunFolder, config: ClassificationDataConfig) -> InputsAndTargets:
        """Read the files that `save` wrote. UserError if they hold anything else."""
        try:
            values = json.loads(folder.targets.read_text(encoding="utf8"))
            targets = classification_targets.from_json(values["targets"])
            features = int(values["features"])
        except OSError as error:
            raise UserError(f"cannot read {folder.targets}: {error.strerror}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(
                f"{folder.targets} is damaged or was not written by regard: {error!r}"
            ) from error
        if config.source == "series":
            reader = SeriesInputs(config.source_language, config.max_length, features)
            return cls(reader, targets)
        if config.source == "text":
            tokenizer = load_source(folder.source_tokenizer)
            return cls(TextInputs(tokenizer, config.source_language, config.max_length), targets)
        return cls(_items(config, Tokenizer.load(folder.source_tokenizer), features), targets)

    def save(self, folder: RunFolder) -> None:
        """Write the vocabulary and the targets into a run folder."""
        if not isinstance(self.reader, SeriesInputs):
            self.reader.tokenizer.save(folder.source_tokenizer)
        values = {
            "targets": classification_targets.to_json(self.targets),
            "features": self.reader.features,
        }
        folder.write(folder.targets, json.dumps(values, ensure_ascii=False, indent=1))

    @property
    def vocabulary_size(self) -> int:
        """Size of the vocabulary; 0 for series."""
        return 0 if isinstance(self.reader, SeriesInputs) else len(self.reader.tokenizer)


def as_tokens(items: NamedSeries) -> str:
    """Return the names of items, separated by spaces, with underscores for spaces inside names."""
    return " ".join("_".join(name.split()) for name in items.names)


def _learn(config: ClassificationDataConfig, texts: Sequence[str]) -> Inputs:
    match config.source:
        case "series":
            (first,) = _parse_all(parse_series, texts[:1])
            features = first.values.shape[1]
            return SeriesInputs(config.source_language, config.max_length, features)
        case "items":
            (first_items,) = _parse_all(parse_items, texts[:1])
            features = first_items.series.values.shape[1]
            names = map(as_tokens, _parse_all(partial(parse_items, features=features), texts))
            return _items(config, Tokenizer.train(names, _settings(config, "spaces")), features)
        case "text":
            tokenizer = _text_tokenizer(config, texts)
            return TextInputs(tokenizer, config.source_language, config.max_length)


def _text_tokenizer(
    config: ClassificationDataConfig, texts: Sequence[str]
) -> Tokenizer | FeatureTokenizer:
    settings = _settings(config, config.tokenizer)
    if not config.feature_columns:
        return Tokenizer.train(texts, settings)
    tokenizer = Tokenizer.train((split_source(text)[0] for text in texts), settings)
    return FeatureTokenizer.train(tokenizer, texts)


def _items(config: ClassificationDataConfig, tokenizer: Tokenizer, features: int) -> ItemInputs:
    return ItemInputs(tokenizer, config.source_language, config.max_length, features)


def _settings(config: ClassificationDataConfig, kind: TokenizerKind) -> TokenizerSettings:
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
