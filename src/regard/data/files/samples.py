"""Sample of the rows of a file or of data in memory: rows at equal distances, and both ends.

Every decision about the columns is made from this sample, because tables are often sorted: by
label, by length, by date, or by file if files were joined."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path

from regard.data.files.blocks import Block, blocks_of
from regard.data.files.cells import cell_text
from regard.data.files.lines import LEGACY_ENCODING, MAX_LINE, Line, legacy_text, mixed_text
from regard.data.files.named_rows import BETWEEN, objects_in, parquet_rows_at
from regard.data.files.tables import Quotes, Row, TableSettings, is_blank, rows_of
from regard.data.recognition.dictionaries import Dictionary, dictionary_rows
from regard.data.recognition.encodings import Encoding
from regard.data.recognition.formats import FileFormat, is_filled, read_rows, rows_of_beginning

NUM_ROWS = 5000
"""Number of rows of a sample."""
NUM_FIRST, NUM_LAST = 100, 50
"""Numbers of rows of a sample that follow each other, at the beginning and at the end."""
NUM_INNER = NUM_ROWS - NUM_FIRST - NUM_LAST
"""Number of rows at equal distances between both ends."""
BETWEEN_OBJECTS = re.compile(BETWEEN.encode())
QUOTE = re.compile('"')
CLEAR_VOTES = 16
"""Majority of quotes that decides whether a part of a table begins inside a quoted cell."""
Cells = tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """Rows of a table, in their order, without blank rows."""

    rows: Sequence[Cells]
    """The first row is that of the table."""
    num_rows: int
    """Number of rows of the table; of a large file, an estimate."""


def sample_of(rows: Iterable[Cells]) -> Sample:
    """Return a sample of rows, in constant memory."""
    if isinstance(rows, Sequence):
        return Sample([rows[number] for number in _chosen(len(rows))], len(rows))
    remaining = iter(rows)
    first = list(islice(remaining, NUM_FIRST))
    inner, step, number = dict[int, Cells](), 1, NUM_FIRST - 1
    last = deque[tuple[int, Cells]](maxlen=NUM_LAST)
    for number, row in enumerate(remaining, start=NUM_FIRST):
        last.append((number, row))
        if number % step == 0:
            inner[number] = row
            if len(inner) >= 2 * NUM_ROWS:
                step *= 2
                inner = {place: row for place, row in inner.items() if place % step == 0}
    num_rows = len(first) if len(first) < NUM_FIRST else number + 1
    places = list(inner)
    if num_rows > NUM_ROWS:
        places = [place for place in places if place < num_rows - NUM_LAST]
        places = _at_equal_distances(places, NUM_INNER)
    chosen = {place: inner[place] for place in places} | dict(last)
    return Sample([*first, *(chosen[place] for place in sorted(chosen))], num_rows)


def _chosen(number: int) -> Sequence[int]:
    """Return the positions of the rows of a sample, of this number of rows."""
    if number <= NUM_ROWS:
        return range(number)
    inner = range(NUM_FIRST, number - NUM_LAST)
    chosen = _at_equal_distances(inner, NUM_INNER)
    return [*range(NUM_FIRST), *chosen, *range(number - NUM_LAST, number)]


def _at_equal_distances(values: Sequence[int], number: int) -> list[int]:
    """Return this number of values at equal distances, or all if they are fewer."""
    if len(values) <= number:
        return list(values)
    return [values[place * len(values) // number] for place in range(number)]


def sample_rows(path: Path, form: FileFormat, settings: TableSettings) -> Sample:
    """Return a sample of the rows of the table in a file. Large files of text are read in part, and
    unpacked completely if they are gzipped. UserError if the file cannot be read."""
    if form.kind == "parquet":
        return _of_parquet(path)
    if form.kind == "workbook" or not path.is_file():
        return sample_of(_rows(read_rows(path, form, settings)))
    blocks = blocks_of(path)
    beginning = _rows(rows_of_beginning(path, form, settings))
    if blocks.is_whole:
        return sample_of(beginning)
    first = list(islice(beginning, NUM_FIRST))
    num_lines = _num_lines(first) / max(len(first), 1)
    sizes = [_num_rows(block, form) / num_lines for block in blocks.inner]
    num_rows = int(sum(sizes[:1]) + sum(sizes))  # the first size is that of the beginning too
    reader, rows = _reader(form, first[0] if first else ()), list[Cells]()
    if num_rows > 2 * NUM_ROWS:
        begin = next(n for n, place in enumerate(accumulate(sizes)) if place > 2 * NUM_FIRST)
        rows = _of_blocks(blocks.inner[begin:], sizes[begin:], reader)
    if 2 * len(rows) < NUM_INNER:  # few rows, or rows that are larger than a block
        return sample_of(_rows(read_rows(path, form, settings, otherwise="latin-1")))
    last = deque(reader(blocks.end), maxlen=NUM_LAST)
    return Sample([*first, *rows, *last], num_rows)


def _rows(rows: Iterable[Row]) -> Iterator[Cells]:
    """Yield the cells of the rows of a table that are not blank."""
    return (row.cells for row in rows if is_filled(row))


def _of_parquet(path: Path) -> Sample:
    names, num_rows, rows = parquet_rows_at(path, _chosen)
    return Sample([names, *(row for row in rows if not is_blank(row))], num_rows + 1)


Reader = Callable[[bytes], Iterator[Cells]]


def _of_blocks(blocks: Sequence[Block], sizes: Sequence[float], reader: Reader) -> list[Cells]:
    """Return rows of all blocks, from each in proportion to the number of rows until the next one.
    Equal numbers would be too many of the long rows in files that are sorted by length."""
    places = [0.0, *accumulate(sizes)]
    bounds = [int(place / max(places[-1], 1) * NUM_INNER) for place in places]
    rows = list[Cells]()
    for block, (begin, end) in zip(blocks, pairwise(bounds), strict=True):
        rows.extend(islice(reader(block.content), end - begin))
    return rows


def _num_lines(rows: Sequence[Cells]) -> int:
    """Return the number of lines of these rows, whose cells may have several."""
    return len(rows) + sum(cell.count("\n") for row in rows for cell in row)


def _num_rows(block: Block, form: FileFormat) -> float:
    """Return the estimated number of rows from the beginning of a block to the next one."""
    is_array = form.kind == "json"
    count = len(BETWEEN_OBJECTS.findall(block.content)) if is_array else block.content.count(b"\n")
    return count / max(len(block.content), 1) * block.distance


def _reader(form: FileFormat, header: Cells) -> Reader:
    """Return a function that yields the complete rows in a part of a file with this first row,
    apart from blank rows. Rows that cannot be read are left out."""
    delimiter = form.delimiter or "\t"

    def rows(content: bytes) -> Iterator[Cells]:
        text = _text(content, form)
        match form.kind:
            case "jsonl" | "json":
                cells = _of_objects(text, form, header)
            case _ if form.dictionary is not None:
                cells = _of_dictionary(text, form.dictionary)
            case _ if form.quotes is not None:
                cells = _of_quoted(text, delimiter, form.quotes, len(header))
            case _:
                split = (tuple(line.split(delimiter)) for line in text.split("\n"))
                width = form.width or MAX_LINE
                cells = (row for row in split if len(row) <= width or is_blank(row[width:]))
        return (row for row in cells if not is_blank(row))

    return rows


def _text(content: bytes, form: FileFormat) -> str:
    """Return the complete lines in a part of a file, and all of a JSON file. Lines that are not
    UTF-8 in a file of UTF-8 are read as Latin-1."""
    encoding = form.encoding.name
    is_json = form.kind in ("jsonl", "json")
    if is_json or encoding.startswith(("utf-16", "utf-32")):
        text = content.decode(encoding, "ignore")
        if is_json:
            return text
        text = text[text.find("\n") + 1 : text.rfind("\n") + 1]
    else:
        content = content[content.find(b"\n") + 1 : content.rfind(b"\n") + 1]
        try:
            text = content.decode("utf-8" if form.encoding.has_utf8 else encoding)
        except UnicodeDecodeError:
            text = "\n".join(_decoded(line, form.encoding) for line in content.split(b"\n"))
    return text.replace("\r\n", "\n").replace("\ufeff", "")


def _decoded(line: bytes, encoding: Encoding) -> str:
    if encoding.has_utf8:
        return mixed_text(line, encoding.name)[0]
    try:
        return line.decode(encoding.name)
    except UnicodeDecodeError:
        return legacy_text(line, LEGACY_ENCODING if encoding.is_utf8 else encoding.name)


def _of_objects(text: str, form: FileFormat, names: Cells) -> Iterator[Cells]:
    """Yield the rows of the objects in a part of a file. Objects inside them have other names."""
    for fields in objects_in(text, form.kind):
        if 2 * len(fields.keys() & set(names)) > len(fields):
            yield tuple(cell_text(fields.get(name)) for name in names)


def _of_dictionary(text: str, dictionary: Dictionary) -> Iterator[Cells]:
    lines = (Line(number, line, True) for number, line in enumerate(text.split("\n")))
    return (row.cells for row in dictionary_rows(lines, dictionary) if row.fault is None)


def _of_quoted(text: str, delimiter: str, quotes: Quotes, width: int) -> Iterator[Cells]:
    """Yield the rows of a text that may begin inside a quoted cell. Rows of another width may be
    parts of such a cell."""
    if _is_plain(text, delimiter, quotes):
        cells = (tuple(line.split(delimiter)) for line in text.split("\n"))
        yield from (row for row in cells if len(row) == width)
        return
    if _begins_inside_quotes(text, delimiter):
        text = _after_quoted(text)
    rows = rows_of(text.split("\n"), delimiter, quotes)
    yield from (row.cells for row in rows if row.fault is None and len(row.cells) == width)


def _is_plain(text: str, delimiter: str, quotes: Quotes) -> bool:
    """Return whether delimiters alone decide the cells of a text: without quotes, escapes, carriage
    returns and spaces at the beginning of cells."""
    marks = (quotes.mark, quotes.escape or quotes.mark, "\r", "\0", f"{delimiter} ", "\n ")
    return not text.startswith(" ") and not any(map(text.__contains__, marks))


def _begins_inside_quotes(text: str, delimiter: str) -> bool:
    """Return whether a part of a table begins inside a quoted cell, by the quotes that can only
    begin a cell, after a delimiter, or only end one, before a delimiter."""
    edges, votes = ("", "\n", delimiter), 0
    for number, match in enumerate(QUOTE.finditer(text)):
        before = text[max(match.start() - 1, 0) : match.start()]
        after = text[match.end() : match.end() + 1]
        begins = before in edges and after not in (*edges, '"')
        ends = after in edges and before not in (*edges, '"')
        if begins != ends:
            votes += 1 if begins == (number % 2 == 1) else -1
        if abs(votes) == CLEAR_VOTES:
            break
    return votes > 0


def _after_quoted(text: str) -> str:
    """Return the rows of a text after the one that it begins in, inside a quoted cell."""
    place = 0
    for number, part in enumerate(text.split('"')):
        if number % 2 == 1 and "\n" in part:
            return text[place + part.index("\n") + 1 :]
        place += len(part) + 1
    return ""
