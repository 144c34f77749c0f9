"""Reading pictures' captions, in the forms in which such data are handed round.

    FILE.csv                 file,caption, with names above
    Flickr8k.token.txt       name.jpg#0, a tab, a caption; beside it lists of names for each part
    dataset.json             Karpathy's splits: images with sentences and the part of each
    captions_*.json          COCO: images and annotations

What is read is a `Pair` of a picture's file and a caption. A picture has as many pairs as captions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.lines import decoded, open_bytes
from regard.data.table import TableRows
from regard.data.text import Pair
from regard.errors import UserError

FILE_NAMES = ("file", "image", "filename", "file_name", "path", "picture", "image_name")
CAPTION_NAMES = ("caption", "text", "sentence", "description", "comment")
PARTS = {"train": "train", "restval": "train", "val": "dev", "dev": "dev", "test": "test"}
"""What Karpathy's splits call them, and what they are here."""


@dataclass(frozen=True)
class Captions:
    """Pairs for each part; where the data say nothing of parts all are for training."""

    parts: Mapping[str, tuple[Pair, ...]]

    @property
    def train(self) -> tuple[Pair, ...]:
        return self.parts["train"]


def read_captions(
    path: Path, pictures: Path | None = None, lists: Mapping[str, Path | None] | None = None
) -> Captions:
    """Read a file of captions. `pictures` is the folder that names in it are of, else its own;
    `lists` are files that name the pictures of each part, train, dev and test, a line each.

    Where pictures lie is looked up later, when they are read. UserError where the file is in none
    of the forms, or holds no captions."""
    folder = pictures or path.parent
    try:
        if path.suffix.lower() == ".json":
            found = _json(path, folder)
        elif path.suffix.lower() in (".csv", ".tsv"):
            found = {"train": tuple(_table(path, folder))}
        else:
            found = {"train": tuple(_tokens(path, folder))}
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    if not found.get("train"):
        raise UserError(f"{path} holds no captions to train on")
    given = {part: named for part, named in (lists or {}).items() if named is not None}
    return Captions(_dealt(found["train"], given) if given else found)


def _table(path: Path, folder: Path) -> Iterator[Pair]:
    """Columns with names above them; without names, the file first."""
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with open_bytes(path) as file:
        rows = TableRows(decoded(file, path, otherwise="latin-1"), path, separator)
        places: tuple[int, int] | None = None
        for row in rows:
            if places is None:
                named = _named_places(row)
                places = named or (0, 1)
                if named:
                    continue
            if len(row) > max(places):
                name, caption = (row[place].strip() for place in places)
                if name and caption:
                    yield _pair(folder, name, caption, rows.line)
            elif any(cell.strip() for cell in row):
                raise UserError(
                    f"{path}, line {rows.line}: expected a file and a caption, but "
                    f"{separator.join(row)[:60]!r} came"
                )


def _named_places(row: Sequence[str]) -> tuple[int, int] | None:
    """Where file and caption are, by the names of their columns; None where these are no names."""
    names = [cell.strip().lower() for cell in row]
    file, caption = (
        next((names.index(name) for name in usual if name in names), None)
        for usual in (FILE_NAMES, CAPTION_NAMES)
    )
    return None if file is None or caption is None else (file, caption)


def _tokens(path: Path, folder: Path) -> Iterator[Pair]:
    """Flickr8k's: the number of the caption follows the picture's name."""
    with open_bytes(path) as file:
        for line in decoded(file, path, otherwise="latin-1"):
            name, tab, caption = line.text.partition("\t")
            if not line.text.strip():
                continue
            if not tab:
                raise UserError(
                    f"{path}, line {line.number}: expected a picture's name, a tab and a caption, "
                    f"but {line.text[:60]!r} came"
                )
            if caption.strip():
                yield _pair(folder, name.rpartition("#")[0] or name, caption, line.number)


def _json(path: Path, folder: Path) -> dict[str, tuple[Pair, ...]]:
    with open_bytes(path) as file:
        try:
            page = json.loads(file.read())
            found = dict(_karpathy(page, folder))
            return found or {"train": tuple(_coco(page, folder))}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path} is neither Karpathy's JSON nor COCO's captions: {error!r}"
            ) from error


def _karpathy(page: Any, folder: Path) -> Iterator[tuple[str, tuple[Pair, ...]]]:
    """Nothing where the page is in another form."""
    if not all("sentences" in image for image in page["images"]):
        return
    found: dict[str, list[Pair]] = {}
    for image in page["images"]:
        part = found.setdefault(PARTS[image.get("split", "train")], [])
        name = str(Path(image.get("filepath", "")) / image["filename"])
        for sentence in image["sentences"]:
            number = sum(map(len, found.values())) + 1
            part.append(_pair(folder, name, sentence["raw"], number))
    for name, pairs in found.items():
        yield name, tuple(pairs)


def _coco(page: Any, folder: Path) -> Iterator[Pair]:
    names = {image["id"]: image["file_name"] for image in page["images"]}
    for number, each in enumerate(page["annotations"], start=1):
        yield _pair(folder, names[each["image_id"]], each["caption"], number)


def _pair(folder: Path, name: str, caption: str, line: int) -> Pair:
    return Pair(str(folder / name), " ".join(caption.split()), line)


def _dealt(pairs: tuple[Pair, ...], lists: Mapping[str, Path]) -> dict[str, tuple[Pair, ...]]:
    """The pairs of the pictures that each list names. Without a list for training all that no
    other names."""
    named = {part: _names(path) for part, path in lists.items()}
    if "train" not in named:
        others = set().union(*named.values())
        named["train"] = {Path(pair.source).name for pair in pairs} - others
    return {
        part: tuple(pair for pair in pairs if Path(pair.source).name in names)
        for part, names in named.items()
    }


def _names(path: Path) -> set[str]:
    with open_bytes(path) as file:
        lines = (line.text.strip() for line in decoded(file, path, otherwise="latin-1"))
        return {Path(line).name for line in lines if line}
