"""Columns of a table and their kinds: texts, numbers, dates, codes, and columns without
information."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING
from unicodedata import normalize

from regard.data.files.tables import TableSettings, column_number, find_column
from regard.data.recognition.decimals import NEARLY_ALL as NEARLY_ALL_NUMBERS
from regard.data.recognition.decimals import (
    NumberForm,
    NumberText,
    is_count,
    is_missing,
    is_number,
    split_plain,
)
from regard.data.recognition.header import (
    CLASS_NAMES,
    DATE,
    FEELING_NAMES,
    QUANTITY_NAMES,
    has_name_of,
    names_codes,
)
from regard.data.recognition.other_rows import without_other_rows
from regard.data.several_labels import ListText, find_several_labels
from regard.names import ColumnKind

if TYPE_CHECKING:
    from regard.data.recognition.table import Table

FEW_ROWS = 20
"""Number of rows below which kinds of columns and the task are not recognised."""
NEARLY_ALL = 0.9
"""Share of cells that decides about a column."""
MAX_CELLS = 500
"""Number of cells from which a kind is recognised, at equal distances in the column."""
MAX_LABELS = 200
"""Largest number of different labels."""
MAX_NUMBER_LABELS = 20
"""Largest number of different numbers that are labels, such as grades."""
MIN_ROWS_PER_LABEL = 10
"""Smallest mean number of rows of a label."""
MAX_LABELS_LENGTH = 100
"""Largest median number of characters of a cell with several labels."""
MIN_ROWS_PER_ID = 5
"""Smallest number of rows of each number that is the number of a class."""
MIN_REPEATED = 2
"""Smallest mean number of rows of a label in a column with a usual name of labels."""
MAX_LABEL_WORDS = 3
"""Largest median number of words of a label."""
IMAGE = re.compile(r"\.(jpe?g|png|webp|gif|bmp|tiff?)(#\d+)?$", re.IGNORECASE)
WHOLE = re.compile(r"-?\d{1,15}(\.0)?")
"""Whole number. Data frames write those of a column with missing values as 3.0."""
LEADING_ZERO = re.compile(r"0\d")
"""Beginning of an article number, a postal code or another number that is no quantity."""
ADDRESS = re.compile(r"([a-z][a-z\d+.-]*://|www\.|mailto:)\S+|\S+@\S+\.\w+", re.IGNORECASE)
"""Address of a page, or of mail."""
MAX_ADDRESS = 300
"""Largest number of characters of an address that is recognised."""


class ColumnKinds:
    """Kinds of the columns of a table, without comments and summaries. A useful column does not
    count rows, is not constant and is not mostly blank."""

    def __init__(
        self, table: Table, settings: TableSettings, columns: tuple[int | None, int | None]
    ) -> None:
        """Inspect a table. `columns`: source and target, if they are set."""
        rows = without_other_rows(table.rows)
        self.header, self.categories = table.header, table.categories
        self.source, self.target = columns
        self.target_kind = settings.target
        self.num_rows = len(rows)
        self.num_all = table.num_rows or len(rows)
        num_columns = max(map(len, rows), default=2)
        names = settings.feature_columns or ()
        features = [column_number(name, table.header, table.width) for name in names]
        self.features = tuple(number for number in features if number is not None)
        self.cells = [
            [_cell(row[column]) if len(row) > column else "" for row in rows]
            for column in range(num_columns)
        ]
        mark, usual = settings.decimal_mark, table.form.usual_mark
        self.forms = [NumberForm.of(cells, mark, usual) for cells in self.cells]
        others = [column for column in range(num_columns) if column not in self.features]
        self.useful = [column for column in others if self._is_useful(column)]
        if len(self.useful) < 2:
            self.useful = others

    @cached_property
    def kinds(self) -> list[ColumnKind]:
        """Kinds of all columns."""
        return [kind_of(*column) for column in zip(self.cells, self.forms, strict=True)]

    @cached_property
    def targets(self) -> list[int]:
        """Useful columns with labels or numbers, apart from dates and the given source. Without a
        header, numbers with a unit in the first column are sources: 12 km, twelve kilometres."""
        has_units = self.forms[0].fits and self.forms[0].unit
        spelled = 0 if self.header is None and has_units else None
        return [
            column
            for column in self.useful
            if column not in (self.source, spelled)
            and (self.is_quantity(column) or self.has_labels(column))
            and self.kinds[column] != "date"
        ]

    @cached_property
    def texts(self) -> list[int]:
        """Useful columns of texts, without those that have few different values."""
        return [
            column
            for column in self.useful
            if self.kinds[column] == "text" and not self.has_labels(column)
        ]

    def _is_useful(self, column: int) -> bool:
        is_set = column in (self.source, self.target)
        if is_set or self.num_rows < FEW_ROWS:
            return True
        return self.have_classes[column] or is_informative(self.cells[column], self.num_all)

    def numbers(self, column: int) -> list[str]:
        """Return the cells of a column of numbers as Python writes numbers, and blank texts for the
        other cells."""
        return [self.forms[column].plain(cell) or "" for cell in self.cells[column]]

    def images(self) -> list[int]:
        """Return the columns with names of images."""
        return [
            column
            for column in self.useful
            if sum(bool(IMAGE.search(cell)) for cell in self.cells[column])
            > NEARLY_ALL * self.num_rows
        ]

    def named(self, names: Sequence[str]) -> int | None:
        """Return the useful column with one of these names."""
        column = find_column(self.header, names) if self.header is not None else None
        return column if column in self.useful else None

    def name(self, column: int) -> str:
        """Return the name of a column in lower case; blank if it has none."""
        is_named = self.header is not None and len(self.header) > column
        return self.header[column].strip().lower() if self.header and is_named else ""

    def num_values(self, column: int) -> int:
        """Return the number of different cells of a column that are not blank."""
        return len(set(self.cells[column]) - {""})

    def is_full(self, column: int) -> bool:
        """Return whether nearly all cells of a column are filled."""
        return sum(map(bool, self.cells[column])) >= NEARLY_ALL * self.num_rows

    def length(self, column: int) -> int:
        """Return the number of characters of a column."""
        return sum(map(len, self.cells[column]))

    def amount(self, column: int) -> int:
        """Return the number of characters in the different cells of a column."""
        return sum(map(len, set(self.cells[column])))

    @cached_property
    def have_classes(self) -> list[bool]:
        """Whether each column has labels by its type or by its name."""
        return list(map(self._has_classes, range(len(self.cells))))

    def _has_classes(self, column: int) -> bool:
        """Return whether a column has the type of categories, or a usual name of labels or codes
        and values that occur again. A column with a name of labels may be constant or mostly
        blank."""
        name, cells = self.name(column), self._filled[column]
        is_named = (
            has_name_of(name, CLASS_NAMES)
            or (has_name_of(name, FEELING_NAMES) and not all(map(is_number, cells)))
            or (names_codes(name) and is_informative(self.cells[column], self.num_all))
        )
        if not is_named and column not in self.categories:
            return False
        if not cells or MIN_REPEATED * len(set(cells)) > len(cells):
            return False
        is_whole = are_whole(cells)
        are_words = median(len(cell.split()) for cell in cells) <= MAX_LABEL_WORDS
        return is_whole or (are_words and not all(map(is_number, cells)))

    @cached_property
    def _filled(self) -> list[list[str]]:
        """Cells of the columns without blank ones and marks of missing values."""
        return [[cell for cell in cells if not is_missing(cell)] for cells in self.cells]

    def may_be_classes(self, column: int) -> bool:
        """Return whether a column has whole numbers from 0 or 1 without gaps, each in several rows,
        and no usual name of a quantity: numbers of classes, unless the texts say otherwise."""
        counts = Counter(self._filled[column])
        largest = min(MAX_LABELS, self.num_rows / MIN_ROWS_PER_LABEL)
        is_named = has_name_of(self.name(column), QUANTITY_NAMES)
        if is_named or not 1 < len(counts) <= largest:
            return False
        if not all(map(WHOLE.fullmatch, counts)) or min(counts.values()) < MIN_ROWS_PER_ID:
            return False
        numbers = sorted(int(float(number)) for number in counts)
        return numbers[0] in (0, 1) and numbers[-1] - numbers[0] + 1 == len(numbers)

    def has_labels(self, column: int) -> bool:
        """Return whether a column has few different values of few words, or classes."""
        if self.have_classes[column]:
            return True
        cells = self.cells[column]
        num_values = self.num_values(column)
        is_small = num_values <= min(MAX_LABELS, self.num_rows / MIN_ROWS_PER_LABEL)
        if column in self.with_several_labels:
            return True
        return (
            num_values > 1
            and is_small
            and median(len(cell.split()) for cell in cells) <= MAX_LABEL_WORDS
        )

    @cached_property
    def with_several_labels(self) -> frozenset[int]:
        """Columns with few labels, several in some cells."""
        return frozenset(column for column in self.useful if self._has_several_labels(column))

    def _has_several_labels(self, column: int) -> bool:
        cells = self.cells[column]
        is_named = has_name_of(self.name(column), CLASS_NAMES)
        lists = [cell for cell in cells if type(cell) is ListText and cell.has_several_labels]
        if any(is_named or cell.is_nested for cell in lists):
            return True
        if self.num_rows < FEW_ROWS or median(map(len, cells)) > MAX_LABELS_LENGTH:
            return False
        max_labels = min(MAX_LABELS, self.num_rows // MIN_ROWS_PER_LABEL)
        labels = find_several_labels(Counter(cell for cell in cells if cell), max_labels)
        return labels is not None and len(labels.names) <= max_labels

    def is_quantity(self, column: int) -> bool:
        """Return whether a column has numbers, with too many different values for labels, that are
        no numbers of classes."""
        if self.have_classes[column] or self.may_be_classes(column):
            return False
        max_labels = min(MAX_NUMBER_LABELS, self.num_rows / MIN_ROWS_PER_LABEL)
        is_set = column == self.target
        are_quantities = is_set or self.kinds[column] == "number"
        has_many = self.num_values(column) > max_labels
        are_numbers = has_many and are_quantities and self.forms[column].fits
        return are_numbers and column not in self.with_several_labels


def are_whole(cells: Sequence[str]) -> bool:
    """Return whether nearly all cells are whole numbers."""
    return sum(map(bool, map(WHOLE.fullmatch, cells))) >= NEARLY_ALL_NUMBERS * len(cells)


def kind_of(cells: Sequence[str], form: NumberForm) -> ColumnKind:
    """Return the kind of a column, from its cells and the form of its numbers."""
    if form.fits:
        return "code" if _has_leading_zeros(cells) else "number"
    tests: dict[ColumnKind, Callable[[str], bool]] = {
        "date": lambda cell: DATE.fullmatch(cell) is not None,
        "series": is_series,
        "code": is_code,
    }
    filled = [cell for cell in cells if cell]
    filled = filled[:: -(-len(filled) // MAX_CELLS) or 1]
    if are_items(filled):
        return "items"
    for kind, fits in tests.items():
        if sum(map(fits, filled)) > NEARLY_ALL * len(filled):
            return kind
    return "text"


def is_informative(cells: Sequence[str], num_rows: int | None = None) -> bool:
    """Return whether a column is filled by half, not constant, and does not number the rows, in
    order or not. The cells may be a sample of a column with this number of rows."""
    if 2 * sum(not cell for cell in cells) >= len(cells) or len(set(cells)) == 1:
        return False
    return not (is_count(cells) or _numbers_rows(cells, num_rows or len(cells)))


def _numbers_rows(cells: Sequence[str], num_rows: int) -> bool:
    """Return whether the cells are different whole numbers, and nearly all numbers between the
    smallest and the largest are in this number of rows: row numbers, perhaps in another order."""
    if not all(cell.isdecimal() and len(cell) < 16 for cell in cells):
        return False
    numbers = {*map(int, cells)}
    num_possible = max(numbers) - min(numbers) + 1
    return len(numbers) == len(cells) and num_rows >= NEARLY_ALL * num_possible


def _has_leading_zeros(cells: Sequence[str]) -> bool:
    """Return whether cells begin with a zero and another digit: more than a few of them, or all
    cells are whole numbers of equal length."""
    num_zeros = sum(LEADING_ZERO.match(cell) is not None for cell in cells)
    filled = [cell for cell in cells if not is_missing(cell)]
    is_even = len({*map(len, filled)}) == 1 and all(map(str.isdecimal, filled))
    return num_zeros > 0 and (is_even or num_zeros > (1 - NEARLY_ALL_NUMBERS) * len(filled))


def _cell(text: str) -> str:
    """Return the text of a cell in NFC, without white space around it."""
    return text if type(text) in (NumberText, ListText) else normalize("NFC", text.strip())


def is_code(text: str) -> bool:
    """Return whether a text is an address, or has as many digits as letters: an article number, a
    call number, a version."""
    if len(text) <= MAX_ADDRESS and ADDRESS.fullmatch(text):
        return True
    num_digits = sum(map(str.isdecimal, text))
    return num_digits > 0 and num_digits >= sum(map(str.isalpha, text))


def is_series(text: str) -> bool:
    """Return whether a text is a series of numbers, with commas between features."""
    values = re.split(r"[\s,]+", text.strip())
    return bool(text.strip()) and all(map(is_number, values))


def are_items(cells: Sequence[str]) -> bool:
    """Return whether nearly all cells are lists with a number for each item, and one has several
    items. A number at the end of each text makes no list."""
    has_several = any(";" in cell for cell in cells)
    return has_several and sum(map(_is_items, cells)) >= NEARLY_ALL_NUMBERS * len(cells)


def _is_items(text: str) -> bool:
    """Return whether a text is a list such as "cola 1.20; bread 0.80$"."""
    items = [item.split() for item in text.split(";") if item.strip()]
    return bool(items) and all(len(item) > 1 and _ends_in_number(item) for item in items)


def _ends_in_number(words: Sequence[str]) -> bool:
    """Return whether the last word is a number, or the last two are a number and its unit."""
    return any(split_plain(" ".join(words[-count:])) is not None for count in (1, 2))
