"""Words of a source that a model copies: their numbers in the target vocabulary, and their texts.

    source      the  train  to  Brno  leaves  Brno  <eos>
    copies       4     17   9    31     22     31     2      target vocabulary of 28 words

Words that the target vocabulary has are copied as these. Another word has the size of the
vocabulary plus its first position in the sentence (See et al. 2017), so equal words have equal
numbers. A target has these numbers in place of <unk>. The words "(x" and "x" after a space differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from regard.data.batch import Tokens, pad
from regard.data.special_tokens import END, PAD, SPECIAL, UNKNOWN
from regard.data.text.features import SEPARATOR, FeatureTokenizer
from regard.data.text.segmentation import MARK, plain
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError


@dataclass(frozen=True)
class CopySource:
    """Encoded source that a model copies from: for each position its number in the source
    vocabulary, its number in the target vocabulary or above it, its text, and whether it is after a
    space."""

    ids: list[int]
    copies: list[int]
    texts: tuple[str, ...]
    spaced: tuple[bool, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


class _Form(NamedTuple):
    """Word or smaller piece, and whether a word is after a space."""

    text: str
    is_spaced: bool = True


class CopyEncoder:
    """Finds the words of sources in the target vocabulary, and copied words in targets. A word with
    and without a space before it are two words, so that a copy has the space of its source."""

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
            (NOTHING, PAD)
            if number < first or piece.startswith(SEPARATOR)
            else (form := _form_of(piece, source), self._number(form))
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
        self, texts: Sequence[str], targets: Sequence[list[int]], sources: Sequence[CopySource]
    ) -> list[list[int]]:
        """Replace <unk> in encoded targets, and words that are known with another space only, by
        the number of the source word that they can be copied from, if there is one."""
        return [
            self._with_copies(text, ids, source)
            for text, ids, source in zip(texts, targets, sources, strict=True)
        ]

    def _copied(self, text: str, ids: list[int], *, has_end: bool) -> CopySource:
        is_exact = self._source.is_exact(ids, text)
        parts = [] if is_exact else self._source.spaced_in(text)
        first_positions: dict[_Form, int] = {}
        copies: list[int] = []
        forms: list[_Form] = []
        for position, number in enumerate(ids):
            form, copy = self._known[number]
            if number == END:
                form, copy = NOTHING, END if has_end else PAD
            elif not is_exact and (copy != PAD or self._source.is_unknown(number)):
                form = self._form(self._source, number, form, parts[position])
                copy = PAD if form == NOTHING else self._number(form)
            if copy is None:
                copy = len(self._target) + first_positions.setdefault(form, position)
            copies.append(copy)
            forms.append(form)
        texts, spaced = zip(*forms, strict=True) if forms else ((), ())
        return CopySource(ids, copies, texts, spaced)

    def _with_copies(self, text: str, ids: list[int], source: CopySource) -> list[int]:
        above = {
            _Form(word, spaced): number
            for word, spaced, number in zip(source.texts, source.spaced, source.copies, strict=True)
            if number >= len(self._target)
        }
        if not above or self._target.is_exact(ids, text):
            return ids
        # an unknown word that is not in the source may be there with another space
        others = {form.text: number for form, number in above.items()}
        ids = list(ids)
        for place, part in enumerate(self._target.spaced_in(text)):
            number = ids[place]
            known = _form_of(self._target.vocabulary[number], self._target)
            form = self._form(self._target, number, known, part)
            if self._target.is_unknown(number):
                ids[place] = above.get(form, others.get(form.text, number))
            else:
                ids[place] = above.get(form, number)
        return ids

    def _form(
        self,
        tokenizer: Tokenizer | FeatureTokenizer,
        number: int,
        known: _Form,
        part: tuple[str, bool],
    ) -> _Form:
        """Return the form of a token of a text, whose known form may have another space. A value of
        a feature has nothing to copy."""
        text, is_spaced = part
        if not tokenizer.is_unknown(number):
            return _Form(known.text, is_spaced) if tokenizer.marks_words else known
        if text.startswith(SEPARATOR):
            return NOTHING
        text = tokenizer.form(text)
        if tokenizer.cuts_words:
            return _Form(text, is_spaced)
        return _Form(MARK + text if is_spaced else text)

    def _number(self, form: _Form) -> int | None:
        """Return the number of a source piece in the target vocabulary, or None."""
        mark = MARK if self._target.marks_words and form.is_spaced else ""
        return self._numbers.get(mark + form.text)


def _form_of(piece: str, tokenizer: Tokenizer | FeatureTokenizer) -> _Form:
    """Return the form of a piece of a vocabulary."""
    if not tokenizer.marks_words:
        return _Form(piece)
    return _Form(piece.removeprefix(MARK), piece.startswith(MARK))


NOTHING = _Form("")
"""Form of a position that has nothing to copy."""


@dataclass(frozen=True)
class CopyVocabulary:
    """Target vocabulary of one sentence: the tokenizer's pieces, then the source's words, each
    after a space or not."""

    tokenizer: Tokenizer
    texts: tuple[str, ...]
    spaced: tuple[bool, ...] = ()

    def decode(
        self, ids: Iterable[int], instead: Iterable[str] = (), spaced: Iterable[bool] = ()
    ) -> str:
        """Return the text of token numbers, as `Tokenizer.decode`."""
        ids, others, spaces = list(ids), iter(instead), iter(spaced)
        unknown = [
            (self._text(number), self._is_spaced(number))
            if self._is_copied(number)
            else (next(others, SPECIAL[UNKNOWN]), next(spaces, True))
            for number in ids
            if self._is_copied(number) or self.tokenizer.is_unknown(number)
        ]
        texts = [text or SPECIAL[UNKNOWN] for text, _ in unknown]
        return self.tokenizer.decode(self.in_vocabulary(ids), texts, [each for _, each in unknown])

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

    def _is_spaced(self, number: int) -> bool:
        position = number - len(self.tokenizer)
        return self.spaced[position] if 0 <= position < len(self.spaced) else True


def pad_copied(sources: Sequence[CopySource]) -> Tokens:
    """Stack sources of different lengths to one padded block, as `pad`."""
    tokens = pad([source.ids for source in sources])
    return replace(tokens, copies=pad([source.copies for source in sources]).ids)
