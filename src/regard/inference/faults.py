"""Faults of an input: sources that were not processed as they are, and sentences about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from regard.characters import is_blank_text
from regard.data.files.lines import (
    NOTES,
    LeftOut,
    LineProblem,
    marks_removed,
    numbers_of,
    summary_of,
)
from regard.errors import counted, listed
from regard.storage.files import shorten_name

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.inference.lines import Source
    from regard.tasks.classification.model import ClassificationModel, Prediction
    from regard.tasks.generation import GeneratedText
    from regard.tasks.source_form import SourceForm
    from regard.tasks.translation.model import TranslationModel

MOSTLY = 0.5
"""Share of unknown words above which a line is reported."""
UNREADABLE = "\ufffd"
"""Character in place of bytes that are not UTF-8."""
KINDS_SHOWN = 5
"""Number of different problems of sources that are reported."""
WORDS_SHOWN = 5
"""Number of unknown words in a message."""
VALUES_SHOWN = 20
"""Number of known values of features in a message."""
IMAGES_SHOWN = 3
"""Number of images in a message."""


@dataclass(frozen=True)
class Limits:
    """Limits of a model, and the consequence for a source beyond them, for messages."""

    known_values: Sequence[str] = ()
    """Values of features in training."""
    unfit: str = "no output"
    """Consequence for a source of another form than the training sources."""
    longest: int = 0
    """Largest number of tokens of a training source."""
    long: str = ""
    """Consequence for a source of more tokens than `longest`."""
    most: int = 0
    """Largest number of tokens that the model takes."""
    refused: str = ""
    """Consequence for a source of more tokens than `most`."""


@dataclass
class Faults:
    """Faults of an input or of a part of it, by the numbers of their lines, from 1. Apart from
    `broken` and `dropped`, fields are numbers, texts, and lists and dictionaries of them."""

    errors: list[str] = field(default_factory=list)
    """Messages about sources that cannot be read."""
    images: list[str] = field(default_factory=list)
    """Messages about images of a folder that cannot be read. They are reported in one line."""
    shifted: list[int] = field(default_factory=list)
    """Rows with more cells than columns, or with wrong quotes, which have no source."""
    without_object: list[int] = field(default_factory=list)
    """Lines of a file of JSON that are no object, which have no source."""
    wide: list[int] = field(default_factory=list)
    """Other rows with more cells than the first row."""
    unfit: dict[str, list[int]] = field(default_factory=dict)
    """Lines of another form than the training sources, by the problem."""
    odd: list[int] = field(default_factory=list)
    """Lines with unknown values of features."""
    values: dict[str, None] = field(default_factory=dict)
    """Unknown values of features, in their order."""
    broken: list[LineProblem] = field(default_factory=list)
    """Lines whose bytes could not be read as they are."""
    dropped: list[LineProblem] = field(default_factory=list)
    """Lines that are no pairs."""
    long: list[int] = field(default_factory=list)
    """Lines of sources that are longer than in training."""
    refused: list[int] = field(default_factory=list)
    """Lines of sources that are too long for the model."""
    unknown: list[int] = field(default_factory=list)
    """Lines of which most words are unknown to the model."""
    words: dict[str, None] = field(default_factory=dict)
    """Unknown words of these lines, in their order."""
    cut: list[int | str] = field(default_factory=list)
    """Lines, or images, of outputs that were cut at the maximum length, once for each output."""
    num_blank: int = 0
    """Number of rows without a source."""
    num_refused: int = 0
    """Number of sources without an output."""
    num_sources: int = 0
    num_exceptions: int = 0

    @classmethod
    def joined(cls, parts: Iterable[Mapping[str, Any]]) -> Faults:
        """Return the faults of parts in their order. Each is a dictionary as of `asdict`, or as
        JSON has it."""
        faults = cls()
        for part in parts:
            for name, value in part.items():
                present = getattr(faults, name)
                if name in ("broken", "dropped"):
                    present.extend(LineProblem(**problem) for problem in value)
                elif name == "unfit":
                    for problem, lines in value.items():
                        present.setdefault(problem, []).extend(lines)
                elif isinstance(present, dict):
                    present.update(value)
                else:
                    setattr(faults, name, present + value)
        return faults

    def add_problem(self, problem: LineProblem) -> None:
        """Add a line that could not be read as it is, without its text."""
        self.broken.append(replace(problem, text=""))

    def add_error(self, message: str) -> None:
        """Add a source that cannot be read."""
        self.errors.append(message)
        self.num_refused += 1

    def add_image(self, message: str, *, is_named: bool) -> None:
        """Add an image that cannot be read, which the user named, or which is from a folder."""
        (self.errors if is_named else self.images).append(message)
        self.num_refused += 1

    def add_unfit(self, problem: str, line: int) -> None:
        """Add a line that has no output because of this problem."""
        self.unfit.setdefault(problem, []).append(line)
        self.num_refused += 1

    def add_refused(self, line: int) -> None:
        """Add a line that is too long for the model."""
        self.refused.append(line)
        self.num_refused += 1

    def add_rows(self, table: SourceTable | None, sources: Iterable[Source]) -> None:
        """Add the rows of a table that have no source, or more cells than the first row. None: the
        sources are lines."""
        for source in sources:
            row = source.row
            if table is None or row is None:
                continue
            if row.note:
                self.broken.append(LineProblem(str(table.path), row.line, row.note, ""))
            if row.fault in ("many columns", "quotes", "not JSON"):
                (self.without_object if row.fault == "not JSON" else self.shifted).append(row.line)
                self.num_refused += 1
                continue
            self.num_blank += not source.text
            if len(row.cells) > table.width:
                self.wide.append(row.line)

    def fitting(self, form: SourceForm, lines: Iterable[tuple[int, str]]) -> list[str]:
        """Return the sources of numbered lines, with blank sources in place of those that do not
        have the form of the training sources."""
        sources = []
        for line, source in lines:
            self.num_sources += not is_blank_text(source)
            if problem := form.problem_of_line(source):
                self.add_unfit(problem, line)
                sources.append("")
                continue
            if values := form.unknown_values(source):
                _add_words(self.odd, self.values, line, values)
            sources.append(source)
        return sources

    def add_result(
        self,
        line: int,
        result: GeneratedText | Prediction,
        model: TranslationModel | ClassificationModel,
    ) -> None:
        """Add a line that is longer than in training, or has mostly unknown words."""
        if result.is_long:
            self.long.append(line)
        if result.unknown > MOSTLY:
            _add_words(self.unknown, self.words, line, model.unknown_in(result.source))

    @property
    def needs_limits(self) -> bool:
        """Whether a sentence names limits of the model."""
        return bool(self.unfit or self.odd or self.long or self.refused)

    def clear(self) -> None:
        """Forget the lines that are reported, apart from the numbers of sources."""
        for each in fields(self):
            if not isinstance(value := getattr(self, each.name), int):
                value.clear()


def _add_words(lines: list[int], words: dict[str, None], line: int, new: Iterable[str]) -> None:
    """Add a line and its unknown words. Bytes that could not be read have their own report."""
    new = [word for word in new if UNREADABLE not in word]
    if not new:
        return
    lines.append(line)
    if len(words) < WORDS_SHOWN:
        words.update(dict.fromkeys(new))


def sentences(faults: Faults, limits: Limits, table: SourceTable | None = None) -> Iterator[str]:
    """Yield sentences about the faults of lines, of the rows of a table, or of images."""
    yield from faults.errors
    if number := len(faults.images):
        shown = listed(faults.images, IMAGES_SHOWN, "; ")
        yield f"left out {counted(number, 'image')}: {shown}"
    if table is not None:
        yield from _of_rows(faults, table)
    yield from _of_form(faults, limits)
    yield from _of_broken(faults.broken)
    yield from summary_of(faults.dropped)
    if faults.long:
        yield (
            f"{counted(len(faults.long), 'line')} of more than {limits.longest} tokens "
            f"({numbers_of(faults.long)}; data.max_length in training): {limits.long}"
        )
    if faults.refused:
        yield (
            f"{counted(len(faults.refused), 'line')} of more than {limits.most} tokens "
            f"({numbers_of(faults.refused)}): {limits.refused}"
        )
    if faults.unknown:
        shown = ", ".join(islice(dict.fromkeys(map(_shown, faults.words)), WORDS_SHOWN))
        has = "has" if len(faults.unknown) == 1 else "have"
        yield (
            f"{counted(len(faults.unknown), 'line')} {has} mostly unknown words "
            f"({numbers_of(faults.unknown)}): the vocabulary lacks {shown}"
        )
    if number := len(faults.cut):
        yield (
            f"{counted(number, 'output')} {'was' if number == 1 else 'were'} cut at the maximum "
            f"length ({_places(faults.cut)}): raise --max-length, or train the run longer if words "
            "are repeated"
        )


def _of_rows(faults: Faults, table: SourceTable) -> Iterator[str]:
    if titles := table.titles:
        yield titles
    if sheets := ", ".join(table.unread_sheets):
        yield f"{table.path}: sheets that are not read: {sheets} (--sheet NAME)"
    if faults.shifted:
        yield (
            f"{table.path}: {_rows(len(faults.shifted))} more cells than the table has columns, or "
            f"wrong quotes ({numbers_of(faults.shifted)}), and no prediction: quote texts with "
            "commas or other delimiters"
        )
    if faults.without_object:
        yield (
            f"{table.path}: {_rows(len(faults.without_object))} no JSON object "
            f"({numbers_of(faults.without_object)}), and no prediction: correct the line, such as "
            '{"source": "..."}'
        )
    if faults.wide:
        yield (
            f"{table.path}: {_rows(len(faults.wide))} more than {table.width} columns "
            f"({numbers_of(faults.wide)}): their predictions come after these"
        )
    if faults.num_blank:
        yield f"{table.path}: {_rows(faults.num_blank)} no source"


def _of_form(faults: Faults, limits: Limits) -> Iterator[str]:
    for problem, lines in islice(faults.unfit.items(), KINDS_SHOWN):
        yield f"{_have(lines)} {problem}; {limits.unfit}"
    if rest := sorted(chain.from_iterable([*faults.unfit.values()][KINDS_SHOWN:])):
        yield f"{_have(rest)} other problems; {limits.unfit}"
    if faults.odd:
        yield (
            f"{_have(faults.odd)} values of features that are not in the vocabulary: "
            f"{', '.join(map(shorten_name, faults.values))}; "
            f"known: {listed(limits.known_values, VALUES_SHOWN)}"
        )


def _of_broken(problems: Sequence[LineProblem]) -> Iterator[str]:
    """Yield sentences about lines that are not of the encoding, or have NUL characters or a
    byte-order mark."""
    places = LeftOut()
    for problem in problems:
        places.add(problem)
    encodings = {problem.path: problem.encoding for problem in problems}
    for path, kinds in places.places.items():
        for kind, lines in kinds.items():
            number = counted(lines.count, "line")
            if kind == "byte-order mark":
                yield marks_removed(path, lines)
            elif kind in NOTES:
                yield NOTES[kind].format(number, path, lines)
            elif kind == "NUL":
                yield (
                    f"{path}: {number} with NUL characters ({lines}); if the file is UTF-16, save "
                    "it as UTF-8"
                )
            else:
                yield (
                    f"{path}: {number} not in {encodings[path].upper()} ({lines}); bytes that "
                    f"cannot be read became {UNREADABLE}"
                )


def _places(places: Sequence[int | str]) -> str:
    """Return the lines, or the images, without repetitions."""
    lines = list(dict.fromkeys(place for place in places if isinstance(place, int)))
    if lines:
        return numbers_of(lines)
    names = dict.fromkeys(shorten_name(place) for place in places if isinstance(place, str))
    return listed(list(names), IMAGES_SHOWN)


def _have(lines: Sequence[int]) -> str:
    """Return line numbers as the beginning of a sentence."""
    return f"{numbers_of(lines)} {'has' if len(lines) == 1 else 'have'}"


def _rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number} rows have"


def _shown(word: str) -> str:
    """Return a word in quotes, or the name of a space, for which tokenizers write ▁."""
    return f'"{shorten_name(word)}"' if word.strip("▁ ") else "space"
