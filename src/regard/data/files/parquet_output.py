"""Parquet files with the columns of a table and further columns of texts or numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from regard.data.files.cells import damaged_file, missing_package
from regard.data.files.source_table import AddedColumn, SourceTable
from regard.data.files.tables import Row
from regard.data.recognition.formats import NOT_READ
from regard.errors import UserError

SUFFIX, MARK = ".parquet", b"PAR1"
"""Suffix of the file name, and first bytes of the file."""
ROWS_AT_A_TIME = 1 << 16
"""Number of rows of a group in the file."""


class ParquetOutput:
    """Table with further columns, written row by row. Columns of a Parquet table keep their types;
    those of other tables are texts. As a context manager it completes the file."""

    def __init__(
        self, path: Path, table: SourceTable, added: Sequence[AddedColumn], first_row: int = 0
    ) -> None:
        """Open the file. `added` are the further columns, and the first row that is added has the
        number `first_row` in the table, from 0. UserError if pyarrow is not installed."""
        try:
            import pyarrow  # type: ignore[import-untyped]
            from pyarrow import parquet
        except ImportError as error:
            raise missing_package(path, "pyarrow") from error
        self._arrow = pyarrow
        self._table = table
        self._source = _TypedRows(table.path, first_row) if table.form.kind == "parquet" else None
        self._added = tuple(added)
        self._rows: list[tuple[Row, tuple[str, ...]]] = []
        text = pyarrow.string()
        if self._source is not None:
            schema = self._source.schema
        else:
            header = table.header or tuple(str(number + 1) for number in range(table.width))
            schema = pyarrow.schema([(name, text) for name in header])
        for column in self._added:
            kind = pyarrow.float64() if column.is_number else text
            schema = schema.append(pyarrow.field(column.name, kind))
        self._schema = schema
        self._writer = parquet.ParquetWriter(path, schema)

    def __enter__(self) -> ParquetOutput:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def add(self, row: Row, cells: Sequence[str]) -> None:
        """Write a row with the texts of the further cells; a blank number becomes null. A row that
        is not read has as many of its cells as the first row. UserError for another row with more
        cells."""
        if row.fault in NOT_READ:
            row = replace(row, cells=row.cells[: self._table.width])
        if len(row.cells) > self._table.width:
            raise UserError(
                f"{self._table.path}, line {row.line} has {len(row.cells)} cells, but a Parquet "
                f"file has {self._table.width} in each row: write a .csv file"
            )
        self._rows.append((row, tuple(cells)))
        if len(self._rows) == ROWS_AT_A_TIME:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        texts = zip(*(cells for _, cells in self._rows), strict=True)
        further = [
            [float(cell) if cell else None for cell in cells] if column.is_number else list(cells)
            for column, cells in zip(self._added, texts, strict=True)
        ]
        if self._source is not None:
            columns = self._source.take(len(self._rows)).columns
        else:
            width = self._table.width
            padded = [(*row.cells, *[""] * (width - len(row.cells))) for row, _ in self._rows]
            columns = [list(column) for column in zip(*padded, strict=True)]
        self._writer.write_table(self._arrow.table([*columns, *further], schema=self._schema))
        self._rows.clear()


class _TypedRows:
    """Rows of a Parquet file from a number on."""

    def __init__(self, path: Path, first_row: int) -> None:
        from pyarrow import parquet

        self._file = parquet.ParquetFile(path)
        self._path = path
        self.schema = self._file.schema_arrow.remove_metadata()
        self._rest = self.schema.empty_table()
        self._batches = self._read(first_row)

    def take(self, number: int) -> Any:
        """Return the next rows as a table of Arrow."""
        import pyarrow

        parts = [self._rest]
        while sum(map(len, parts)) < number:
            parts.append(next(self._batches))
        rows = pyarrow.concat_tables(parts)
        self._rest = rows.slice(number)
        return rows.slice(0, number)

    def _read(self, first_row: int) -> Iterator[Any]:
        """Yield tables. Groups of rows before the first one are not read."""
        import pyarrow

        sizes = [
            self._file.metadata.row_group(number).num_rows
            for number in range(self._file.num_row_groups)
        ]
        first = 0
        while first < len(sizes) and first_row >= sizes[first]:
            first_row -= sizes[first]
            first += 1
        groups = list(range(first, len(sizes)))
        try:
            for batch in self._file.iter_batches(ROWS_AT_A_TIME, row_groups=groups):
                table = pyarrow.Table.from_batches([batch]).replace_schema_metadata()
                yield table.slice(first_row)
                first_row = max(first_row - len(table), 0)
        except Exception as error:  # the library raises many kinds
            raise damaged_file(self._path, error) from error


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet files do."""
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK


def join_parquet(parts: Sequence[Path], path: Path) -> None:
    """Write the rows of Parquet files with equal columns to one file, in their order."""
    import pyarrow
    from pyarrow import parquet

    schema = parquet.read_schema(parts[0])
    rows = schema.empty_table()
    with parquet.ParquetWriter(path, schema) as writer:
        for part in parts:
            with parquet.ParquetFile(part) as file:
                for group in range(file.num_row_groups):
                    rows = pyarrow.concat_tables([rows, file.read_row_group(group)])
                    if len(rows) >= ROWS_AT_A_TIME:
                        writer.write_table(rows)
                        rows = schema.empty_table()
        writer.write_table(rows)
