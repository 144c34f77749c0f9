"""Features of a source: columns beside its text, such as the case and number of an inflected form.

    gehen TAB V;PST        g  e  h  e  n  V  PST  <eos>

A source has its text, then its features, with tabs between them, which no text has. A feature has
one value or several, with semicolons, bars or spaces between them. Each value is one token after
the tokens of the text. Values are numbered after the pieces of the text, so that a feature is never
the same token as a word.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.data.special_tokens import SPECIAL, UNKNOWN
from regard.data.text.tokenizer import Encoding, Tokenizer
from regard.data.text.tokenizer_settings import TokenizerSettings
from regard.errors import UserError
from regard.storage.files import read_text, whole

SEPARATOR = "\t"
"""Separator of the text and the features of a source, and mark of a value in the vocabulary."""
_VALUES = re.compile(r"[^;|\s]+")


def split_source(source: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of a source and the values of its features, in NFC."""
    text, *features = source.split(SEPARATOR)
    if not features:
        return text, ()
    values = unicodedata.normalize("NFC", SEPARATOR.join(features))
    return text, tuple(_VALUES.findall(values))


class FeatureTokenizer:
    """Tokenizer of texts with features, for the source of a model. It is used like a `Tokenizer`.
    A value that it does not know is <unk>."""

    def __init__(self, text: Tokenizer, values: Sequence[str]) -> None:
        """`text` is the tokenizer of the text, with <unk>. UserError without <unk>."""
        if not text.settings.unknown:
            raise UserError(
                "data.vocabulary has no <unk>, which stands for unknown values of features: leave "
                "it out, or read one source column"
            )
        self.text = text
        self.values = tuple(values)
        self.vocabulary = (*text.vocabulary, *(SEPARATOR + value for value in values))
        """Pieces of the text, then values, each after a tab."""
        self._numbers = {value: len(text) + place for place, value in enumerate(values)}

    @classmethod
    def train(cls, text: Tokenizer, sources: Iterable[str]) -> FeatureTokenizer:
        """Return the tokenizer with all values of these sources."""
        values = {value for source in sources for value in split_source(source)[1]}
        return cls(text, sorted(values))

    @property
    def settings(self) -> TokenizerSettings:
        """Settings of the text."""
        return self.text.settings

    @property
    def cuts_words(self) -> bool:
        """Whether pieces of the text are whole words."""
        return self.text.cuts_words

    def __len__(self) -> int:
        return len(self.vocabulary)

    def normalise(self, text: str) -> str:
        """Return the normalised text and its values."""
        text, values = split_source(text)
        return SEPARATOR.join([self.text.normalise(text), *values])

    def encode(self, text: str) -> Encoding:
        """Encode a source."""
        (ids,) = self.encode_batch([text])
        return Encoding(ids, self.pieces(ids), self.words(ids))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token numbers of many sources."""
        parts = [split_source(text) for text in texts]
        encoded = self.text.encode_batch([text for text, _ in parts])
        return [
            [*ids, *(self._numbers.get(value, UNKNOWN) for value in values)]
            for ids, (_, values) in zip(encoded, parts, strict=True)
        ]

    def is_unknown(self, number: int) -> bool:
        """Return whether this is the number of <unk>."""
        return self.text.is_unknown(number)

    def decode(
        self, ids: Iterable[int], instead: Iterable[str] = (), spaced: Iterable[bool] = ()
    ) -> str:
        """Return the text of token numbers, without features."""
        ids = [number for number in ids if number < len(self.text)]
        return self.text.decode(ids, instead, spaced)

    def pieces(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Return pieces and values for display."""
        ids = list(ids)
        pieces = self.text.pieces(self._in_text(ids))
        return tuple(
            self.vocabulary[number].removeprefix(SEPARATOR) if number >= len(self.text) else piece
            for number, piece in zip(ids, pieces, strict=True)
        )

    def words(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Return the word (from 0) of each piece. Each value is a word."""
        ids = list(ids)
        num_text = next((n for n, each in enumerate(ids) if each >= len(self.text)), len(ids))
        words = list(self.text.words(ids[:num_text]))
        first = words[-1] + 1 if words else 0
        return (*words, *range(first, first + len(ids) - num_text))

    def found_in(self, text: str) -> tuple[str, ...]:
        """Return the part of the text of each token, and each value after a tab."""
        text, values = split_source(text)
        return (*self.text.found_in(text), *(SEPARATOR + value for value in values))

    def spaced_in(self, text: str) -> list[tuple[str, bool]]:
        """Return `found_in`, and whether each part is after a space; values are."""
        text, values = split_source(text)
        return [*self.text.spaced_in(text), *((SEPARATOR + value, True) for value in values)]

    @property
    def marks_words(self) -> bool:
        """Whether pieces of the text have marks, as `Tokenizer.marks_words`."""
        return self.text.marks_words

    def form(self, part: str) -> str:
        """Return a part of the text as a piece, as `Tokenizer.form`."""
        return self.text.form(part)

    def is_exact(self, ids: Sequence[int], text: str) -> bool:
        """Return whether all tokens are known, as `Tokenizer.is_exact`."""
        if any(map(self.is_unknown, ids)):
            return False
        ids = [number for number in ids if number < len(self.text)]
        return self.text.is_exact(ids, split_source(text)[0])

    def texts(self, text: str, pieces: Sequence[str]) -> tuple[str, ...]:
        """Return the part of the source of each of its pieces, as `Tokenizer.texts`."""
        text, values = split_source(text)
        num_text = len(self.text.found_in(text))
        parts = (*self.text.texts(text, pieces[:num_text]), *values)
        return (*parts, *("",) * (len(pieces) - len(parts)))

    def unknown_share(self, ids: Sequence[int]) -> float:
        """Return the share of unknown tokens, as `Tokenizer.unknown_share`."""
        return self.text.unknown_share(ids)

    def unknown_share_of(self, texts: Sequence[str]) -> float:
        """Return the share of unknown tokens in sources, without their features."""
        return self.text.unknown_share_of([split_source(text)[0] for text in texts])

    def unknown_in(self, text: str) -> tuple[str, ...]:
        """Return the unknown parts of the text of a source."""
        return self.text.unknown_in(split_source(text)[0])

    def save(self, path: str | Path) -> None:
        """Write one JSON file, completely or not at all."""
        with whole(Path(path)) as unfinished:
            unfinished.write_text(self.to_json(), encoding="utf8")

    def to_json(self) -> str:
        """Return the JSON of the text's tokenizer with the values."""
        saved = {**json.loads(self.text.to_json()), "features": list(self.values)}
        return json.dumps(saved, ensure_ascii=False, indent=1)

    def _in_text(self, ids: Iterable[int]) -> list[int]:
        return [UNKNOWN if number >= len(self.text) else number for number in ids]


def load_source(path: str | Path) -> Tokenizer | FeatureTokenizer:
    """Read the tokenizer of a source. UserError for any other file."""
    text = Tokenizer.load(path)
    try:
        values = _values(read_text(path), text)
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is not a tokenizer that regard wrote: {error}") from error
    return text if values is None else FeatureTokenizer(text, values)


def source_from_json(text: str) -> Tokenizer | FeatureTokenizer:
    """Return the tokenizer that `to_json` encoded. Any exception for other text."""
    tokenizer = Tokenizer.from_json(text)
    values = _values(text, tokenizer)
    return tokenizer if values is None else FeatureTokenizer(tokenizer, values)


def _values(text: str, tokenizer: Tokenizer) -> tuple[str, ...] | None:
    """Return the values of features in a saved tokenizer. ValueError for other content."""
    values = json.loads(text).get("features")
    if values is None:
        return None
    is_list = isinstance(values, list) and all(isinstance(value, str) for value in values)
    if not is_list or len(set(values)) != len(values) or not tokenizer.settings.unknown:
        raise ValueError(f"features are not a list of distinct texts beside {SPECIAL[UNKNOWN]}")
    return tuple(values)
