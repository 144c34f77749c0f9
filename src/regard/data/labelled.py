"""Reading texts with their labels (or numbers), in the forms in which such data are handed round.

    FOLDER/LABEL/anything.txt        a folder for each label, a text in each file
    FILE.csv, FILE.tsv, FILE.txt     a text and its label in columns, with or without names above
    FILE (anything else)             the label, a space, the text: TREC's, and fastText's __label__X

A folder may also hold files or folders whose names have train, dev (or val, valid) and test in
them. What is read is a `Pair` of text and label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from regard.data.lines import Fault, Line, Problem, decoded, open_bytes
from regard.data.table import TableRows
from regard.data.text import Corpus, Pair
from regard.errors import UserError

Part = Literal["train", "dev", "test"]
PART = re.compile(r"(?<![a-z])(?:(train|training)|(dev|val|valid|validation)|(test))(?![a-z])")
TEXT_NAMES = ("text", "sentence", "question", "review", "content", "source")
LABEL_NAMES = ("label", "class", "category", "target", "answer", "value")
FASTTEXT = "__label__"
OLDER = "latin-1"
"""What lines that are not UTF-8 are in."""
COLUMNS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table, where they are none of the usual ones."""

    text: str | None = None
    label: str | None = None


def parts_of(path: Path) -> dict[Part, Path]:
    """Where the parts of some data lie: of a folder what its entries' names say, of anything else
    the whole for training. UserError where a folder has two for one part."""
    if not path.is_dir():
        return {"train": path}
    found: dict[Part, Path] = {}
    for entry in sorted(each for each in path.iterdir() if not each.name.startswith(".")):
        match = PART.search(entry.name.lower())
        if match is None:
            continue
        part: Part = "train" if match[1] else "dev" if match[2] else "test"
        if part in found:
            raise UserError(
                f"{path} has two files for {part}: {found[part].name} and {entry.name}. Name one "
                "with --data.path"
            )
        found[part] = entry
    return found if "train" in found else {"train": path}


def read_labelled(path: Path, columns: Columns | None = None) -> Corpus:
    """All examples of a file or of a folder with a folder for each label.

    A line that is blank, or lacks its label or its text, is left out and listed. One that is not
    UTF-8 is read as Latin-1, which older collections are in. UserError where there is nothing to
    read.
    """
    found = _folders(path) if path.is_dir() else _rows(path, columns or Columns())
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for each in found:
        if isinstance(each, Pair):
            pairs.append(each)
        else:
            problems.append(each)
    corpus = Corpus(tuple(pairs), tuple(problems))
    if not pairs:
        why = "; ".join(corpus.summary()) or "it is empty"
        raise UserError(
            f"no examples in {path}: {why}. Expected a text, a tab and its label on each line, a "
            ".csv, or the label first with a space after it"
        )
    return corpus


def _folders(path: Path) -> Iterator[Pair | Problem]:
    """A text in each file of a folder for each label."""
    number = 0
    for folder in sorted(each for each in path.iterdir() if each.is_dir()):
        for file in sorted(each for each in folder.iterdir() if each.is_file()):
            number += 1
            with open_bytes(file) as opened:
                text = " ".join(_text(opened.read()).split())
            if text:
                yield Pair(text, folder.name, number)
            else:
                yield Problem(str(file), 1, "blank", text)
    if not number:
        raise UserError(
            f"{path} holds no folder with files: expected a folder for each label, or files whose "
            "names say train, dev and test"
        )


def _rows(path: Path, columns: Columns) -> Iterator[Pair | Problem]:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    with open_bytes(path) as file:
        lines = decoded(file, path, otherwise=OLDER)
        first = next(lines, None)
        if first is None:
            return
        separator = COLUMNS.get(suffix) or ("\t" if "\t" in first.text else None)
        if separator is None and (columns.text or columns.label):
            raise UserError(f"{path} has no columns to be named: expected .csv, .tsv, or tabs")
        lines = chain([first], lines)
        if separator is None:
            yield from (_label_first(line, path) for line in lines)
        else:
            yield from _table(lines, separator, path, columns)


def _table(
    lines: Iterator[Line], separator: str, path: Path, columns: Columns
) -> Iterator[Pair | Problem]:
    """The rows of a table: by the names that stand above, or else text, then label."""
    rows = TableRows(lines, path, separator)
    head = next(iter(rows), None)
    if head is None:
        return
    places = _named_places(head, columns, path)
    if places is None:
        yield _row(head, (0, 1), rows.line, path)
    for row in rows:
        yield _row(row, places or (0, 1), rows.line, path)


def _named_places(head: list[str], columns: Columns, path: Path) -> tuple[int, int] | None:
    """The places of text and label by the names in the first row; None where these are no names."""
    names = [cell.strip().lower() for cell in head]
    places = []
    for wanted, usual, flag in (
        (columns.text, TEXT_NAMES, "text"),
        (columns.label, LABEL_NAMES, "label"),
    ):
        if wanted is not None and wanted.lower() not in names:
            raise UserError(
                f"{path} has no column {wanted!r} (--data.{flag}-column): its first row is "
                f"{', '.join(head)}"
            )
        known = [wanted.lower()] if wanted is not None else list(usual)
        places.append(next((names.index(name) for name in known if name in names), None))
    text, label = places
    if text is None or label is None:
        if columns.text or columns.label:
            missing = "label" if label is None else "text"
            raise UserError(f"{path}: name its other column too, with --data.{missing}-column")
        return None
    return text, label


def _row(row: list[str], places: tuple[int, int], line: int, path: Path) -> Pair | Problem:
    if len(row) <= max(places):
        kind: Fault = "one column" if any(cell.strip() for cell in row) else "blank"
        return Problem(str(path), line, kind, " ".join(row))
    text, label = (" ".join(row[place].split()) for place in places)
    if not text or not label:
        return Problem(str(path), line, "blank", " ".join(row))
    return Pair(text, label, line)


def _label_first(line: Line, path: Path) -> Pair | Problem:
    label, _, text = line.text.strip().partition(" ")
    text = " ".join(text.split())
    if not text:
        kind: Fault = "one column" if label else "blank"
        return Problem(str(path), line.number, kind, line.text)
    return Pair(text, label.removeprefix(FASTTEXT), line.number)


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode(OLDER)
