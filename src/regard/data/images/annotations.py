"""Readers of image captions, in the usual formats.

    FILE.csv, captions.txt       file,caption, with a header
    Flickr8k.token.txt           name.jpg#0, tab, caption; other files list the images of a split
    dataset.json                 Karpathy's splits: images with sentences and their split
    captions_*.json              COCO: images and annotations
    FILE.json                    array of objects with the names file and caption

Each annotation is a `Pair` of an image file and a caption. An image has one pair for each caption.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any

from regard.data.examples import Corpus, Pair
from regard.data.files.lines import LEGACY_ENCODING, Line, LineProblem, decoded, summary_of
from regard.data.files.named_rows import has_json_records
from regard.data.files.pairs import divided_lines, pair_of, rows_below_header
from regard.data.files.tables import (
    SEPARATORS,
    Row,
    TableSettings,
    find_column,
    show_cells,
    suffix_of,
)
from regard.data.recognition import formats
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.table import IN_ORDER, USUAL_NAMES, Columns, columns_of, table_of_rows
from regard.data.several_labels import texts_of
from regard.errors import UserError
from regard.names import Fault, SplitName
from regard.storage.files import open_bytes, read_bytes

SPLITS: dict[str, SplitName] = {
    "train": "train",
    "restval": "train",
    "val": "dev",
    "dev": "dev",
    "test": "test",
}
"""Names of splits in Karpathy's files."""
NO_PAIRS = Corpus(())
NAMES = tuple(chain.from_iterable(USUAL_NAMES["caption"]))
NUM_ROWS = 1000
"""Number of rows from which the columns are recognised."""
MAX_JSON = 1 << 29
"""Largest number of bytes of a JSON file. COCO's training captions have 90 million."""


@dataclass(frozen=True)
class Captions:
    """Pairs of each split. Data without splits are all in `train`. Remarks about the whole file are
    remarks of `train`."""

    train: Corpus
    dev: Corpus = NO_PAIRS
    test: Corpus = NO_PAIRS

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Pairs of all splits."""
        return self.train.pairs + self.dev.pairs + self.test.pairs

    @property
    def to_score(self) -> Corpus:
        """Test pairs; without any, dev pairs; without these, all pairs. A remark names the
        split."""
        if self.test.pairs:
            return replace(self.test, remarks=("scored on the test captions",))
        if self.dev.pairs:
            return replace(self.dev, remarks=("scored on the dev captions: no test captions",))
        return self.train


@dataclass(frozen=True)
class Lists:
    """Files that list the images of each split, one name per line."""

    train: Path | None = None
    dev: Path | None = None
    test: Path | None = None


def read_captions(
    path: Path,
    images: Path | None = None,
    lists: Lists | None = None,
    settings: TableSettings | None = None,
) -> Captions:
    """Read a file of captions. `images` is the folder of the image files, by default the folder of
    the captions. `lists` replace the splits of the file; without a list for training, all images in
    no other list are training images.

    Image files are not opened here. Blank captions, and captions or names with a NUL, are dropped
    and listed. UserError if the file has none of the formats or no captions, if a list names none
    of its images, or if two lists name one image."""
    folder = (images or path.parent).absolute()
    try:
        if suffix_of(path) == ".json" and not has_json_records(path):
            captions = _json(path, folder)
        else:
            captions = _lines(path, folder, settings or TableSettings())
    except OSError as error:
        raise UserError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    if not captions.pairs:
        reason = "; ".join(captions.train.summary())
        raise UserError(f"{path} has no captions{reason and f': {reason}'}")
    return captions if lists in (None, Lists()) else _split_by_lists(captions, lists, path)


def _lines(path: Path, folder: Path, settings: TableSettings) -> Captions:
    form, notes = formats.recognise(path, settings), list[LineProblem]()
    is_table = form.kind != "text" or suffix_of(path) in SEPARATORS
    if not is_table and form.delimiter is not None and path.is_file():
        # Flickr8k's format has tabs too, but its first column ends with a number.
        first = formats.first_rows(path, form, settings, 1)
        is_table = bool(first) and _names_columns(first[0].cells, settings)
    rows: Iterable[Row] | None
    if is_table and path.is_file():
        rows = formats.read_rows(path, form, settings, otherwise=LEGACY_ENCODING, notes=notes)
    else:
        lines, rows = divided_lines(
            path, form, notes, lambda text: _separator(path, text, settings)
        )
    if rows is None:
        rows, columns = map(_row_of_token, lines), IN_ORDER
    else:
        rows, columns = _table(list(rows), path, form, settings)
    corpus = Corpus.of(chain.from_iterable(_pairs(row, columns, path, folder) for row in rows))
    return Captions(replace(corpus, remarks=summary_of(notes)))


def _separator(path: Path, text: str, settings: TableSettings) -> str | None:
    """Return the separator of columns in a file that begins with this line, which may be a header
    with commas; None for Flickr8k's format."""
    is_header = _names_columns(text.split(","), settings)
    return SEPARATORS.get(suffix_of(path)) or ("," if is_header else None)


def _names_columns(row: Sequence[str], settings: TableSettings) -> bool:
    """Return whether a row names the columns of image file and caption."""
    chosen = settings.source_columns, settings.target_columns
    return all(
        find_column(row, names or usual) is not None or all(map(str.isdecimal, names or ("",)))
        for names, usual in zip(chosen, USUAL_NAMES["caption"], strict=True)
    )


def _table(
    rows: Sequence[Row], path: Path, form: FileFormat, settings: TableSettings
) -> tuple[Iterator[Row], Columns]:
    """Return the rows below the header, and the columns. Without a header, the first row has the
    name of an image."""
    cells = [row.cells for row in islice(filter(formats.is_filled, rows), NUM_ROWS)]
    table = table_of_rows(str(path), cells, form, settings, NAMES)
    columns = columns_of(table, settings, "caption")
    name = table.first[columns.source] if len(table.first) > columns.source else ""
    has_header = table.header is not None
    if not has_header and table.first and not Path(name.strip()).suffix:
        if settings.header is False or not (settings.source_columns and settings.target_columns):
            raise UserError(
                f"{path}: the first row is {show_cells(table.first)!r}: expected the names of two "
                "columns, such as file and caption, or an image file and its caption; name them "
                "with --data.source-column and --data.target-column"
            )
        has_header = True
    return rows_below_header(rows, has_header=has_header), columns


def _row_of_token(line: Line) -> Row:
    """Return the image and the caption of a line of Flickr8k's format: the number of the caption
    follows the name of the image."""
    name, tab, caption = line.text.partition("\t")
    fault: Fault | None = None if tab or not line.text.strip() else "one column"
    return Row((name.rpartition("#")[0] or name, caption), line.number, line.fault or fault)


def _pairs(row: Row, columns: Columns, path: Path, folder: Path) -> Iterator[Pair | LineProblem]:
    """Yield a pair for each caption of a row, which may have a list of them."""
    (column,) = columns.targets
    captions = texts_of(row.cells[column]) if len(row.cells) > column else ()
    rows = [
        replace(row, cells=(*row.cells[:column], caption, *row.cells[column + 1 :]))
        for caption in captions
    ]
    for captioned in rows or [row]:
        pair = pair_of(captioned, columns, str(path))
        if isinstance(pair, Pair):
            target = " ".join(pair.target.split())
            pair = replace(pair, source=str(folder / pair.source), target=target)
        yield pair


def _json(path: Path, folder: Path) -> Captions:
    content = read_bytes(path, MAX_JSON)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _wrong_json(path, _syntax_problem(content, error)) from error
    if not isinstance(values, dict) or not isinstance(values.get("images"), list):
        raise _wrong_json(path, f"got {_title_of(values)}")
    try:
        is_karpathys = all("sentences" in image for image in values["images"])
        annotations = list(_karpathy(values) if is_karpathys else _coco(values))
    except LookupError as error:
        raise _wrong_json(path, f"an entry has no {error}"[:200]) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise _wrong_json(path, str(error)[:200]) from error
    splits: dict[SplitName, list[Pair]] = {"train": [], "dev": [], "test": []}
    num_blank = num_broken = 0
    for number, annotation in enumerate(annotations, start=1):
        source = str(folder / annotation.image)
        if not annotation.text:
            num_blank += 1
        elif _is_broken(source) or _is_broken(annotation.text):
            num_broken += 1
        else:
            pair = Pair(source, annotation.text, number, str(path))
            splits[annotation.split].append(pair)
    remarks = tuple(
        f"dropped {count} captions of {path}, which {fault}"
        for count, fault in (
            (num_blank, "are blank"),
            (num_broken, "have NUL characters or halves of surrogate pairs"),
        )
        if count
    )
    train, dev, test = (Corpus(tuple(splits[split])) for split in ("train", "dev", "test"))
    return Captions(replace(train, remarks=remarks), dev, test)


def _wrong_json(path: Path, problem: str) -> UserError:
    return UserError(
        f"{path}: expected an array of objects, an object with one list of objects, Karpathy's "
        f"JSON or COCO's captions; {problem}"
    )


def _syntax_problem(content: bytes, error: Exception) -> str:
    """Return what is wrong with a text that is not JSON."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8, the encoding of JSON: save it as UTF-8"
    if isinstance(error, RecursionError):
        return "it has too many brackets inside brackets"
    lines = content.lstrip().splitlines()[:2]
    if len(lines) == 2 and all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        return "it has an object on each line: name it .jsonl"
    return f"it is not JSON: {error}"[:200]


def _title_of(values: object) -> str:
    """Return a noun phrase for values of JSON."""
    match values:
        case dict():
            return f"an object with the names {', '.join(map(str, values))}"[:200]
        case list():
            return "an array without objects"
        case _:
            return f"{values!r}"[:80]


def _is_broken(text: str) -> bool:
    """Return whether a text cannot be encoded as UTF-8, or cannot be part of a file name."""
    return "\0" in text or not _is_utf8(text)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class _Annotation:
    """Caption of an image in a JSON file."""

    split: SplitName
    image: str
    text: str

    @classmethod
    def of(cls, split: SplitName, image: object, text: object) -> _Annotation:
        """Return the caption without byte-order marks. TypeError if name or caption is not text."""
        if not isinstance(image, str) or not isinstance(text, str):
            raise TypeError(f"expected a file name and a caption, got {image!r} and {text!r}")
        image, text = (string.replace("\ufeff", "") for string in (image, text))
        return cls(split, image, " ".join(text.split()))


def _karpathy(values: Any) -> Iterator[_Annotation]:
    for image in values["images"]:
        split = SPLITS[image.get("split", "train")]
        name = str(Path(image.get("filepath", "")) / image["filename"])
        for sentence in image["sentences"]:
            yield _Annotation.of(split, name, sentence["raw"])


def _coco(values: Any) -> Iterator[_Annotation]:
    names = {image["id"]: image["file_name"] for image in values["images"]}
    for annotation in values["annotations"]:
        yield _Annotation.of("train", names[annotation["image_id"]], annotation["caption"])


@dataclass(frozen=True)
class _List:
    """File that lists images, and their names in order."""

    path: Path
    names: dict[str, None]

    @classmethod
    def read(cls, path: Path | None) -> _List | None:
        if path is None:
            return None
        with open_bytes(path) as file:
            lines = (line.text.strip() for line in decoded(file, path, otherwise=LEGACY_ENCODING))
            return cls(path, dict.fromkeys(Path(line).name for line in lines if line))

    def check(self, images: dict[str, None], path: Path) -> tuple[str, ...]:
        """Return a sentence about unknown names, if there are any. UserError if all are unknown."""
        unknown = [name for name in self.names if name not in images]
        if len(unknown) == len(self.names):
            content = f"got {unknown[0]!r}" if unknown else "it is empty"
            raise UserError(
                f"{self.path} names no image of {path}: expected names such as "
                f"{next(iter(images))!r}, one per line; {content}"
            )
        if not unknown:
            return ()
        return (
            f"{len(unknown)} of {len(self.names)} names in {self.path} are not images of {path}, "
            f"such as {unknown[0]!r}",
        )


def _split_by_lists(captions: Captions, lists: Lists, path: Path) -> Captions:
    """Return the captions with the splits of the lists."""
    images = dict.fromkeys(Path(pair.source).name for pair in captions.pairs)
    train, dev, test = map(_List.read, (lists.train, lists.dev, lists.test))
    present = [names for names in (train, dev, test) if names is not None]
    remarks = captions.train.remarks
    if captions.dev.pairs or captions.test.pairs:
        remarks += (f"the splits of {path} are ignored, because there are lists of images",)
    for names in present:
        remarks += names.check(images, path)
    for first, second in combinations(present, 2):
        if shared := [name for name in first.names if name in second.names]:
            raise UserError(
                f"{first.path} and {second.path} both name {shared[0]!r}: an image can be in one "
                "split only"
            )
    listed = {name for names in present for name in names.names}
    rest = dict.fromkeys(name for name in images if name not in listed)

    def named(names: dict[str, None]) -> tuple[Pair, ...]:
        return tuple(pair for pair in captions.pairs if Path(pair.source).name in names)

    return Captions(
        Corpus(named(rest if train is None else train.names), captions.train.problems, remarks),
        Corpus(named({} if dev is None else dev.names)),
        Corpus(named({} if test is None else test.names)),
    )
