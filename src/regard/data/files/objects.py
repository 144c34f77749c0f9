"""Rows of data in memory: data frames, datasets, lists of pairs and lists of dictionaries.

No library of data frames is imported: an object that names its columns and gives a column by its
name is read, as pandas, polars and datasets do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from numbers import Rational, Real
from typing import Any

import numpy as np

from regard.data.examples import Corpus
from regard.data.files.lines import SURROGATE
from regard.data.files.pairs import forms_of, pair_of, rows_below_header
from regard.data.files.tables import Row, TableSettings, flat_fields
from regard.data.recognition.decimals import NumberText
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.other_rows import marked
from regard.data.recognition.table import Columns, Table, columns_of
from regard.errors import UserError
from regard.names import TaskName

NAME = "the data"
"""Name of data in memory, in messages."""
FORM, OPTION = FileFormat("memory"), "data.{}_column"
CATEGORIES = ("category", "Categorical", "Enum", "ClassLabel")
"""Types of categories in pandas, polars and datasets."""
EXPECTED = (
    "expected a pandas or polars data frame, a datasets.Dataset, a list of (source, target) pairs "
    "or a list of dictionaries"
)


def table_of(data: object) -> Table:
    """Return the rows of a data frame, a dataset, a list of pairs or a list of dictionaries. Fields
    inside a field are columns, such as translation.en.

    TypeError for anything else. UserError for fewer than two columns, or equal names."""
    if isinstance(data, str | bytes | Mapping | Set) and not isinstance(data, ItemsView):
        raise _wrong_type(data)
    names = getattr(data, "column_names", None)
    names = getattr(data, "columns", None) if names is None else names
    if isinstance(names, Iterable) and hasattr(data, "__getitem__"):
        listed = list(names)
        _check_names(map(str, listed))
        try:
            values = [list(data[name]) for name in listed]
        except TypeError as error:  # a data frame without values yet
            raise _wrong_type(data) from error
        if any(isinstance(value, Mapping) for column in values for value in column):
            return _of_records(
                [dict(zip(listed, row, strict=True)) for row in zip(*values, strict=True)]
            )
        _check_number(listed)
        columns = [list(map(_cell, column)) for column in values]
        # A data frame made without names numbers its columns.
        is_named = any(not isinstance(name, int) for name in listed)
        names = tuple(map(str, listed)) if is_named else None
        return _table(names, tuple(zip(*columns, strict=True)), _categories(data, listed))
    if not isinstance(data, Iterable):
        raise _wrong_type(data)
    to_list = getattr(data, "tolist", None)  # an array of NumPy
    rows = list(data if to_list is None else to_list())
    if rows and all(isinstance(row, Mapping) for row in rows):
        return _of_records(rows)
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    for number, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 2:
            raise TypeError(f"data[{number}] is {repr(row)[:60]}: {EXPECTED}")
    return _table(None, tuple((_cell(source), _cell(target)) for source, target in rows))


def _table(
    names: tuple[str, ...] | None,
    rows: tuple[tuple[str, ...], ...],
    categories: tuple[int, ...] = (),
) -> Table:
    """Return the table of data in memory. Missing values are empty texts."""
    return Table(NAME, names, rows, FORM, len(rows), categories=categories, option=OPTION)


def _categories(data: Any, names: Sequence[Any]) -> tuple[int, ...]:
    """Return the columns that have the type of categories in pandas or polars, or of labels in a
    dataset."""
    features = getattr(data, "features", None)
    if isinstance(features, Mapping):
        types = [type(features[name]).__name__ for name in names]
    else:
        types = [str(getattr(data[name], "dtype", "")) for name in names]
    return tuple(
        number for number, kind in enumerate(types) if kind.partition("(")[0] in CATEGORIES
    )


def _of_records(records: Iterable[Mapping[Any, Any]]) -> Table:
    """Return the rows of dictionaries."""
    rows = [dict(flat_fields(record)) for record in records]
    names = tuple(dict.fromkeys(name for row in rows for name in row))
    _check_number(names)
    return _table(names, tuple(tuple(_cell(row.get(name)) for name in names) for row in rows))


def _check_number(names: Sequence[object]) -> None:
    """Raise a UserError for fewer than two columns."""
    if len(names) < 2:
        columns = f"one column, {names[0]}" if names else "no columns"
        raise UserError(
            f"{NAME} has {columns}: expected a source and a target; reset_index makes the index of "
            "a data frame a column"
        )


def _check_names(names: Iterable[str]) -> None:
    """Raise a UserError for equal names of columns."""
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(f"{NAME} has {count} columns {name!r}: rename them")


def _wrong_type(data: object) -> TypeError:
    return TypeError(f"data is {type(data).__name__}: {EXPECTED}")


def corpus_of(
    table: Table, settings: TableSettings, task: TaskName, *, has_numbers: bool = False
) -> Corpus:
    """Return the pairs of a table. A source has its features after tabs. Blank rows are dropped and
    listed. If the targets are numbers (`has_numbers`), so are rows with anything else. UserError if
    there are no pairs, or if a column is not recognised."""
    if not table.rows:
        raise UserError(f"{NAME} has no rows: {EXPECTED}")
    columns = columns_of(table, settings, task)
    rows = list(_rows(table, columns))
    forms, remarks = forms_of(rows, table, columns, settings) if has_numbers else ((), ())
    corpus = Corpus.of((pair_of(row, columns, NAME, forms) for row in rows), remarks)
    units = tuple(form.unit for form in forms) if has_numbers else None
    if not corpus.pairs:
        raise UserError(f"{NAME} has no pairs: {'; '.join(corpus.left_out.summary())}")
    return replace(corpus, units=units)


def _rows(table: Table, columns: Columns) -> Iterator[Row]:
    """Yield the rows, numbered from 1. Rows that are no examples have a fault, as in files. No
    second table is searched: a blank row of a data frame is a row of missing values."""
    rows = (Row(cells, number) for number, cells in enumerate(table.rows, start=1))
    names = [] if table.header is None else [Row(table.header, 0)]
    for row in rows_below_header(marked(chain(names, rows)), has_header=bool(names)):
        fault = None if row.fault == "other table" else row.fault
        cells = (row.cells[number] for number in (columns.source, *columns.targets))
        fault = "not UTF-8" if any(map(SURROGATE.search, cells)) else fault
        yield replace(row, fault=fault)


def _cell(value: Any) -> str:
    """Return a value as text on one line. Whole floats are integers: data frames store integers
    beside missing values as floats. Bytes are read as UTF-8. A number that is too large for Python
    to write it is infinite."""
    try:
        return _text(value)
    except (OverflowError, ValueError):
        return NumberText(math.inf)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf8", "surrogateescape")
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
    if isinstance(value, Real) and not isinstance(value, int | np.integer):
        number = float(value)
        if math.isnan(number):
            return ""
        value = number if isinstance(value, Rational) else value
        value = int(number) if number.is_integer() else value
    is_text = isinstance(value, str)
    if value is None or (not is_text and str(value) in ("<NA>", "NaT")):  # missing in pandas
        return ""
    text = " ".join(str(value).split())
    return NumberText(text) if is_number else text
