"""Readers of texts with labels (or numbers), in the usual formats.

    FLEGACY_ENCODING/LABEL/anything.txt        one folder for each label, one text in each file
    FILE.csv, FILE.tsv, FILE.txt     text and label in columns, with or without a header
    FILE (anything else)             label, space, text: TREC, and fastText's __label__X

A folder may also hold files or folders with train, dev (or val, valid) and test in their names.
Each example is a `Pair` of text and label.
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
    LEGACY_ENCODING,
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
from regard.names import Fault, SplitName

SPLIT = re.compile(r"(?<![a-z])(?:(train|training)|(dev|val|valid|validation)|(test))(?![a-z])")
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


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a table, if they are not among the usual names. Several label columns
    are the numbers of one target."""

    text: str | None = None
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _ColumnNumbers:
    """Numbers of the columns that are read."""

    text: int
    labels: tuple[int, ...]


def split_files(path: Path) -> dict[SplitName, Path]:
    """Return the path of each split. The entries of a folder are recognised by their names; without
    a training entry, and for a file, the whole path is the training split. UserError if a folder
    has two entries for one split."""
    if not path.is_dir():
        return {"train": path}
    entries: dict[SplitName, Path] = {}
    for entry in sorted(entry for entry in path.iterdir() if not entry.name.startswith(".")):
        match = SPLIT.search(entry.name.lower())
        if match is None:
            continue
        split: SplitName = "train" if match[1] else "dev" if match[2] else "test"
        if split in entries:
            raise UserError(
                f"{path} has two files for {split}: {entries[split].name} and {entry.name}. Name "
                "one with --data.path"
            )
        entries[split] = entry
    return entries if "train" in entries else {"train": path}


def read_labelled(
    path: Path, columns: Columns | None = None, known: Set[str] | None = frozenset()
) -> Corpus:
    """Read all examples of a file, or of a folder with one folder for each label.

    Lines that are blank, have a NUL, or lack their label or text are dropped and listed. Lines that
    are not UTF-8 are read as Latin-1, the encoding of older collections. UserError if there are no
    examples, or if the first row of a table is probably a header with unusual names: its second
    field is no label of another row. Labels in `known`, such as those of the training data, are
    never read as names. If `known` is None, targets are numbers and the header is not checked.
    """
    corpus = _folders(path) if path.is_dir() else _file(path, columns or Columns(), known)
    if not corpus.pairs:
        reason = "; ".join(corpus.left_out.summary()) or "it is empty"
        raise UserError(
            f"no examples in {path}: {reason}. Expected lines of text TAB label, a .csv, or lines "
            "of label SPACE text"
        )
    return corpus


def _folders(path: Path) -> Corpus:
    """Read a folder with one folder for each label and one text in each file."""
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir())
    files = [file for folder in folders for file in sorted(folder.iterdir()) if file.is_file()]
    if not files:
        raise UserError(
            f"{path} has no folder with files: expected one folder for each label, or files with "
            "train, dev and test in their names"
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
        lines = counting_marks(decoded(file, path, otherwise=LEGACY_ENCODING), marks)
        first = next(lines, None)
        if first is None:
            return Corpus(())
        separator = SEPARATORS.get(suffix_of(path)) or ("\t" if "\t" in first.text else None)
        lines = chain([first], lines)
        if separator is not None:
            corpus = _table(lines, separator, path, columns, known)
        elif columns.text or columns.labels:
            raise UserError(f"{path} has no columns: expected .csv, .tsv, or tabs between columns")
        else:
            corpus = Corpus.of(_label_first(line, path) for line in lines)
    if not marks.count:
        return corpus
    return replace(corpus, remarks=(*corpus.remarks, marks_removed(path, marks)))


def _table(
    lines: Iterator[Line], separator: str, path: Path, columns: Columns, known: Set[str] | None
) -> Corpus:
    """Read a table by the names in its header; without a header, text comes before label."""
    reader = TableRows(lines, path, separator)
    rows = [(reader.line, row) for row in reader]
    if not rows:
        return Corpus(())
    (_, head), *body = rows
    named = _named_columns(head, [row for _, row in body], columns, path)
    if named is None and known is not None:
        _check_no_names(head, [row for _, row in body], known, path)
    numbers = named or _ColumnNumbers(0, (1,))
    return Corpus.of(
        (_row(row, numbers, line, path) for line, row in (body if named else rows)),
        _unused(head, named, path),
    )


def _named_columns(
    head: Sequence[str], body: Sequence[Sequence[str]], columns: Columns, path: Path
) -> _ColumnNumbers | None:
    """Return the columns of text and labels by the names in the first row; None if the first row is
    not a header."""
    wanted = ("text", (columns.text,) if columns.text else ()), ("label", columns.labels or ())
    for flag, names in wanted:
        for name in names:
            if find_column(head, [name]) is None:
                raise UserError(
                    f"{path} has no column {name!r} (--data.{flag}-column): the first row is "
                    f"{_shown(head)}"
                )
    (_, texts), (_, labels) = wanted
    usual = [name for name in TEXT_NAMES if name not in map(str.lower, labels)]
    text = find_column(head, texts or usual)
    matches = [find_column(head, [name]) for name in labels] or [find_column(head, LABEL_NAMES)]
    numbers = tuple(number for number in matches if number is not None)
    if text is not None and numbers:
        return _ColumnNumbers(text, numbers)
    known = numbers[0] if text is None and numbers else text
    if known is None or not (texts or labels or _is_name(known, head, body)):
        return None
    present, missing = ("text", "label") if numbers == () else ("label", "text")
    raise UserError(
        f"{path}: the first row is {_shown(head)}, where {head[known][:40]!r} names the {present} "
        f"column: name the {missing} column with --data.{missing}-column (evaluate: "
        f"--{missing}-column); if the first row is an example, put a header above it"
    )


def _is_name(number: int, head: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether a field of the first row is a name: labels occur again, names do not."""
    return not any(len(row) > number and row[number] == head[number] for row in body)


def _check_no_names(
    head: Sequence[str], body: Sequence[Sequence[str]], known: Set[str], path: Path
) -> None:
    """Raise a UserError if the first row has a label that occurs in no other row, while other
    labels repeat: such a row is probably a header with unusual names. Numbers are never names."""
    label = head[1].strip() if len(head) > 1 else ""
    if not label or label in known or _is_number(label):
        return
    counts = Counter(row[1].strip() for row in body if len(row) > 1)
    if not counts[label] and max(counts.values(), default=0) > 1:
        text = head[0].strip()
        raise UserError(
            f"{path}: the first row is {_shown(head)}, and no other row has the label "
            f"{label[:40]!r}. If it is a header, name the columns with --data.text-column "
            f"{text[:40]!r} --data.label-column {label[:40]!r} (evaluate: --text-column, "
            "--label-column); if it is an example, put a header above it"
        )


def _shown(cells: Sequence[str]) -> str:
    """Return the fields of a row as text for a message."""
    shown = ", ".join(" ".join(cell.split())[:40] for cell in cells[:20])
    return f"{shown}, …" if len(cells) > 20 else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unused(head: Sequence[str], named: _ColumnNumbers | None, path: Path) -> tuple[str, ...]:
    """Return a sentence about columns that are not read, if there are any."""
    if named is None:
        if len(head) <= 2:
            return ()
        return (
            f"{path} has {len(head)} columns and no header: the first is read as text, the second "
            "as label",
        )
    used = {named.text, *named.labels}
    names = [cell for number, cell in enumerate(head) if number not in used]
    return (f"columns of {path} that are not read: {_shown(names)}",) if names else ()


def _row(row: Sequence[str], numbers: _ColumnNumbers, line: int, path: Path) -> Pair | LineProblem:
    if len(row) <= max(numbers.text, *numbers.labels):
        kind: Fault = "one column" if any(cell.strip() for cell in row) else "blank"
        return LineProblem(str(path), line, kind, " ".join(row))
    if any("\0" in cell for cell in row):
        return LineProblem(str(path), line, "NUL", " ".join(row))
    text = " ".join(row[numbers.text].split())
    labels = [" ".join(row[number].split()) for number in numbers.labels]
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
        return content.decode(LEGACY_ENCODING)
