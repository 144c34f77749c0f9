"""Readers of text pairs, which list every dropped line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path

from regard.characters import is_blank_text
from regard.data.examples import Corpus, Pair, ReadColumns
from regard.data.files.lines import LeftOut, Line, LineProblem, decoded
from regard.data.files.pairs import pair_of, rows_below_header
from regard.data.files.tables import TableSettings, has_rows, is_blank
from regard.data.recognition import formats
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.table import IN_ORDER, Columns, columns_of, open_table
from regard.errors import UserError
from regard.storage.files import open_bytes


def read_pairs(
    path: str | Path,
    *,
    target_path: str | Path | None = None,
    limit: int | None = None,
    settings: TableSettings | None = None,
) -> Corpus:
    """Read pairs from one file (source, tab, target; further columns are ignored) or from two
    files.

    With `settings`, one file may have any format of `regard.data.recognition.formats`, and a
    header; two files may have any encoding. Without, files are UTF-8, and the first two columns
    are read.

    Line ends are \\n and \\r\\n only. Files may be gzipped and may begin with a byte-order mark; a
    mark inside a file is removed and listed. Lines that have a blank side, no tab, a NUL, or are
    not UTF-8 are dropped and listed. Reading stops after `limit` pairs. UserError if a file cannot
    be read, if two files have different numbers of lines, or if there are no pairs.
    """
    if limit is not None and limit < 1:
        raise UserError(f"limit is {limit}: give at least 1, or none to read all pairs")
    columns = _columns_of(path, target_path, settings)
    items = _items(path, target_path, settings, columns)
    return replace(_collect(items, (path, target_path), limit), columns=columns.names)


def each_line(
    path: str | Path, target_path: str | Path | None = None, settings: TableSettings | None = None
) -> Iterator[Pair | LineProblem]:
    """Yield a pair or a problem for each line, as `read_pairs` reads them, and another problem for
    each byte-order mark that was removed. Nothing is held in memory."""
    yield from _items(path, target_path, settings, _columns_of(path, target_path, settings))


def _columns_of(
    path: str | Path, target_path: str | Path | None, settings: TableSettings | None
) -> PairColumns:
    is_table = target_path is None and settings is not None
    return pair_columns(Path(path), settings) if is_table and settings else PLAIN


def _items(
    path: str | Path,
    target_path: str | Path | None,
    settings: TableSettings | None,
    columns: PairColumns,
) -> Iterator[Pair | LineProblem]:
    if settings is not None and not columns.is_plain:
        yield from _table(Path(path), settings, columns)
        return
    encoding = _encoding(path, settings)
    with open_bytes(path) as file:
        lines = decoded(file, path, encoding=encoding)
        if target_path is None:
            for line in lines:
                yield from _read(line, str(path), columns.form.width)
            return
        has_features = settings is not None and bool(settings.feature_columns)
        with open_bytes(target_path) as target_file:
            target_encoding = _encoding(target_path, settings)
            target_lines = decoded(target_file, target_path, encoding=target_encoding)
            sides = zip_longest(lines, target_lines)
            paths = str(path), str(target_path)
            for source, target in sides:
                if source is None or target is None:
                    raise UserError(_lengths_differ(paths, (encoding, target_encoding)))
                for line, name in zip((source, target), paths, strict=True):
                    for note in line.notes:
                        yield LineProblem(name, line.number, note, line.text)
                yield _couple(source, target, paths, has_features=has_features)


@dataclass(frozen=True)
class PairColumns:
    """Format of a file of pairs, and its columns."""

    form: FileFormat
    has_header: bool = False
    columns: Columns = IN_ORDER
    has_comments: bool = False
    """Whether rows at the beginning are comments or a second table."""
    names: ReadColumns | None = field(default=None, compare=False)
    """Names of the columns, if the file has others."""

    @property
    def is_plain(self) -> bool:
        """Whether the file has lines of UTF-8 with SOURCE TAB TARGET, and perhaps further columns
        that are not read."""
        return replace(self, form=replace(self.form, width=0)) == PLAIN


NUM_ROWS = 1000
"""Number of rows among which comments are searched."""
PLAIN = PairColumns(FileFormat(delimiter="\t"))
"""Lines of UTF-8 with SOURCE TAB TARGET."""


def pair_columns(path: Path, settings: TableSettings) -> PairColumns:
    """Return the format of a file of pairs and its columns. A pipe, which can be read only once,
    has numbers of columns. UserError if the file has no such column."""
    if not path.is_file():
        form = formats.recognise(path, settings)
        sides = settings.source_columns or ("1",), settings.target_columns or ("2",)
        source, target = (_number(*names) for names in sides)
        features = tuple(map(_number, settings.feature_columns or ()))
        return PairColumns(form, settings.header is True, Columns(source, (target,), features))
    table = open_table(path, settings)
    columns = columns_of(table, settings, "translate")
    beginning = islice(formats.rows_of_beginning(path, table.form, settings), NUM_ROWS)
    has_comments = any(row.fault in ("comment", "other table") for row in beginning)
    names = ReadColumns.of_table(table.header, len(table.first), columns.source, columns.targets)
    return PairColumns(table.form, table.header is not None, columns, has_comments, names)


def _number(name: str, *_: str) -> int:
    """Return a column of a pipe. UserError for a name."""
    if not name.isdecimal() or name == "0":
        raise UserError(
            f"column {name!r} of a pipe: expected a number from 1, because a pipe is not "
            "inspected; save the data to a file to use names"
        )
    return int(name) - 1


def _table(
    path: Path, settings: TableSettings, columns: PairColumns
) -> Iterator[Pair | LineProblem]:
    """Yield the pairs of a file of any format."""
    notes = list[LineProblem]()
    rows = formats.read_rows(path, columns.form, settings, notes=notes)
    for row in rows_below_header(rows, has_header=columns.has_header):
        yield pair_of(row, columns.columns, str(path))
        if notes:
            yield from notes
            notes.clear()


def _encoding(path: str | Path, settings: TableSettings | None) -> str:
    """Return the encoding of one of two files, or of a file of pairs."""
    return "utf-8" if settings is None else formats.recognise(Path(path), settings).encoding.reading


def parse_pairs(lines: Iterable[bytes], path: str | Path, *, limit: int | None = None) -> Corpus:
    """Read pairs from the lines of an open file. `path` names the file in problems."""
    items = (item for line in decoded(lines, path) for item in _read(line, str(path)))
    return _collect(items, (path, None), limit)


def no_pairs(paths: tuple[str | Path, str | Path | None], left_out: LeftOut) -> UserError:
    """Return the error for files without a pair, with the remedy."""
    names = " and ".join(str(path) for path in paths if path is not None)
    return UserError(f"no pairs in {names}: {'; '.join(_hints(left_out))}")


def _read(line: Line, path: str, width: int = 0) -> Iterator[Pair | LineProblem]:
    if line.is_marked or line.note:
        for note in line.notes:
            yield LineProblem(path, line.number, note, line.text)
    yield _columns(line, path, width)


def _columns(line: Line, path: str, width: int) -> Pair | LineProblem:
    columns = line.text.split("\t")
    if fault := line.fault or ("quotes" if has_rows(line.text, "\t") else None):
        return LineProblem(path, line.number, fault, line.text)
    if 0 < width < len(columns) and not is_blank(columns[width:]):
        return LineProblem(path, line.number, "many columns", line.text)
    if len(columns) == 1 and not is_blank_text(line.text):
        return LineProblem(path, line.number, "one column", line.text)
    source, target = columns[0].strip(), "".join(columns[1:2]).strip()
    if is_blank_text(source) or is_blank_text(target):
        return LineProblem(path, line.number, "blank", line.text)
    return Pair(source, target, line.number, path)


def _couple(
    source: Line, target: Line, paths: tuple[str, str], *, has_features: bool
) -> Pair | LineProblem:
    for line, path in zip((source, target), paths, strict=True):
        if line.fault:
            return LineProblem(path, line.number, line.fault, line.text)
        if is_blank_text(line.text):
            return LineProblem(path, line.number, "blank", line.text)
        if "\t" in line.text.strip() and not (has_features and line is source):
            return LineProblem(path, line.number, "tab", line.text)
    text = source.text if has_features else source.text.strip()
    return Pair(text, target.text.strip(), source.number, paths[0])


def _collect(
    items: Iterable[Pair | LineProblem],
    paths: tuple[str | Path, str | Path | None],
    limit: int | None,
) -> Corpus:
    pairs: list[Pair] = []
    problems: list[LineProblem] = []
    for item in items:
        if isinstance(item, LineProblem):
            problems.append(item)
            continue
        pairs.append(item)
        if len(pairs) == limit:
            break
    corpus = Corpus(tuple(pairs), tuple(problems))
    if not pairs:
        raise no_pairs(paths, corpus.left_out)
    return corpus


def _hints(left_out: LeftOut) -> Iterator[str]:
    yield from left_out.summary() or ["it is empty"]
    if left_out.has("one column"):
        yield "put a tab between source and target, or give the targets as a second file"
    if left_out.has("few columns") or left_out.has("many columns"):
        yield "check the delimiter (--data.delimiter) and the columns (--data.target-column)"
    if left_out.has("not UTF-8"):
        yield "save it as UTF-8"


def _lengths_differ(paths: tuple[str, ...], encodings: tuple[str, ...]) -> str:
    counts = []
    for path, encoding in zip(paths, encodings, strict=True):
        with open_bytes(path) as file:
            num_lines = sum(1 for _ in decoded(file, path, encoding=encoding))
            counts.append(f"{path} has {num_lines} lines")
    return f"{' and '.join(counts)}: line by line they should be translations of each other"
