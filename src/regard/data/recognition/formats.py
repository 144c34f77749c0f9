"""Format of a file with columns, recognised from its first bytes, and its rows."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

from regard.data.files.blocks import Blocks, blocks_of
from regard.data.files.lines import (
    MAX_LINE,
    LineProblem,
    check_beginning,
    check_text,
    decoded,
    noting,
    numbers_of,
)
from regard.data.files.named_rows import TITLES, has_json_records, named_rows
from regard.data.files.tables import (
    SUFFIXES,
    Quotes,
    Row,
    TableSettings,
    ends_blank,
    is_blank,
    limited,
    num_columns,
    quotes_of,
    rows_of,
    show_cells,
    suffix_of,
    table_rows,
)
from regard.data.recognition import encodings
from regard.data.recognition.dictionaries import (
    Dictionary,
    dictionary_of,
    dictionary_rows,
    without_comment,
)
from regard.data.recognition.encodings import UTF8, Encoding
from regard.data.recognition.header import (
    first_row,
    is_usual_name,
    lacks_first_name,
    lacks_name,
    names_columns_too,
    num_titles,
)
from regard.data.recognition.other_formats import check_text_format
from regard.data.recognition.other_rows import marked
from regard.data.several_labels import FASTTEXT
from regard.errors import UserError
from regard.names import DecimalMark, TableFormat
from regard.storage.files import open_bytes

HEAD = 1 << 20
"""Number of bytes from which the encoding is recognised."""
NUM_BLOCKS = 200
"""Number of blocks beyond these bytes from which the encoding is recognised."""
MAX_ENTRIES = 1000
"""Number of lines from which a dictionary is recognised."""
NUM_WIDTHS = 1000
"""Number of lines from which the number of columns is recognised."""
NUM_LINES = 200
"""Number of lines that are not blank from which the delimiter is recognised."""
MAX_LINES_PER_ROW = 10
"""Largest mean number of lines of a row from which the delimiter is recognised."""
DELIMITERS = ("\t", ";", "|", ",")
"""Delimiters that are recognised. The first that fits is taken, one without spaces after it
first."""
DELIMITER_NAMES = {"tab": "\t", "comma": ",", "semicolon": ";", "space": " "}
PLURALS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
NEARLY_ALL = 0.9
"""Share of lines with the same number of columns above which a delimiter fits."""
NOT_READ = ("title", "not JSON", "many columns", "quotes", "comment", "summary", "other table")
"""Faults of rows that tell nothing about the table."""
UNDIVIDED = re.compile(
    r"""(?:(?<=[\t;|,\n])|\A)\x20*"(?!"[\t;|,\n])(?>[^"]*(?:""[^"]*)*)"(?=[\t;|,\n]|\Z)"""
    r"|&(?:#\w{1,7}|[A-Za-z][a-z]{1,7}\d*);"
)
"""Quoted cells with a text, and entities of HTML such as &nbsp;: delimiters inside them divide no
columns."""
FILLED_LINE = re.compile(r"^[^\S\n]*\S[^\n]*", re.MULTILINE)
LABEL_FIRST = re.compile(rf"{FASTTEXT}\S+ +\S")
"""Line of fastText's format, whose text may have tabs and commas."""
FEW_LINES = 5
"""Number of lines below which no delimiter is recognised in a file that is not named .csv."""


@dataclass(frozen=True)
class FileFormat:
    """Kind of a data file, its encoding, delimiter and quotes."""

    kind: TableFormat = "text"
    encoding: Encoding = UTF8
    delimiter: str | None = None
    """Character between columns; None if the lines have no columns, or for other kinds than text
    and csv."""
    quotes: Quotes | None = None
    """Quotes that cells may have."""
    first_line: int = 0
    """Number of the first line of the table, below titles and comments."""
    second_line: int = 0
    """Number of the line with a second row of names, which is not read; 0 without such a line."""
    has_row_names: bool = False
    """Whether the header lacks the cell above the first column, which has names of rows."""
    width: int = 0
    """Number of columns. Rows with more cells are not read; 0: rows of all widths are read."""
    ends_blank: bool = False
    """Whether the last column is blank in some rows: blank cells beyond it show a shifted row."""
    dictionary: Dictionary | None = None
    """Form of a dictionary of pronunciations: the first word of each line, and the rest."""

    @property
    def is_plain(self) -> bool:
        """Whether the file has lines of UTF-8 with tabs between columns."""
        is_table = self.delimiter in ("\t", None) and self.quotes is None
        is_text = self.kind == "text" and self.encoding.is_utf8
        return is_text and is_table and self.first_line == 0 and not self.has_row_names

    @property
    def has_names(self) -> bool:
        """Whether the first row is always a header."""
        return self.kind in ("jsonl", "json", "parquet") or self.has_row_names

    @property
    def usual_mark(self) -> DecimalMark:
        """Decimal mark of numbers such as 1,234, if nothing else decides it: semicolons divide
        columns where numbers have decimal commas."""
        return "comma" if self.delimiter == ";" else "point"

    @property
    def title(self) -> str:
        """Format and encoding, for messages."""
        if self.kind in TITLES:
            return TITLES[self.kind]
        if self.delimiter is None:
            return f"lines, {self.encoding.title}"
        if self.dictionary is not None:
            return f"{self.dictionary.title}, {self.encoding.title}"
        name = PLURALS.get(self.delimiter, f"{self.delimiter!r} between columns")
        return f"{'CSV' if self.quotes else 'text'} with {name}, {self.encoding.title}"


def recognise(path: Path, settings: TableSettings) -> FileFormat:
    """Return the format of a file. A pipe, which can be read only once, has the format that the
    settings name, by default UTF-8 with the delimiter of its name. UserError if the file cannot be
    read."""
    try:
        status = path.stat() if path.is_file() else None
    except OSError:
        status = None
    if status is None:
        encoding = encodings.named(settings.encoding) if settings.encoding else UTF8
        return FileFormat("text", encoding, delimiter_of(settings) or "\t")
    return _recognise(path, settings, (status.st_size, status.st_mtime_ns))


def delimiter_of(settings: TableSettings) -> str | None:
    """Return the delimiter of the settings as one or several characters. UserError for quotes and
    ends of lines."""
    if settings.delimiter is None:
        return None
    delimiter = DELIMITER_NAMES.get(settings.delimiter, settings.delimiter)
    if not delimiter or any(mark in delimiter for mark in '"\n\r\0'):
        raise UserError(
            f"data.delimiter is {settings.delimiter[:40]!r}: expected characters such as |, or "
            "tab, comma, semicolon or space"
        )
    return delimiter


@lru_cache(maxsize=32)
def _recognise(path: Path, settings: TableSettings, stamp: tuple[int, int]) -> FileFormat:
    del stamp  # part of the key: a changed file is read again
    if suffix_of(path) in SUFFIXES:
        return _below_titles(path, FileFormat(SUFFIXES[suffix_of(path)]), settings)
    if has_json_records(path):
        return FileFormat("json")
    blocks = blocks_of(path)
    head = _head(blocks.beginning)
    check_text(head, path)
    beyond = _lines_beyond(blocks, head)
    if settings.encoding is not None:
        encoding = encodings.named(settings.encoding)
    else:
        encoding = encodings.recognise(head + beyond, path)
    if encoding.is_utf8:
        check_beginning(head[: head.find(b"\n") + 1] or head, path)
    text = head.decode(encoding.name, "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    check_text_format(path, text)
    form = _columns(path, text, encoding, delimiter_of(settings))
    lines = text.split("\n") + beyond.decode(encoding.name, "replace").splitlines()
    return _below_titles(path, form, settings, lines[:: len(lines) // NUM_WIDTHS + 1])


def encoding_of_lines(path: Path, name: str | None) -> Encoding:
    """Return the encoding of this name, or that of a file of lines. UTF-8 if the file cannot be
    read twice, or if its encoding is not recognised. UserError for an unknown name, and if the file
    cannot be read."""
    if name is not None:
        return encodings.named(name)
    if not path.is_file():
        return UTF8
    head = _head(blocks_of(path).beginning)
    try:
        return encodings.recognise(head, path)
    except UserError:
        return UTF8


def _head(beginning: bytes) -> bytes:
    """Return the first bytes of a file, which end with a whole line; more if these are blank."""
    head = beginning[:HEAD]
    head = head if head.strip() else beginning
    if len(head) >= HEAD:
        head = head[: head.rfind(b"\n") + 1] or head[: HEAD // 4 * 4]
    return head


def _lines_beyond(blocks: Blocks, head: bytes) -> bytes:
    """Return lines at equal distances in the rest of a file that is larger than its first bytes.
    None if these have NUL bytes, as UTF-16 has."""
    if len(head) < HEAD // 2 or b"\0" in head:
        return b""
    if blocks.is_whole:
        return blocks.beginning[len(head) :]
    contents = (block.content for block in blocks.inner[:: len(blocks.inner) // NUM_BLOCKS + 1])
    return b"".join(text[text.find(b"\n") + 1 : text.rfind(b"\n") + 1] for text in contents)


def _below_titles(
    path: Path, form: FileFormat, settings: TableSettings, lines: Sequence[str] = ()
) -> FileFormat:
    """Return the format with the first line of the table, whether its header lacks a cell, and the
    number of columns, from the first rows of the file and from lines of all parts of it."""
    has_no_titles = form.kind == "text" and (form.delimiter is None or form.dictionary is not None)
    if has_no_titles or form.kind in ("json", "jsonl", "parquet"):
        return form
    rows = first_rows(path, form, settings, NUM_LINES)
    cells = [row.cells for row in rows]
    start = num_titles(cells, settings)
    if start:
        form = replace(form, first_line=rows[start].line)
    cells = [row for row in cells[start:] if not is_blank(row)]
    if not cells:
        return form
    if lacks_first_name(cells, settings, are_quoted=_begin_quoted(lines, form.quotes)):
        return replace(form, has_row_names=True, width=len(cells[0]) + 1)
    names_a_column = settings.header is not False and any(map(is_usual_name, cells[0]))
    has_names = first_row(cells, settings).is_header
    if has_names:
        check_widths(path, cells[0], cells[1:])
    is_header = names_a_column or has_names
    if len(cells) > 1 and has_names and names_columns_too(*cells[:2]):
        form = replace(form, second_line=rows[start + 1].line)
    if not is_header:
        others = rows_of(lines, form.delimiter or "\t", form.quotes)
        cells += [row.cells for row in others if row.fault is None]
    width = num_columns(cells, has_header=is_header)
    width = _with_named(width, settings)
    has_texts = form.delimiter not in ("\t", None)  # a text may have the delimiter
    return replace(form, width=width, ends_blank=has_texts and ends_blank(cells, width))


def check_widths(path: Path, header: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """Raise a UserError if half of the rows below a header have more cells: a text with a comma
    that is not in quotes shifts the cells after it."""
    num_wide = sum(not is_blank(row[len(header) :]) for row in body)
    if header and num_wide and 2 * num_wide >= len(body):
        raise UserError(
            f"{path}: the first row has {len(header)} cells, and {num_wide:,} of {len(body):,} "
            "rows below have more: quote texts with commas or other delimiters, or add the cells "
            "that the first row lacks"
        )


def _begin_quoted(lines: Sequence[str], quotes: Quotes | None) -> bool:
    """Return whether nearly all lines, the first one included, begin with a quoted cell."""
    filled = [line for line in lines if line.strip()]
    if quotes is None or not filled:
        return False
    num_quoted = sum(line.startswith(quotes.mark) for line in filled)
    return filled[0].startswith(quotes.mark) and num_quoted >= NEARLY_ALL * len(filled)


def _with_named(width: int, settings: TableSettings) -> int:
    """Return a number of columns that includes the columns of the settings with numbers."""
    columns = (settings.source_columns, settings.target_columns, settings.feature_columns)
    numbers = [int(name) for names in columns for name in names or () if name.isdecimal()]
    return max(width, *numbers) if width and numbers else width


def _columns(path: Path, text: str, encoding: Encoding, delimiter: str | None) -> FileFormat:
    """Return the format of a file that begins with this text."""
    suffix, lines = suffix_of(path), _first_lines(text)
    if delimiter in (None, " ") and suffix != ".csv":
        entries = [match[0] for match in islice(FILLED_LINE.finditer(text), MAX_ENTRIES)]
        dictionary = dictionary_of(entries)
        if dictionary is None and delimiter == " " and _are_ragged(lines):
            dictionary = Dictionary(lowercases=False, has_sounds=False)
        if dictionary is not None:
            return FileFormat("text", encoding, " ", width=2, dictionary=dictionary)
    if delimiter is None:
        delimiter = _delimiter(text, suffix)
    has_quotes = (suffix == ".csv" and len(delimiter or "") < 2) or delimiter in (",", ";")
    if delimiter == "\t":
        has_quotes = suffix == ".csv" or _has_quoted_cells(lines)
    if not has_quotes and delimiter in ("\t", " "):
        has_quotes = _is_written_by_r(lines, delimiter)
    kind: TableFormat = "csv" if has_quotes or delimiter not in ("\t", None) else "text"
    quotes = quotes_of(lines, delimiter) if has_quotes and delimiter is not None else None
    return FileFormat(kind, encoding, delimiter, quotes)


def _are_ragged(lines: Sequence[str]) -> bool:
    """Return whether lines have different numbers of words: not columns with spaces between."""
    if any('"' in line for line in lines):
        return False
    counts = Counter(len(line.split(" ")) for line in lines)
    return max(counts.values(), default=0) < NEARLY_ALL * len(lines)


def _first_lines(text: str) -> list[str]:
    """Return the first lines of a text that are not blank."""
    return [match[0] for match in islice(FILLED_LINE.finditer(text), NUM_LINES)]


def _beginning(text: str) -> str:
    """Return the beginning of a text that has the first rows, whose cells may have several
    lines."""
    ends = (match.end() for match in FILLED_LINE.finditer(text))
    return text[: next(islice(ends, MAX_LINES_PER_ROW * NUM_LINES, None), len(text))]


def _delimiter(text: str, suffix: str) -> str | None:
    """Return the delimiter that gives most lines of a text the same number of columns; None if none
    does."""
    lines, is_csv = _first_lines(UNDIVIDED.sub("x", _beginning(text))), suffix == ".csv"
    num_marked = sum(LABEL_FIRST.match(line) is not None for line in lines)
    if lines and not is_csv and num_marked >= NEARLY_ALL * len(lines):
        return None
    if not is_csv and any("\t" in line for line in lines):
        return "\t"
    best, largest = None, 0.0
    for delimiter in sorted(DELIMITERS, key=lambda mark: _is_punctuation(lines, mark)):
        share = _share(lines, delimiter)
        if share >= NEARLY_ALL:
            enough = is_csv or len(lines) >= FEW_LINES
            return delimiter if enough else "\t" if suffix == ".tsv" else None
        if share > largest:
            best, largest = delimiter, share
    if is_csv:
        return best or ","
    if _is_written_by_r(_first_lines(text), " "):
        return " "
    return "\t" if suffix == ".tsv" else None


def _is_written_by_r(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether lines are a table of R's write.table: names of columns in quotes, none of them
    above the names of the rows."""
    if not lines or lines[0][:1] != '"' or lines[0][-1:] != '"':
        return False
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        return False
    return lacks_first_name(rows, TableSettings(), are_quoted=_begin_quoted(lines, Quotes()))


def _is_punctuation(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether a space follows the character in most places, as in a sentence."""
    text = "\n".join(lines)
    return text.count(f"{delimiter} ") > text.count(delimiter) / 2


def _share(lines: Sequence[str], delimiter: str) -> float:
    """Return the share of rows below titles with the most frequent number of columns; 0 if that is
    one, or if the first of them has another number, apart from a header without a cell above names
    of rows. Lines with a wrong quote count as rows with another number."""
    read = rows_of(lines, delimiter, Quotes())
    rows = [row.cells for row in read if row.fault is None]
    num_wrong = len(lines) - len(rows)
    rows = rows[num_titles(rows, TableSettings()) :]
    counts = Counter(map(len, rows))
    if not counts:
        return 0.0
    ((num_columns, count),) = counts.most_common(1)
    is_whole = len(rows[0]) == num_columns or lacks_name(rows, TableSettings())
    return count / (len(rows) + num_wrong) if num_columns > 1 and is_whole else 0.0


def _has_quoted_cells(lines: Sequence[str]) -> bool:
    """Return whether lines with tabs have cells as Excel writes them: in quotes, with doubled
    quotes inside, and no cell that only begins with a quote."""
    cells = [cell for line in lines for cell in line.split("\t") if cell.startswith('"')]
    inner = [cell[1:-1] for cell in cells if len(cell) > 2 and cell.endswith('"')]
    has_doubled = any('""' in text for text in inner)
    return has_doubled and len(inner) == len(cells) and all(map(_is_quoted, inner))


def _is_quoted(inner: str) -> bool:
    """Return whether all quotes inside a quoted cell are doubled."""
    return '"' not in inner.replace('""', "")


def read_rows(
    path: Path,
    form: FileFormat,
    settings: TableSettings,
    *,
    otherwise: str | None = None,
    notes: list[LineProblem] | None = None,
    content: bytes | None = None,
) -> Iterator[Row]:
    """Yield the rows of a file with columns, the header included, in constant memory. `content` are
    the bytes of the file, or the first ones, if they are known. Rows above
    the table have the fault "title", apart from blank rows, and rows with more cells than the table
    has columns the fault "many columns"; those of `marked` are no examples. A header without a cell
    above the names of the rows gets a blank one. Lines of a UTF-8 file that are not UTF-8 are
    decoded with the encoding `otherwise`, if it is set; lines with byte-order marks or in another
    encoding are added to `notes`. UserError if the file cannot be read."""
    rows = _all_rows(path, form, settings, otherwise, notes, content)
    for row in rows:
        if is_blank(row.cells):
            yield row
        elif row.line < form.first_line:
            yield replace(row, fault="title")
        else:
            rows = chain(
                [replace(row, cells=("", *row.cells)) if form.has_row_names else row], rows
            )
            break
    width = form.width or MAX_LINE
    rows = (
        row if len(row.cells) <= width else limited(row, width, ends_blank=form.ends_blank)
        for row in rows
    )
    for row in marked(rows):
        is_second = form.second_line and row.line == form.second_line
        yield replace(row, fault="title") if is_second else row


def _all_rows(
    path: Path,
    form: FileFormat,
    settings: TableSettings,
    otherwise: str | None,
    notes: list[LineProblem] | None,
    content: bytes | None,
) -> Iterator[Row]:
    """Yield all rows of a file, in constant memory."""
    if form.kind in TITLES:
        yield from named_rows(path, form.kind, settings.sheet, content)
        return
    with open_bytes(path) if content is None else io.BytesIO(content) as file:
        lines = decoded(file, path, otherwise, form.encoding.reading)
        if form.dictionary is not None and form.dictionary.has_sounds:
            lines = map(without_comment, lines)
        if notes is not None:
            lines = noting(lines, path, notes)
        if form.dictionary is not None:
            yield from dictionary_rows(lines, form.dictionary)
            return
        delimiter = form.delimiter or "\t"
        yield from table_rows(lines, delimiter, form.quotes, form.width)


def titles_line(path: Path, form: FileFormat, settings: TableSettings) -> str:
    """Return the line that names the rows above the table; blank if there are none."""
    number = max(form.first_line, form.second_line)
    if number == 0:
        return ""
    rows = islice(rows_of_beginning(path, form, settings), number)
    titles = [row for row in rows if row.fault == "title"]
    lines = numbers_of([row.line for row in titles])
    cells = [cell for cell in titles[0].cells if cell.strip()]
    name = " ".join(path.name.split())
    return f"{name}: rows above the table that are not read: {lines} ({show_cells(cells)})"


def is_filled(row: Row) -> bool:
    """Return whether a row belongs to the table and is not blank."""
    return row.fault not in NOT_READ and not is_blank(row.cells)


def first_rows(path: Path, form: FileFormat, settings: TableSettings, number: int) -> list[Row]:
    """Return the first rows of the table in a file that can be read, the header included. Blank
    rows do not count."""
    return list(islice(filter(is_filled, rows_of_beginning(path, form, settings)), number))


def rows_of_beginning(path: Path, form: FileFormat, settings: TableSettings) -> Iterator[Row]:
    """Yield the rows of a file, or of the beginning of a large file, which is not opened again."""
    content = None
    if path.is_file() and form.kind in ("text", "csv", "jsonl"):
        blocks = blocks_of(path)
        content = blocks.beginning
        is_cut = not blocks.is_whole and form.encoding.is_utf8
        if is_cut and (end := content.rfind(b"\n") + 1):
            content = content[:end]
    return read_rows(path, form, settings, otherwise="latin-1", content=content)
