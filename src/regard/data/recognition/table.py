"""Header and columns of a table, decided once for files, workbooks and data in memory.

The first row is a header by its form (`header.first_row`), by a label that no other row has, or,
where the caller names usual columns, by one of their names, if no cell of the row is a number or
occurs in its column again.

Columns are those of the settings, those with usual names, or of two columns the other one. Without
any of them, and for pairs of texts, a file is read in order. If one of more than two columns is
known, or none in memory, an error lists the columns and the option that decides.
The choice by content (`roles`) precedes a training and becomes settings."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from regard.characters import composed
from regard.data.files.samples import sample_of, sample_rows
from regard.data.files.tables import (
    TableSettings,
    column_name,
    column_number,
    find_column,
    show_cells,
)
from regard.data.recognition import formats
from regard.data.recognition.decimals import may_be_number
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.header import (
    CAPTION_NAMES,
    FILE_NAMES,
    LABEL_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
    FirstRow,
    first_row,
    is_only_label,
    names_labels,
    occurs_again,
)
from regard.data.recognition.kinds import FEW_ROWS, MIN_ROWS_PER_LABEL
from regard.errors import UserError
from regard.names import TaskName

Cells = tuple[str, ...]
USUAL_NAMES: dict[TaskName, tuple[Cells, Cells]] = {
    "translate": (SOURCE_NAMES, (*TARGET_NAMES, "label")),
    "classify": (TEXT_NAMES, LABEL_NAMES),
    "caption": (FILE_NAMES, CAPTION_NAMES),
}
"""Usual names of the columns of source and target, the most usual first."""
OPTION = "--data.{}-column"


@dataclass(frozen=True)
class Table:
    """Header and rows of a file or of data in memory."""

    name: str
    """File, for messages."""
    header: Cells | None
    rows: Sequence[Cells]
    """Rows below the header, without blank ones; of a large file, a sample."""
    form: FileFormat
    num_rows: int = 0
    """Number of rows below the header; of a large file, an estimate."""
    is_header_certain: bool = True
    """Whether it is certain that the first row is a header, or that it is an example."""
    categories: tuple[int, ...] = ()
    """Columns whose type is that of categories, from 0."""
    option: str = OPTION
    """Option that names a column, with {} in place of source or target."""

    @cached_property
    def first(self) -> Cells:
        """First row: the header, or an example."""
        return next(iter(self.rows), ()) if self.header is None else self.header

    @property
    def width(self) -> int:
        """Number of columns of the first row."""
        return len(self.first)

    def with_names_of_labels(
        self, target: int, settings: TableSettings, known: Set[str] | None
    ) -> Table:
        """Return the table with its first row as a header, which is not certain, if its label in
        the target column names the column. Labels in `known` are no names. None: targets are
        numbers."""
        labels = [composed(row[target]) for row in self.rows if len(row) > target]
        is_open = self.header is None and settings.header is None and self.width > target
        if not is_open or not names_labels(labels[0], list(filter(None, labels[1:])), known):
            return self
        return replace(
            self,
            header=self.first,
            rows=self.rows[1:],
            num_rows=self.num_rows - 1,
            is_header_certain=False,
        )

    def option_of(self, side: str) -> str:
        """Return the option that names the column of a side."""
        return self.option.format(side)


@dataclass(frozen=True)
class Columns:
    """Columns of a table, from 0. Several targets are the numbers of one target."""

    source: int
    targets: tuple[int, ...]
    features: tuple[int, ...] = ()

    @cached_property
    def last(self) -> int:
        """Largest column."""
        return max(self.source, *self.targets, *self.features)


IN_ORDER = Columns(0, (1,))
"""First column as source, second as target."""


def open_table(path: Path, settings: TableSettings, names: Sequence[str] = ()) -> Table:
    """Return the table of a file, with a sample of its rows. One of `names` in the first row
    makes it a header, unless a cell is a number or occurs in its column again. UserError if the
    file cannot be read."""
    if not path.is_file():
        return _open(path, settings, tuple(names))
    status = path.stat()
    return _open_once(path, settings, tuple(names), (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=8)
def _open_once(path: Path, settings: TableSettings, names: Cells, stamp: tuple[int, int]) -> Table:
    del stamp  # part of the key: a changed file is read again
    return _open(path, settings, names)


def _open(path: Path, settings: TableSettings, names: Cells) -> Table:
    form = formats.recognise(path, settings)
    if form.kind == "text" and form.delimiter is None:
        form = replace(form, delimiter="\t")
    sample = sample_rows(path, form, settings)
    return table_of_rows(str(path), sample.rows, form, settings, names, sample.num_rows)


def table_of_rows(
    name: str,
    rows: Sequence[Cells],
    form: FileFormat,
    settings: TableSettings,
    names: Sequence[str] = (),
    num_rows: int | None = None,
) -> Table:
    """Return the table of these rows, of which the first may be a header. `num_rows`: number of
    rows if these are a sample."""
    is_header, is_certain = _decide(sample_of(rows).rows, form, settings, names)
    number = len(rows) if num_rows is None else num_rows
    if not is_header:
        return Table(name, None, rows, form, number, is_certain)
    return Table(name, rows[0], rows[1:], form, number - 1, is_certain)


def _decide(
    rows: Sequence[Cells], form: FileFormat, settings: TableSettings, names: Sequence[str]
) -> FirstRow:
    """Return whether the first of these rows is a header."""
    if not rows or form.has_names or form.dictionary is not None:
        return FirstRow(bool(rows) and form.has_names)
    decision = first_row(rows, settings)
    if decision.is_header or settings.header is not None:
        return decision
    if find_column(rows[0], names) is None:
        is_header = not names and _has_label_names(rows)
    else:
        is_header = not (occurs_again(rows[0], rows[1:]) or any(map(may_be_number, rows[0])))
    return FirstRow(is_header=True, is_certain=False) if is_header else decision


def _has_label_names(rows: Sequence[Cells]) -> bool:
    """Return whether the last cell of the first row is a label of no other row, and the labels
    below it are few."""
    if len(rows) <= FEW_ROWS or len(rows[0]) < 2:
        return False
    last = len(rows[0]) - 1
    labels = [row[last].strip() for row in rows[1:] if len(row) > last]
    is_few = len(set(labels)) <= len(labels) / MIN_ROWS_PER_LABEL
    return is_few and is_only_label(rows[0][last].strip(), labels)


def columns_of(table: Table, settings: TableSettings, task: TaskName) -> Columns:
    """Return the columns of a table for a task. Pairs of two columns without a header are read in
    order, so that dev pairs need no names. UserError for a column of the settings that the table
    lacks or that has two roles, and if nothing decides a column."""
    header, width = table.header, table.width
    chosen = settings.source_columns or (), settings.target_columns or ()
    features = numbers_of_columns(table, "feature", settings.feature_columns or ())
    is_in_memory = table.form.kind == "memory"
    if task == "translate" and header is None and width == 2 and not is_in_memory:
        numbers = [column_number(name, None, width) for names in chosen for name in names]
        if None in numbers:
            return Columns(0, (1,), features)
    sources = numbers_of_columns(table, "source", chosen[0]) or _usual(table, task, 0, chosen[1])
    targets = numbers_of_columns(table, "target", chosen[1]) or _usual(table, task, 1, chosen[0])
    is_half = task != "translate" and header is not None and bool(sources) != bool(targets)
    if width > 2 and (is_half or (is_in_memory and not (sources and targets))):
        missing = "target" if sources else "source"
        names = show_cells([column_name(header, number) for number in range(width)])
        example = (
            ""
            if table.is_header_certain
            else "; if the first row is an example, use --data.no-header"
        )
        raise UserError(
            f"{table.name} has the columns {names}: name the {missing} column with "
            f"{table.option_of(missing)}{example}"
        )
    source = sources[0] if sources else int(0 in targets)
    columns = Columns(source, tuple(targets) or (int(source != 1),), features)
    if source in columns.targets:
        raise UserError(
            f"{table.name}: source and target are both column {column_name(header, source)}: set "
            f"{table.option_of('source')} and {table.option_of('target')}"
        )
    for number in features:
        if number in (source, *columns.targets):
            side = "source" if number == source else "target"
            raise UserError(
                f"{table.name}: column {column_name(header, number)} is read as {side} and as "
                f"features ({table.option_of('feature')}s): set {table.option_of(side)}"
            )
    return columns


def source_column(table: Table, settings: TableSettings, names: Sequence[str]) -> int:
    """Return the column of the sources of a table without targets: that of the settings, the first
    of `names` in the header, or without a header the first column. The only column of a table needs
    no name. UserError if nothing decides."""
    if table.width == 1:
        return 0
    chosen = numbers_of_columns(table, "source", (settings.source_columns or ())[:1])
    if chosen or table.header is None:
        return chosen[0] if chosen else 0
    number = find_column(table.header, names)
    if number is None:
        raise UserError(
            f"{table.name}: name the column of the sources with {table.option_of('source')}: the "
            f"first row is {show_cells(table.first)}"
        )
    return number


def _usual(table: Table, task: TaskName, side: int, opposite: Sequence[str]) -> tuple[int, ...]:
    """Return the column with a usual name of a side, unless it is chosen for the opposite one; none
    without such a column."""
    chosen = [name.lower() for name in opposite]
    usual = [name for name in USUAL_NAMES[task][side] if name not in chosen]
    column = None if table.header is None else find_column(table.header, usual)
    return () if column is None else (column,)


def numbers_of_columns(table: Table, side: str, names: Sequence[str]) -> tuple[int, ...]:
    """Return the columns with these names, or with these numbers from 1. UserError for a name that
    no column has."""
    numbers = list[int]()
    for name in names:
        number = column_number(name, table.header, table.width)
        if number is None:
            option = f"{table.option_of(side)}{'s' if side == 'feature' else ''}"
            row = (
                f"the first row is {show_cells(table.first)}" if any(table.first) else "it is empty"
            )
            raise UserError(f"{table.name} has no column {name!r} ({option}): {row}")
        numbers.append(number)
    return tuple(numbers)
