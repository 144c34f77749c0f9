"""Rows of data in memory: data frames, datasets, lists of pairs and lists of dictionaries.

No library of data frames is imported: an object that names its columns and gives a column by its
name is read, as pandas, polars and datasets do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, islice
from numbers import Rational, Real
from typing import Any

import numpy as np

from regard.characters import is_blank_text
from regard.data.examples import Corpus, Pair
from regard.data.files.lines import SURROGATE, LineProblem
from regard.data.files.tables import Row, column_number, find_column, flat_fields
from regard.data.recognition.decimals import NumberForm, NumberText, undecided_mark
from regard.data.recognition.other_rows import marked
from regard.errors import UserError
from regard.names import DecimalMark, Fault

NAME = "the data"
"""Name of data in memory, in messages."""
CATEGORIES = ("category", "Categorical", "Enum", "ClassLabel")
"""Types of categories in pandas, polars and datasets."""
EXPECTED = (
    "expected a pandas or polars data frame, a datasets.Dataset, a list of (source, target) pairs "
    "or a list of dictionaries"
)


@dataclass(frozen=True)
class Table:
    """Rows of texts. Missing values are empty texts."""

    rows: tuple[tuple[str, ...], ...]
    names: tuple[str, ...] | None = None
    """Names of the columns; None for pairs, and for data frames whose columns have numbers."""
    categories: tuple[int, ...] = ()
    """Columns whose type is that of categories, from 0."""


@dataclass(frozen=True)
class ColumnChoice:
    """Columns of the sources or of the targets: the names that were set, or the usual names."""

    option: str
    """Option that sets the names, such as data.source_column."""
    chosen: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()


NO_FEATURES = ColumnChoice("data.feature_columns")
"""Choice of no columns of features."""


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
        return Table(
            tuple(zip(*columns, strict=True)),
            tuple(map(str, listed)) if is_named else None,
            _categories(data, listed),
        )
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
    return Table(tuple((_cell(source), _cell(target)) for source, target in rows))


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
    return Table(tuple(tuple(_cell(row.get(name)) for name in names) for row in rows), names)


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
    table: Table,
    sources: ColumnChoice,
    targets: ColumnChoice,
    features: ColumnChoice = NO_FEATURES,
    *,
    has_numbers: bool = False,
    decimal_mark: DecimalMark | None = None,
) -> Corpus:
    """Return the pairs of a table. A source has its features after tabs. Blank rows are dropped and
    listed. If the targets are numbers (`has_numbers`), so are rows with anything else. UserError if
    there are no pairs, or if a column is not recognised."""
    if not table.rows:
        raise UserError(f"{NAME} has no rows: {EXPECTED}")
    names = table.names or tuple(str(number + 1) for number in range(len(table.rows[0])))
    source, target = _columns(names, sources, targets)
    feature_columns = _column_numbers(names, features, targets)
    for number in feature_columns:
        if number in (*source, *target):
            raise UserError(
                f"{NAME}: column {names[number]!r} is read as features ({features.option}) and as "
                f"{'source' if number in source else 'target'}: choose another column"
            )
    forms, remarks = list[NumberForm](), list[str]()
    for number in target if has_numbers else ():
        cells = [row[number] for row in table.rows]
        forms.append(NumberForm.of(cells, decimal_mark))
        remarks.append(undecided_mark(forms[-1], cells, f"{NAME}, column {names[number]}"))
    pairs = _pairs(_rows(table), (source, target), feature_columns, forms)
    corpus = Corpus.of(pairs, tuple(filter(None, remarks)))
    units = tuple(form.unit for form in forms) if has_numbers else None
    if not corpus.pairs:
        raise UserError(f"{NAME} has no pairs: {'; '.join(corpus.left_out.summary())}")
    return replace(corpus, units=units)


def _rows(table: Table) -> Iterator[Row]:
    """Yield the rows, numbered from 1. Rows that are no examples have a fault, as in files. No
    second table is searched: a blank row of a data frame is a row of missing values."""
    rows = (Row(cells, number) for number, cells in enumerate(table.rows, start=1))
    names = [] if table.names is None else [Row(table.names, 0)]
    for row in islice(marked(chain(names, rows)), len(names), None):
        if row.cells == table.names:
            yield replace(row, fault="repeated header")
        else:
            yield replace(row, fault=None) if row.fault == "other table" else row


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


def _columns(
    names: tuple[str, ...], sources: ColumnChoice, targets: ColumnChoice
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the columns of sources and targets, from 0. The names of columns
    without names are their numbers from 1."""
    by_name = [
        _column_numbers(names, choice, opposite)
        for choice, opposite in ((sources, targets), (targets, sources))
    ]
    if set(by_name[0]) & set(by_name[1]):
        raise UserError(
            f"{NAME}: source and target are both column {names[by_name[0][0]]}: set "
            f"{sources.option} and {targets.option}"
        )
    if all(by_name):
        return by_name[0], by_name[1]
    if len(names) == 2 and not sources.chosen and not targets.chosen:
        return (0,), (1,)
    choice = targets if by_name[0] else sources
    raise UserError(
        f"{NAME} has the columns {', '.join(names)[:200]}: name the column with {choice.option}"
    )


def _column_numbers(
    names: tuple[str, ...], choice: ColumnChoice, opposite: ColumnChoice
) -> tuple[int, ...]:
    """Return the numbers of the chosen columns, or of the first usual one; empty if there is none.
    UserError for a chosen name that no column has."""
    if not choice.chosen:
        usual = [name for name in choice.usual if name not in map(str.lower, opposite.chosen)]
        number = find_column(names, usual)
        return () if number is None else (number,)
    numbers = []
    for name in choice.chosen:
        number = column_number(name, names, len(names))
        if number is None:
            raise UserError(
                f"{NAME} has no column {name!r} ({choice.option}): the columns are "
                f"{', '.join(names)[:200]}"
            )
        numbers.append(number)
    return tuple(numbers)


def _pairs(
    rows: Iterable[Row],
    pair: tuple[tuple[int, ...], tuple[int, ...]],
    features: tuple[int, ...],
    forms: Sequence[NumberForm] = (),
) -> Iterator[Pair | LineProblem]:
    for each in rows:
        row, number = each.cells, each.line
        sides = [[row[column] for column in columns] for columns in pair]
        fault = each.fault or _fault_of(list(chain.from_iterable(sides)))
        for place, form in enumerate(forms if fault is None else ()):
            plain = form.plain_words(sides[1][place])
            fault = fault or (form.fault(sides[1][place]) if plain is None else None)
            sides[1][place] = plain or ""
        if fault is None:
            source = "\t".join([" ".join(sides[0]), *(row[column] for column in features)])
            yield Pair(source, " ".join(sides[1]), number, NAME)
        else:
            yield LineProblem(NAME, number, fault, " ".join(row))


def _fault_of(cells: Sequence[str]) -> Fault | None:
    """Return the reason why the cells of a pair cannot be used."""
    if any(map(is_blank_text, cells)):
        return "blank"
    if any("\0" in cell for cell in cells):
        return "NUL"
    return "not UTF-8" if any(map(SURROGATE.search, cells)) else None
