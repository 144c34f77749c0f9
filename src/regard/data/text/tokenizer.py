"""Tokenizer: text to numbers and back. It is saved as one file."""

from __future__ import annotations

import json
import operator
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, get_args

import tokenizers
from tokenizers import models

from regard.data.special_tokens import SPECIAL, UNKNOWN
from regard.data.text.segmentation import MARK, at_words, by_spacy, normaliser, plain, to_text
from regard.data.text.tokenizer_settings import SUBWORDS, TokenizerSettings
from regard.data.text.vocabulary import engine_of, in_order, learned
from regard.errors import UserError
from regard.names import TokenizerKind
from regard.storage.files import read_text, whole

__all__ = ["Encoding", "Tokenizer", "TokenizerSettings"]

FORMAT = 1
EMPTY_ENGINE: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": None,
    "post_processor": None,
    "decoder": None,
}
"""Tokenizer of the library without a model. Only the model of a saved tokenizer is read."""
PLAIN_MODELS: dict[str, dict[str, Any]] = {
    "WordLevel": {"unk_token": SPECIAL[UNKNOWN]},
    "BPE": {
        "unk_token": SPECIAL[UNKNOWN],
        "dropout": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    },
    "Unigram": {"unk_id": UNKNOWN, "byte_fallback": False},
}
"""Fields of a model of each type, apart from its vocabulary. With other fields the library panics
or returns other pieces."""


@dataclass(frozen=True)
class Encoding:
    """Text as token numbers, with the piece of each number and the word (from 0) of each piece."""

    ids: list[int]
    pieces: tuple[str, ...]
    words: tuple[int, ...]


class Tokenizer:
    """Tokenizer, which splits text into numbered pieces. `train` and `load` make it; it never
    changes.

    Decoding an encoded text returns `normalise(text)`, if all its pieces are known. Text is never
    read as a special token, and neither START nor END is added.
    """

    def __init__(self, model: models.Model, settings: TokenizerSettings) -> None:
        self.settings = settings
        self._engine = engine_of(model, settings)
        self._normaliser = normaliser(lowercase=settings.lowercase)
        self._cut = by_spacy(settings.language) if settings.kind == "spacy" else None
        pieces = in_order(self._engine)
        self.vocabulary: tuple[str, ...] = tuple(pieces if settings.unknown else pieces[:-1])
        """Pieces in the order of their numbers, special tokens first."""
        self._numbers = {piece: number for number, piece in enumerate(self.vocabulary)}

    @classmethod
    def train(cls, texts: Iterable[str], settings: TokenizerSettings) -> Tokenizer:
        """Learn a vocabulary from texts (of both sides for a shared vocabulary).

        Equal texts give equal tokenizers, except for unigram, where the library breaks ties at
        random. UserError if `size` is too small for the characters of subwords, or if a given
        vocabulary is not a list of distinct pieces.
        """
        return cls(learned(texts, settings), settings)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a tokenizer of `save`. UserError for any other file."""
        text = read_text(path)
        try:
            return cls.from_json(text)
        except BaseException as error:  # the library raises Exception, and panics of its own type
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            why = " ".join(repr(error)[:200].split())
            raise UserError(f"{path} is not a tokenizer that regard wrote: {why}") from error

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """Return the tokenizer that `to_json` encoded. Any exception for other text."""
        saved = json.loads(text)
        settings = _settings(saved["settings"])
        model = saved["tokenizer"]["model"]
        _check_model(model, settings)
        engine = {**EMPTY_ENGINE, "model": model}
        return cls(tokenizers.Tokenizer.from_str(json.dumps(engine)).model, settings)

    def save(self, path: str | Path) -> None:
        """Write one JSON file, completely or not at all."""
        with whole(Path(path)) as unfinished:
            unfinished.write_text(self.to_json(), encoding="utf8")

    def to_json(self) -> str:
        """Return the tokenizer as JSON. Equal tokenizers give equal texts."""
        saved = {
            "format": FORMAT,
            "settings": asdict(self.settings),
            "tokenizer": json.loads(self._engine.to_str()),
        }
        return json.dumps(saved, ensure_ascii=False, indent=1)

    def to_library(self) -> str:
        """Return JSON for `tokenizers.Tokenizer.from_str`, which then encodes text, and decodes
        numbers without special tokens. Words of spaCy have to be split before. It returns <unk> for
        a word that is known only with, or only without, a space before it."""
        engine = tokenizers.Tokenizer.from_str(self._engine.to_str())
        engine.decoder = to_text(spaced=self.settings.kind == "spaces")
        return engine.to_str(pretty=True)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def normalise(self, text: str) -> str:
        """Return the normalised text, as decoding returns it: in NFC, with single spaces, and in
        lower case if set."""
        return plain(self._normaliser.normalize_str(text))

    def encode(self, text: str) -> Encoding:
        """Encode a text. UserError for an unknown piece if the vocabulary has no <unk>."""
        encoding = self._encode(text)
        ids = self._respaced(encoding.ids, text)
        self._check([ids], [text])
        return Encoding(ids, self.pieces(ids), self.words(ids))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token numbers of many texts, on all cores. UserError as in `encode`."""
        encodings = self._engine.encode_batch_fast(
            [self._input(text) for text in texts], is_pretokenized=self._cut is not None
        )
        batch = [
            self._respaced(encoding.ids, text)
            for encoding, text in zip(encodings, texts, strict=True)
        ]
        self._check(batch, texts)
        return batch

    @property
    def cuts_words(self) -> bool:
        """Whether pieces are whole words, not parts of words."""
        return self.settings.kind in ("words", "spaces", "spacy")

    @property
    def marks_words(self) -> bool:
        """Whether pieces are words and symbols with a mark for the space before them."""
        return self.settings.kind in ("words", "spacy")

    def is_unknown(self, number: int) -> bool:
        """Return whether this is the number of <unk>."""
        return self.settings.unknown and number == UNKNOWN

    def has_unknown(self, ids: Sequence[int]) -> bool:
        """Return whether <unk> is among token numbers."""
        return self.settings.unknown and UNKNOWN in ids

    def unknown_share(self, ids: Iterable[int]) -> float:
        """Return the share of <unk> among token numbers, without other special tokens."""
        ids = list(ids)
        if not self.has_unknown(ids):
            return 0.0
        counted = [self.is_unknown(number) for number in ids if number >= UNKNOWN]
        return sum(counted) / len(counted)

    def unknown_share_of(self, texts: Sequence[str]) -> float:
        """Return the share of unknown tokens in texts. 0 if the vocabulary has no <unk>."""
        if not self.settings.unknown:
            return 0.0
        return self.unknown_share(chain.from_iterable(self.encode_batch(texts)))

    def unknown_in(self, text: str) -> tuple[str, ...]:
        """Return the parts of a text that are unknown, as they were typed."""
        pairs = zip(self.found_in(text), self.encode(text).ids, strict=True)
        return tuple(part for part, number in pairs if self.is_unknown(number))

    def decode(
        self, ids: Iterable[int], instead: Iterable[str] = (), spaced: Iterable[bool] = ()
    ) -> str:
        """Return the text of token numbers. Special tokens are omitted, except <unk>: each <unk> is
        replaced by the next text of `instead`, as long as there are any. `spaced` says of each
        <unk> whether it is a word after a space, by default it is."""
        texts, spaces, pieces = iter(instead), iter(spaced), []
        for number in ids:
            self._check_number(number)
            if self.is_unknown(number):
                text = next(texts, SPECIAL[UNKNOWN])
                is_word = next(spaces, True) and self.marks_words
                pieces.append(MARK + text if is_word else text)
            elif number >= UNKNOWN:
                pieces.append(self.vocabulary[number])
        if self.settings.kind == "spaces":
            return plain(" ".join(pieces))
        return plain("".join(pieces).replace(MARK, " ").strip())

    def pieces(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Return pieces for display: words without ▁; in smaller pieces ▁ is a space."""
        pieces = [self.vocabulary[number] for number in ids]
        if self.marks_words:
            pieces = [piece.removeprefix(MARK) for piece in pieces]
        return tuple(map(plain, pieces))

    def words(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Return the word (from 0) of each piece. A special token is a word of its own, but <unk>
        among smaller pieces counts as a letter."""
        ids = list(ids)
        if self.cuts_words:
            return tuple(range(len(ids)))
        shown = [self._shown(number) for number in ids]
        lengths = [len(word) for word, _ in at_words().pre_tokenize_str("".join(shown))]
        begins = {0, *accumulate(lengths)}
        words, last, place = [], -1, 0
        for number, piece in zip(ids, shown, strict=True):
            last += place in begins or number < UNKNOWN
            words.append(last)
            place += len(piece)
        return tuple(words)

    def found_in(self, text: str) -> tuple[str, ...]:
        """Return the part of the text of each token, known or unknown, without the space before
        it."""
        return tuple(part for part, _ in self.spaced_in(text))

    def spaced_in(self, text: str) -> list[tuple[str, bool]]:
        """Return the part of the text of each token, as `found_in`, and whether it is a word after
        a space or at the beginning; of a smaller piece, whether it includes the space before it."""
        encoding, content = self._encode(text), self._input(text)
        if isinstance(content, list):
            words = [content[word] for word in _words(encoding)]
            return [(word.removeprefix(MARK), word.startswith(MARK)) for word in words]
        parts = []
        for begin, end in _with_accents(encoding, text):
            includes = text[begin : begin + 1].isspace()
            follows = not text[:begin].strip() or text[begin - 1].isspace()
            is_spaced = includes or (follows and self.cuts_words)
            parts.append((text[begin:end].strip(), is_spaced))
        return parts

    def is_exact(self, ids: Sequence[int], text: str) -> bool:
        """Return whether these numbers of a text are known pieces with the spaces of the text."""
        if any(map(self.is_unknown, ids)):
            return False
        if not self.marks_words:
            return True
        first = len(self.settings.special)
        pieces = "".join(self.vocabulary[number] for number in ids if number >= first)
        return pieces == MARK + self._normaliser.normalize_str(text).replace(" ", MARK)

    def form(self, part: str) -> str:
        """Return a part of a text as a piece of the vocabulary has it, without the space before
        it."""
        return self._normaliser.normalize_str(part)

    def texts(self, text: str, pieces: Sequence[str]) -> tuple[str, ...]:
        """Return the part of the text of each of its pieces, as it was typed, with the ▁ of the
        piece. Empty for pieces that follow the text, such as <eos>."""
        parts = self.found_in(text)[: len(pieces)]
        if self._cut:  # spaCy reads the normalised text, so the letters keep their case only
            words = self._cut(normaliser(lowercase=False).normalize_str(text))
            typed = tuple(word.removeprefix(MARK) for word in words)
            parts = typed if len(typed) == len(parts) else parts
        parts += ("",) * (len(pieces) - len(parts))
        return tuple(
            MARK + part if part and piece.startswith(MARK) and not part.startswith(MARK) else part
            for piece, part in zip(pieces, parts, strict=True)
        )

    def _check_number(self, number: int) -> None:
        """Raise a TypeError or a ValueError for a value that is not the number of a piece."""
        try:
            place = operator.index(number)
        except TypeError:
            raise TypeError(f"ids has {number!r}: expected whole numbers of pieces") from None
        if not 0 <= place < len(self):
            raise ValueError(f"ids has {place}: expected 0 to {len(self) - 1}, a piece's number")

    def _shown(self, number: int) -> str:
        """Return the piece as text from which words are split. A special token is a line end, which
        no word contains."""
        if number < UNKNOWN:
            return "\n"
        return "x" if self.is_unknown(number) else self.vocabulary[number]

    def _input(self, text: str) -> str | list[str]:
        return self._cut(self._normaliser.normalize_str(text)) if self._cut else text

    def _encode(self, text: str) -> tokenizers.Encoding:
        return self._engine.encode(self._input(text), is_pretokenized=self._cut is not None)

    def _check(self, batch: Sequence[Sequence[int]], texts: Sequence[str]) -> None:
        if self.settings.unknown:
            return
        missing = len(self)  # the number of the <unk> that the vocabulary leaves out
        for ids, text in zip(batch, texts, strict=True):
            if missing in ids:
                piece = self.found_in(text)[ids.index(missing)]
                raise UserError(
                    f"{piece[:60]!r} in {text[:60]!r} is not among the {missing} pieces of the "
                    "vocabulary (data.vocabulary), which has no <unk>: correct the text, or leave "
                    "the option out"
                )

    def _respaced(self, ids: list[int], text: str) -> list[int]:
        """Replace an unknown word by its known form with, or without, a space before it: the "." in
        "him ." is the "." in "him."."""
        unknown = UNKNOWN if self.settings.unknown else len(self)
        if unknown not in ids or not self.marks_words:
            return ids
        ids, words = list(ids), self.found_in(text)
        for place, number in enumerate(ids):
            if number == unknown:
                piece = self._normaliser.normalize_str(words[place]).strip()
                known = (self._numbers.get(form) for form in (piece, MARK + piece))
                ids[place] = next(
                    (known_number for known_number in known if known_number is not None), unknown
                )
        return ids


def _with_accents(encoding: tokenizers.Encoding, text: str) -> Iterator[tuple[int, int]]:
    """Yield the place of each token in the text. The library ends a place before the accents that
    follow their letter as characters of their own."""
    begins = [*(begin for begin, _ in encoding.offsets), len(text)]
    for (begin, end), following in zip(encoding.offsets, begins[1:], strict=True):
        last = end
        while last < following and unicodedata.combining(text[last]):
            last += 1
        yield begin, last


def _words(encoding: tokenizers.Encoding) -> tuple[int, ...]:
    return tuple(word for word in encoding.word_ids if word is not None)


def _settings(saved: dict[str, Any]) -> TokenizerSettings:
    """Return the settings of a saved tokenizer. ValueError for a value of the wrong type."""
    if saved["vocabulary"] is not None:
        saved = {**saved, "vocabulary": tuple(saved["vocabulary"])}
    settings = TokenizerSettings(**saved)
    pieces = settings.vocabulary or ()
    is_right = (
        settings.kind in get_args(TokenizerKind)
        and isinstance(settings.language, str)
        and isinstance(settings.lowercase, bool)
        and isinstance(settings.unknown, bool)
        and isinstance(settings.min_count, int)
        and isinstance(settings.size, int | None)
        and all(isinstance(piece, str) for piece in pieces)
    )
    if not is_right:
        raise ValueError(f"settings are {settings}")
    return settings


def _check_model(model: dict[str, Any], settings: TokenizerSettings) -> None:
    """Raise a ValueError unless the library can load this model and use it with these settings."""
    kinds = {"bpe": "BPE", "characters": "BPE", "unigram": "Unigram"}
    expected = {"type": kinds.get(settings.kind, "WordLevel")}
    expected |= PLAIN_MODELS[expected["type"]]
    fields = {name: model.get(name, value) for name, value in expected.items()}
    unknown_fields = {"unk_id", "unk_token"} & expected.keys()  # the library has no default
    others = model.keys() - expected.keys() - {"vocab", "merges"}
    if fields != expected or not unknown_fields <= model.keys() or others:
        raise ValueError(f"expected a model of {settings.kind} with the fields {expected}")
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):
        numbers = {piece: number for number, (piece, _) in enumerate(vocabulary)}
        if not all(isinstance(score, float | int) for _, score in vocabulary):
            raise ValueError("the vocabulary has scores that are no numbers")
    else:
        numbers = vocabulary
    if any(type(number) is not int for number in numbers.values()):
        raise ValueError("the vocabulary has numbers that are no integers")
    if len(numbers) != len(vocabulary) or sorted(numbers.values()) != list(range(len(numbers))):
        raise ValueError("the pieces of the vocabulary are not numbered one after the other")
    pieces = sorted(numbers, key=numbers.__getitem__)
    special = settings.special
    unknown = pieces[-1:] if not settings.unknown else pieces[UNKNOWN : UNKNOWN + 1]
    if tuple(pieces[: len(special)]) != special or unknown != [SPECIAL[UNKNOWN]]:
        raise ValueError(f"the vocabulary does not have the special tokens {', '.join(SPECIAL)}")
    if settings.kind not in SUBWORDS and model.get("merges"):
        raise ValueError(f"expected no merges in a model of {settings.kind}")
