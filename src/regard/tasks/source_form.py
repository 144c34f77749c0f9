"""Comparison of a source with the sources that a run was trained on: number of features, known
values of features, and marks of subwords."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.characters import composed, is_blank_text
from regard.data.text.features import SEPARATOR, FeatureTokenizer, split_source
from regard.data.text.segmentation import plain
from regard.data.text.subword_marks import SUBWORD_MARKS
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError, counted

WITH_TAB = (
    "a tab, but each line is one source: give a file of sources alone, such as the output of "
    "`cut -f 1`"
)


class SourceError(UserError, ValueError):
    """A source cannot be read, or does not have the form of the training sources. `place` is its
    index among the sources, from 0."""

    def __init__(self, reason: str, place: int, name: str = "") -> None:
        """`name` is the name of the argument, for the message."""
        super().__init__(f"{name}[{place}]: {reason}" if name else reason)
        self.reason = reason
        self.place = place


@dataclass(frozen=True)
class SourceForm:
    """Form of the sources of a run. `columns` are the columns of their features. Without a
    tokenizer, sources are numbers, which are checked when they are read."""

    columns: tuple[str, ...] = ()
    tokenizer: Tokenizer | FeatureTokenizer | None = None

    def problem(self, source: str) -> str:
        """Return the difference between a source and those of the training, such as "0 features,
        expected 1: column 3". Empty without a difference, and for a blank source."""
        if is_blank_text(source):
            return ""
        if not self.columns:
            return self._subwords(source)
        text, *features = source.split(SEPARATOR)
        if len(features) != len(self.columns):
            return self._wrong_number(len(features))
        if is_blank_text(text):
            return "features, but no text before them: expected the text, a tab and the features"
        return self._subwords(text)

    def problem_of_line(self, line: str) -> str:
        """Return the difference for a line of a file. Of a run without features, a line with a tab
        has more than a source."""
        if not self.columns and SEPARATOR in line.strip():
            return WITH_TAB
        return self.problem(line)

    def check(self, name: str, sources: Iterable[str]) -> None:
        """Raise a SourceError for the first source that has another form. `name` is the name of the
        argument."""
        for place, source in enumerate(sources):
            if problem := self.problem(source):
                raise SourceError(f"has {problem}", place, name)

    def unknown_values(self, source: str) -> tuple[str, ...]:
        """Return the values of features that the training did not have, and (blank) for a column
        without one."""
        if not self.columns or is_blank_text(source):
            return ()
        known = self.known_values
        values = (value for value in split_source(source)[1] if value not in known)
        is_blank = any(map(is_blank_text, source.split(SEPARATOR)))
        return (*values, *(["(blank)"] if is_blank else []))

    @cached_property
    def known_values(self) -> dict[str, None]:
        """Values of features in training, in their order."""
        tokenizer = self.tokenizer
        values = tokenizer.values if isinstance(tokenizer, FeatureTokenizer) else ()
        return dict.fromkeys(map(composed, values))

    def _wrong_number(self, number: int) -> str:
        columns = "column" if len(self.columns) == 1 else "columns"
        names = f"{columns} {', '.join(self.columns)}"
        return (
            f"{counted(number, 'feature')}, expected {len(self.columns)}: {names} "
            "(a line is TEXT TAB FEATURES, with a tab between columns)"
        )

    def _subwords(self, text: str) -> str:
        for mark, pattern in SUBWORD_MARKS.items():
            if mark in text and mark not in self._known_marks and pattern.search(text):
                return (
                    f"words in pieces ({mark}), but no training source had: join the pieces of "
                    "words"
                )
        return ""

    @cached_property
    def _known_marks(self) -> frozenset[str]:
        """Marks in the training sources, as far as the vocabulary shows."""
        if self.tokenizer is None:
            return frozenset(SUBWORD_MARKS)
        is_cut = self.tokenizer.settings.kind != "spaces"  # symbols are pieces of their own
        pieces = [*_typed(self.tokenizer.vocabulary)]
        return frozenset(
            mark
            for mark in SUBWORD_MARKS
            if any((mark[:1] if is_cut else mark) in piece for piece in pieces)
        )


def _typed(pieces: Sequence[str]) -> Iterator[str]:
    """Yield pieces of a vocabulary without the ▁ of spaces, and with that of the texts."""
    return (plain(piece.replace("▁", "")) for piece in pieces)
