"""Reading pictures' captions, in the forms in which such data are handed round.

    FILE.csv, captions.txt       file,caption, with names above
    Flickr8k.token.txt           name.jpg#0, a tab, a caption; beside it lists of names of each part
    dataset.json                 Karpathy's splits: images with sentences and the part of each
    captions_*.json              COCO: images and annotations

What is read is a `Pair` of a picture's file and a caption. A picture has as many pairs as captions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from regard.data.examples import Corpus, Pair
from regard.data.files.lines import (
    Line,
    LineNumbers,
    LineProblem,
    counting_marks,
    decoded,
    marks_removed,
)
from regard.data.files.tables import SEPARATORS, TableRows, find_column, suffix_of
from regard.errors import UserError
from regard.files import open_bytes, read_bytes
from regard.names import SplitName

FILE_NAMES = ("file", "image", "filename", "file_name", "path", "picture", "image_name")
CAPTION_NAMES = ("caption", "text", "sentence", "description", "comment")
PARTS: dict[str, SplitName] = {
    "train": "train",
    "restval": "train",
    "val": "dev",
    "dev": "dev",
    "test": "test",
}
"""What Karpathy's splits call them, and what they are here."""
OLDER = "latin-1"
"""What lines that are not UTF-8 are in."""

NO_PAIRS = Corpus(())
MAX_JSON = 1 << 29
"""Largest number of bytes of a JSON file. COCO's training captions have 90 million."""


@dataclass(frozen=True)
class Captions:
    """Pairs for each part; where the data say nothing of parts all are for training. What is said
    of the whole is said of those for training."""

    train: Corpus
    dev: Corpus = NO_PAIRS
    test: Corpus = NO_PAIRS

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Those of all parts."""
        return self.train.pairs + self.dev.pairs + self.test.pairs

    @property
    def to_score(self) -> Corpus:
        """Those for a test, or else for dev, or else all. It says which, where there are parts."""
        if self.test.pairs:
            return replace(self.test, remarks=("scored on the captions for test",))
        if self.dev.pairs:
            return replace(self.dev, remarks=("scored on the captions for dev: none are for test",))
        return self.train


@dataclass(frozen=True)
class Lists:
    """Files that name the pictures of each part, a line each."""

    train: Path | None = None
    dev: Path | None = None
    test: Path | None = None


def read_captions(path: Path, pictures: Path | None = None, lists: Lists | None = None) -> Captions:
    """Read a file of captions. `pictures` is the folder that names in it are of, else its own.
    `lists` deal the pictures out anew, whatever the file says of parts; without a list for
    training all that no other names are for it.

    Where pictures lie is looked up later, when they are read. Blank captions, and those with a NUL
    in them or in the name, are left out and listed. UserError where the file is in none of the
    forms, or holds no captions; where a list names none of its pictures, or two lists name one."""
    folder = (pictures or path.parent).absolute()
    try:
        found = _json(path, folder) if suffix_of(path) == ".json" else _lines(path, folder)
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    if not found.pairs:
        why = "; ".join(found.train.summary())
        raise UserError(f"{path} holds no captions{why and f': {why}'}")
    return found if lists in (None, Lists()) else _dealt(found, lists, path)


def _lines(path: Path, folder: Path) -> Captions:
    marks = LineNumbers()
    with open_bytes(path) as file:
        lines = counting_marks(decoded(file, path, otherwise=OLDER), marks)
        first = next(lines, None)
        if first is None:
            return Captions(NO_PAIRS)
        separator = SEPARATORS.get(suffix_of(path))
        if separator is None and _named_places(first.text.split(",")):
            separator = ","
        lines = chain([first], lines)
        found = (
            _table(lines, path, folder, separator) if separator else _tokens(lines, path, folder)
        )
        corpus = Corpus.of(found)
    remarks = (marks_removed(path, marks),) if marks.count else ()
    return Captions(replace(corpus, remarks=remarks))


def _table(
    lines: Iterable[Line], path: Path, folder: Path, separator: str
) -> Iterator[Pair | LineProblem]:
    """Columns with names above them; without names, the file first."""
    rows = TableRows(lines, path, separator)
    places: tuple[int, int] | None = None
    for row in rows:
        if places is None:
            named = _named_places(row)
            places = named or (0, 1)
            if named:
                continue
            if not Path(row[0].strip() if row else "").suffix:
                raise UserError(
                    f"{path}: the first row is {separator.join(row)[:60]!r}: expected the names of "
                    f"two columns, such as file and caption, or a picture's file and its caption"
                )
        if len(row) > max(places):
            name, caption = (row[place].strip() for place in places)
            yield _pair(path, folder, name, caption, rows.line)
        elif any(cell.strip() for cell in row):
            raise UserError(
                f"{path}, line {rows.line}: expected a file and a caption, but "
                f"{separator.join(row)[:60]!r} came"
            )
        else:
            yield LineProblem(str(path), rows.line, "blank", "")


def _named_places(row: Sequence[str]) -> tuple[int, int] | None:
    """Where file and caption are, by the names of their columns; None where these are no names."""
    file, caption = find_column(row, FILE_NAMES), find_column(row, CAPTION_NAMES)
    return None if file is None or caption is None else (file, caption)


def _tokens(lines: Iterable[Line], path: Path, folder: Path) -> Iterator[Pair | LineProblem]:
    """Flickr8k's: the number of the caption follows the picture's name."""
    for line in lines:
        name, tab, caption = line.text.partition("\t")
        if line.text.strip() and not tab:
            raise UserError(
                f"{path}, line {line.number}: expected a picture's name, a tab and a caption, "
                f"but {line.text[:60]!r} came"
            )
        yield _pair(path, folder, name.rpartition("#")[0] or name, caption, line.number)


def _pair(path: Path, folder: Path, name: str, caption: str, line: int) -> Pair | LineProblem:
    caption = " ".join(caption.split())
    if "\0" in name + caption:
        return LineProblem(str(path), line, "NUL", f"{name} {caption}")
    if not name.strip() or not caption:
        return LineProblem(str(path), line, "blank", f"{name} {caption}")
    return Pair(str(folder / name), caption, line, str(path))


def _json(path: Path, folder: Path) -> Captions:
    content = read_bytes(path, MAX_JSON)
    try:
        page = json.loads(content)
        is_karpathys = all("sentences" in image for image in page["images"])
        captions = list(_karpathy(page) if is_karpathys else _coco(page))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{path} is neither Karpathy's JSON nor COCO's captions: {repr(error)[:200]}"
        ) from error
    parts: dict[SplitName, list[Pair]] = {"train": [], "dev": [], "test": []}
    num_blank = num_broken = 0
    for number, said in enumerate(captions, start=1):
        source = str(folder / said.picture)
        if not said.text:
            num_blank += 1
        elif _is_broken(source) or _is_broken(said.text):
            num_broken += 1
        else:
            parts[said.part].append(Pair(source, said.text, number, str(path)))
    remarks = tuple(
        f"left out {count} of the captions of {path}, which {fault}"
        for count, fault in (
            (num_blank, "are blank"),
            (num_broken, "have NUL characters or halves of surrogate pairs"),
        )
        if count
    )
    train, dev, test = (Corpus(tuple(parts[part])) for part in ("train", "dev", "test"))
    return Captions(replace(train, remarks=remarks), dev, test)


def _is_broken(text: str) -> bool:
    """Whether a text cannot be written as UTF-8, or be part of a file's name."""
    return "\0" in text or not _is_utf8(text)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class _Said:
    """A caption of a page."""

    part: SplitName
    picture: str
    text: str

    @classmethod
    def of(cls, part: SplitName, picture: object, text: object) -> _Said:
        """TypeError if name or caption is no text. Byte-order marks are removed."""
        if not isinstance(picture, str) or not isinstance(text, str):
            raise TypeError(f"expected a file name and a caption, got {picture!r} and {text!r}")
        picture, text = (each.replace("\ufeff", "") for each in (picture, text))
        return cls(part, picture, " ".join(text.split()))


def _karpathy(page: Any) -> Iterator[_Said]:
    for image in page["images"]:
        part = PARTS[image.get("split", "train")]
        picture = str(Path(image.get("filepath", "")) / image["filename"])
        for sentence in image["sentences"]:
            yield _Said.of(part, picture, sentence["raw"])


def _coco(page: Any) -> Iterator[_Said]:
    names = {image["id"]: image["file_name"] for image in page["images"]}
    for each in page["annotations"]:
        yield _Said.of("train", names[each["image_id"]], each["caption"])


@dataclass(frozen=True)
class _List:
    """The names of some pictures, in their order, and the file that lists them."""

    path: Path
    names: dict[str, None]

    @classmethod
    def read(cls, path: Path | None) -> _List | None:
        if path is None:
            return None
        with open_bytes(path) as file:
            lines = (line.text.strip() for line in decoded(file, path, otherwise=OLDER))
            return cls(path, dict.fromkeys(Path(line).name for line in lines if line))

    def check(self, pictures: dict[str, None], path: Path) -> tuple[str, ...]:
        """A sentence about names of no picture; UserError where all are."""
        unknown = [name for name in self.names if name not in pictures]
        if len(unknown) == len(self.names):
            has = f"it has {unknown[0]!r}" if unknown else "it is empty"
            raise UserError(
                f"{self.path} names no picture of {path}: {has}, where names such as "
                f"{next(iter(pictures))!r} were expected, a line each"
            )
        if not unknown:
            return ()
        return (
            f"{len(unknown)} of the {len(self.names)} names in {self.path} are of no picture of "
            f"{path}, such as {unknown[0]!r}",
        )


def _dealt(found: Captions, lists: Lists, path: Path) -> Captions:
    """The pairs of the pictures that each list names."""
    pictures = dict.fromkeys(Path(pair.source).name for pair in found.pairs)
    train, dev, test = (_List.read(each) for each in (lists.train, lists.dev, lists.test))
    given = [each for each in (train, dev, test) if each is not None]
    remarks = found.train.remarks
    if found.dev.pairs or found.test.pairs:
        remarks += (f"the parts that {path} has are not used, as there are lists of pictures",)
    for each in given:
        remarks += each.check(pictures, path)
    for one, other in combinations(given, 2):
        if twice := [name for name in one.names if name in other.names]:
            raise UserError(
                f"{one.path} and {other.path} both name {twice[0]!r}: a picture can be in one part "
                "only"
            )
    others = {name for each in given for name in each.names}
    rest = dict.fromkeys(name for name in pictures if name not in others)

    def named(names: dict[str, None]) -> tuple[Pair, ...]:
        return tuple(pair for pair in found.pairs if Path(pair.source).name in names)

    return Captions(
        Corpus(named(rest if train is None else train.names), found.train.problems, remarks),
        Corpus(named({} if dev is None else dev.names)),
        Corpus(named({} if test is None else test.names)),
    )
