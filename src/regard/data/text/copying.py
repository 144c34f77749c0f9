"""Words of a source that a model copies: their numbers in the target vocabulary, and their texts.

    source      the  train  to  Brno  leaves  Brno  <eos>
    copies       4     17   9    31     22     31     2      target vocabulary of 28 words

Words that the target vocabulary has are copied as these. Another word has the size of the
vocabulary plus its first position in the sentence (See et al. 2017), so equal words have equal
numbers. A target has these numbers in place of <unk>.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from regard.data.batch import Tokens, pad
from regard.data.special_tokens import END, PAD, SPECIAL, UNKNOWN
from regard.data.text.features import SEPARATOR, FeatureTokenizer
from regard.data.text.segmentation import MARK, plain
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError


@dataclass(frozen=True)
class CopySource:
    """Encoded source that a model copies from: for each position its number in the source
    vocabulary, its number in the target vocabulary or above it, and its text."""

    ids: list[int]
    copies: list[int]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


class CopyEncoder:
    """Finds the words of sources in the target vocabulary, and copied words in targets."""

    def __init__(self, source: Tokenizer | FeatureTokenizer, target: Tokenizer) -> None:
        """UserError if one side has whole words and the other smaller pieces."""
        if source.cuts_words != target.cuts_words:
            raise UserError(
                f"model.copy copies source pieces, but data.tokenizer is {source.settings.kind} "
                f"and data.target_tokenizer {target.settings.kind}: set both to words or both to "
                "smaller pieces, or model.copy to none"
            )
        self._source, self._target = source, target
        self._numbers = {piece: number for number, piece in enumerate(target.vocabulary)}
        first = len(source.settings.special)
        self._known = [
            ("", PAD)
            if number < first or piece.startswith(SEPARATOR)
            else (_key(piece, source), self._number(piece))
            for number, piece in enumerate(source.vocabulary)
        ]

    def sources(
        self, texts: Sequence[str], sources: Sequence[list[int]], *, has_end: bool
    ) -> list[CopySource]:
        """Return encoded texts with the numbers and texts to copy. The last token of a source is
        copied as END, if sources and targets have one; otherwise it has nothing to copy."""
        return [
            self._copied(text, ids, has_end=has_end)
            for text, ids in zip(texts, sources, strict=True)
        ]

    def targets(
        self,
        texts: Sequence[str],
        targets: Sequence[list[int]],
        sources: Sequence[CopySource],
    ) -> list[list[int]]:
        """Replace <unk> in encoded targets by the number of the source word that it can be copied
        from, if there is one."""
        return [
            self._with_copies(text, ids, source)
            for text, ids, source in zip(texts, targets, sources, strict=True)
        ]

    def _copied(self, text: str, ids: list[int], *, has_end: bool) -> CopySource:
        pieces = self._source.found_in(text) if any(map(self._source.is_unknown, ids)) else ()
        first_positions: dict[str, int] = {}
        copies: list[int] = []
        keys: list[str] = []
        copy: int | None
        for position, number in enumerate(ids):
            if self._source.is_unknown(number) and pieces[position].startswith(SEPARATOR):
                key, copy = "", PAD  # a feature
            elif self._source.is_unknown(number):
                piece = self._source.normalise(pieces[position])
                key, copy = piece, self._number(piece)
            elif number == END:
                key, copy = "", END if has_end else PAD
            else:
                key, copy = self._known[number]
            if copy is None:
                copy = len(self._target) + first_positions.setdefault(key, position)
            copies.append(copy)
            keys.append(key)
        return CopySource(ids, copies, tuple(keys))

    def _with_copies(self, text: str, ids: list[int], source: CopySource) -> list[int]:
        if not any(map(self._target.is_unknown, ids)):
            return ids
        above = {
            key: number
            for key, number in zip(source.texts, source.copies, strict=True)
            if number >= len(self._target)
        }
        pieces = self._target.found_in(text)
        return [
            above.get(self._target.normalise(pieces[place]), number)
            if self._target.is_unknown(number)
            else number
            for place, number in enumerate(ids)
        ]

    def _number(self, piece: str) -> int | None:
        """Return the number of a source piece in the target vocabulary, or None. A word is the same
        word with and without a space before it."""
        forms = [piece]
        if self._target.cuts_words:
            word = piece.removeprefix(MARK)
            forms += [MARK + word, word]
        return next((self._numbers[form] for form in forms if form in self._numbers), None)


def _key(piece: str, tokenizer: Tokenizer | FeatureTokenizer) -> str:
    return piece.removeprefix(MARK) if tokenizer.cuts_words else piece


@dataclass(frozen=True)
class CopyVocabulary:
    """Target vocabulary of one sentence: the tokenizer's pieces, then the source's words."""

    tokenizer: Tokenizer
    texts: tuple[str, ...]

    def decode(self, ids: Iterable[int], instead: Iterable[str] = ()) -> str:
        """Return the text of token numbers, as `Tokenizer.decode`."""
        ids, others = list(ids), iter(instead)
        texts = [
            self._text(number) or next(others, SPECIAL[UNKNOWN])
            for number in ids
            if self._is_copied(number) or self.tokenizer.is_unknown(number)
        ]
        return self.tokenizer.decode(self.in_vocabulary(ids), texts)

    def pieces(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Return pieces for display, as `Tokenizer.pieces`."""
        ids = list(ids)
        known = self.tokenizer.pieces(self.in_vocabulary(ids))
        return tuple(
            plain(self._text(number).replace(MARK, " ")) if self._is_copied(number) else piece
            for number, piece in zip(ids, known, strict=True)
        )

    def words(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Return the word (from 0) of each piece, as `Tokenizer.words`."""
        return self.tokenizer.words(self.in_vocabulary(ids))

    def in_vocabulary(self, ids: Iterable[int]) -> list[int]:
        """Return token numbers with <unk> for words that the tokenizer lacks."""
        return [UNKNOWN if self._is_copied(number) else number for number in ids]

    def _is_copied(self, number: int) -> bool:
        return number >= len(self.tokenizer)

    def _text(self, number: int) -> str:
        """Return the text of a copied word; "" for a position after the source, which has none."""
        position = number - len(self.tokenizer)
        return self.texts[position] if 0 <= position < len(self.texts) else ""


def pad_copied(sources: Sequence[CopySource]) -> Tokens:
    """Stack sources of different lengths to one padded block, as `pad`."""
    tokens = pad([source.ids for source in sources])
    return replace(tokens, copies=pad([source.copies for source in sources]).ids)
