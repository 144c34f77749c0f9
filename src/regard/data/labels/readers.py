"""Reading texts with their labels (or numbers), in the forms in which such data are handed round.

    FOLDER/LABEL/anything.txt        a folder for each label, a text in each file
    FILE.csv, FILE.tsv, FILE.txt     a text and its label in columns, with or without names above
    FILE (anything else)             the label, a space, the text: TREC's, and fastText's __label__X

A folder may also hold files or folders whose names have train, dev (or val, valid) and test in
them. What is read is a `Pair` of text and label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from regard.data.examples import Corpus, Pair
from regard.data.files.lines import (
    Fault,
    Line,
    LineNumbers,
    LineProblem,
    check_beginning,
    counting_marks,
    decoded,
    marks_removed,
)
from regard.data.files.tables import SEPARATORS, TableRows, find_column, suffix_of
from regard.errors import UserError
from regard.files import open_bytes, read_bytes
from regard.names import SplitName

PART = re.compile(r"(?<![a-z])(?:(train|training)|(dev|val|valid|validation)|(test))(?![a-z])")
# fmt: off
TEXT_NAMES = (
    "text", "sentence", "question", "review", "content", "comment", "message", "tweet", "body",
    "post", "utterance", "query", "document", "description", "source", "headline", "title",
)
LABEL_NAMES = (
    "label", "labels", "class", "category", "target", "answer", "value", "sentiment", "rating",
    "stars", "score", "tag", "intent", "topic", "polarity", "emotion", "language", "y",
)
# fmt: on
FASTTEXT = "__label__"
OLDER = "latin-1"
"""What lines that are not UTF-8 are in."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table, where they are none of the usual ones. Several labels
    are numbers that are asked for together."""

    text: str | None = None
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _Chosen:
    """The columns that are read, by their numbers."""

    text: int
    labels: tuple[int, ...]


def split_files(path: Path) -> dict[SplitName, Path]:
    """Where the parts of some data lie: of a folder what its entries' names say, of anything else
    the whole for training. UserError where a folder has two for one part."""
    if not path.is_dir():
        return {"train": path}
    found: dict[SplitName, Path] = {}
    for entry in sorted(each for each in path.iterdir() if not each.name.startswith(".")):
        match = PART.search(entry.name.lower())
        if match is None:
            continue
        part: SplitName = "train" if match[1] else "dev" if match[2] else "test"
        if part in found:
            raise UserError(
                f"{path} has two files for {part}: {found[part].name} and {entry.name}. Name one "
                "with --data.path"
            )
        found[part] = entry
    return found if "train" in found else {"train": path}


def read_labelled(
    path: Path, columns: Columns | None = None, known: Set[str] | None = frozenset()
) -> Corpus:
    """All examples of a file or of a folder with a folder for each label.

    A line that is blank, has a NUL, or lacks its label or its text, is left out and listed. One
    that is not UTF-8 is read as Latin-1, which older collections are in. UserError where there is
    nothing to read, or where the first row of a table seems to hold the names of columns: two
    unusual names, of which the second comes again nowhere as a label. `known` are labels that are
    surely no names: those of the training data. None: answers are numbers, and this is not
    checked.
    """
    corpus = _folders(path) if path.is_dir() else _file(path, columns or Columns(), known)
    if not corpus.pairs:
        why = "; ".join(corpus.left_out.summary()) or "it is empty"
        raise UserError(
            f"no examples in {path}: {why}. Expected a text, a tab and its label on each line, a "
            ".csv, or the label first with a space after it"
        )
    return corpus


def _folders(path: Path) -> Corpus:
    """A text in each file of a folder for each label."""
    folders = sorted(each for each in path.iterdir() if each.is_dir())
    files = [each for folder in folders for each in sorted(folder.iterdir()) if each.is_file()]
    if not files:
        raise UserError(
            f"{path} holds no folder with files: expected a folder for each label, or files whose "
            "names say train, dev and test"
        )
    return Corpus.of(map(_whole, files))


def _whole(file: Path) -> Pair | LineProblem:
    content = read_bytes(file)
    check_beginning(content[:4096], file)
    text = " ".join(_text(content).replace("\ufeff", "").split())
    if "\0" in text:
        return LineProblem(str(file), 1, "NUL", text)
    if not text:
        return LineProblem(str(file), 1, "blank", text)
    return Pair(text, file.parent.name, 1, str(file))


def _file(path: Path, columns: Columns, known: Set[str] | None) -> Corpus:
    marks = LineNumbers()
    with open_bytes(path) as file:
        lines = counting_marks(decoded(file, path, otherwise=OLDER), marks)
        first = next(lines, None)
        if first is None:
            return Corpus(())
        separator = SEPARATORS.get(suffix_of(path)) or ("\t" if "\t" in first.text else None)
        lines = chain([first], lines)
        if separator is not None:
            corpus = _table(lines, separator, path, columns, known)
        elif columns.text or columns.labels:
            raise UserError(f"{path} has no columns to be named: expected .csv, .tsv, or tabs")
        else:
            corpus = Corpus.of(_label_first(line, path) for line in lines)
    if not marks.count:
        return corpus
    return replace(corpus, remarks=(*corpus.remarks, marks_removed(path, marks)))


def _table(
    lines: Iterator[Line], separator: str, path: Path, columns: Columns, known: Set[str] | None
) -> Corpus:
    """The rows of a table: by the names that stand above, or else text, then label."""
    reader = TableRows(lines, path, separator)
    rows = [(reader.line, row) for row in reader]
    if not rows:
        return Corpus(())
    (_, head), *others = rows
    named = _named_places(head, [row for _, row in others], columns, path)
    if named is None and known is not None:
        _check_no_names(head, [row for _, row in others], known, path)
    places = named or _Chosen(0, (1,))
    return Corpus.of(
        (_row(row, places, line, path) for line, row in (others if named else rows)),
        _unused(head, named, path),
    )


def _named_places(
    head: Sequence[str], others: Sequence[Sequence[str]], columns: Columns, path: Path
) -> _Chosen | None:
    """Where text and labels are by the names in the first row; None where these are no names."""
    wanted = ("text", (columns.text,) if columns.text else ()), ("label", columns.labels or ())
    for flag, names in wanted:
        for name in names:
            if find_column(head, [name]) is None:
                raise UserError(
                    f"{path} has no column {name!r} (--data.{flag}-column): its first row is "
                    f"{_shown(head)}"
                )
    (_, texts), (_, labels) = wanted
    usual = [name for name in TEXT_NAMES if name not in map(str.lower, labels)]
    text = find_column(head, texts or usual)
    found = [find_column(head, [name]) for name in labels] or [find_column(head, LABEL_NAMES)]
    places = tuple(place for place in found if place is not None)
    if text is not None and places:
        return _Chosen(text, places)
    known = places[0] if text is None and places else text
    if known is None or not (texts or labels or _is_name(known, head, others)):
        return None
    has, lacks = ("text", "label") if places == () else ("label", "text")
    raise UserError(
        f"{path}: the first row is {_shown(head)}, where {head[known][:40]!r} names the {has}s: "
        f"name its other column too, with --data.{lacks}-column (evaluate: --{lacks}-column), or "
        "put a row with text and label above it if it is an example"
    )


def _is_name(place: int, head: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Labels come again further down, names do not."""
    return not any(len(row) > place and row[place] == head[place] for row in others)


def _check_no_names(
    head: Sequence[str], others: Sequence[Sequence[str]], known: Set[str], path: Path
) -> None:
    """UserError if the first row, read as text and label, has a label that comes again nowhere,
    while other labels do: it is likelier to hold two unusual names of columns. Numbers are no
    names."""
    label = head[1].strip() if len(head) > 1 else ""
    if not label or label in known or _is_number(label):
        return
    counts = Counter(row[1].strip() for row in others if len(row) > 1)
    if not counts[label] and max(counts.values(), default=0) > 1:
        text = head[0].strip()
        raise UserError(
            f"{path}: the first row is {_shown(head)}, and no other row has the label "
            f"{label[:40]!r}. If these are names, name the columns with --data.text-column "
            f"{text[:40]!r} --data.label-column {label[:40]!r} (evaluate: --text-column, "
            "--label-column); if it is an example, put a row with text and label above it"
        )


def _shown(cells: Sequence[str]) -> str:
    """The cells of a row as part of a line."""
    shown = ", ".join(" ".join(cell.split())[:40] for cell in cells[:20])
    return f"{shown}, …" if len(cells) > 20 else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unused(head: Sequence[str], named: _Chosen | None, path: Path) -> tuple[str, ...]:
    """A sentence about columns that are not read, if there are any."""
    if named is None:
        if len(head) <= 2:
            return ()
        return (
            f"{path} has {len(head)} columns without names above: the first is read as the text, "
            "the second as its label",
        )
    used = {named.text, *named.labels}
    names = [cell for place, cell in enumerate(head) if place not in used]
    return (f"not used of {path}: {_shown(names)}",) if names else ()


def _row(row: Sequence[str], places: _Chosen, line: int, path: Path) -> Pair | LineProblem:
    if len(row) <= max(places.text, *places.labels):
        kind: Fault = "one column" if any(cell.strip() for cell in row) else "blank"
        return LineProblem(str(path), line, kind, " ".join(row))
    if any("\0" in cell for cell in row):
        return LineProblem(str(path), line, "NUL", " ".join(row))
    text = " ".join(row[places.text].split())
    labels = [" ".join(row[place].split()) for place in places.labels]
    if not text or not all(labels):
        return LineProblem(str(path), line, "blank", " ".join(row))
    return Pair(text, " ".join(labels), line, str(path))


def _label_first(line: Line, path: Path) -> Pair | LineProblem:
    if line.fault:
        return LineProblem(str(path), line.number, line.fault, line.text)
    label, _, text = line.text.strip().partition(" ")
    text = " ".join(text.split())
    if not text:
        kind: Fault = "one column" if label else "blank"
        return LineProblem(str(path), line.number, kind, line.text)
    return Pair(text, label.removeprefix(FASTTEXT), line.number, str(path))


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode(OLDER)
