"""Task of a file and the roles of its columns, from its first rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from statistics import mean, median

from regard.data.files.decimals import (
    has_decimal_commas,
    has_decimal_point,
    has_thousands,
    with_points,
    without_thousands,
)
from regard.data.files.header import (
    CAPTION_NAMES,
    LABEL_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
    is_number,
)
from regard.data.files.tables import find_column
from regard.data.files.units import unit_of, without_units
from regard.names import TASK_RECIPES, TaskName

IMAGE = re.compile(r"\.(jpe?g|png|webp|gif|bmp|tiff?)(#\d+)?$", re.IGNORECASE)
FEW_ROWS = 20
"""Number of rows below which the task is not recognised."""
NEARLY_ALL = 0.9
"""Share of cells that decides about a column."""
MAX_LABELS = 200
MIN_ROWS_PER_LABEL = 10
"""Smallest mean number of rows of a label."""
MAX_LABEL_WORDS = 3
"""Largest median number of words of a label."""
FEW_PAIRS = 5000
"""Number of pairs below which short sources are read letter by letter."""
MAX_SHORT_LENGTH = 40
"""Largest mean number of letters of a short source."""
MAX_SYMBOLS = 200
"""Largest number of different symbols in targets with spaces between symbols."""
MAX_SYMBOL_LENGTH = 2.5
"""Largest mean number of letters of such a symbol."""


@dataclass(frozen=True)
class Roles:
    """Task of a file, the columns that are read, and the recipe and fields that suit them."""

    task: TaskName
    recipe: str
    source: int
    """Column of the sources, from 0."""
    target: int
    """Column of the targets, from 0."""
    title: str
    """Task for messages, with the counts that decided."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of the experiment that the rows decide, by full names."""
    is_recognised: bool = True
    """Whether the columns fit the task."""


def assign_roles(
    header: Sequence[str] | None,
    rows: Sequence[Sequence[str]],
    task: TaskName | None = None,
    columns: tuple[int | None, int | None] = (None, None),
    *,
    features: Collection[int] = (),
    may_have_commas: bool = False,
) -> Roles:
    """Return the roles of a table with these rows: captions if a column has names of images, labels
    if a column has few different values, values if the targets are numbers, otherwise pairs. The
    task and the columns of source and target may be given. `features`: columns that are neither.
    `may_have_commas`: numbers of targets may have decimal commas."""
    table = _Table(header, rows, columns, features, may_have_commas=may_have_commas)
    rules = {"caption": _captions, "classify": _labels, "translate": _pairs}
    if task is not None:
        return rules[task](table) or _unrecognised(table, task)
    if table.source is None or table.source in table.images():
        roles = _captions(table)
        if roles is not None:
            return roles
    roles = _labels(table) if len(rows) >= FEW_ROWS else None
    return roles or _pairs(table)


class _Table:
    """Columns of a table, without those that count rows, are constant or are mostly blank."""

    def __init__(
        self,
        header: Sequence[str] | None,
        rows: Sequence[Sequence[str]],
        columns: tuple[int | None, int | None],
        features: Collection[int] = (),
        *,
        may_have_commas: bool,
    ) -> None:
        self.header = header
        self.num_rows = len(rows)
        num_columns = max(map(len, rows), default=2)
        self.cells = [
            [row[column].strip() if len(row) > column else "" for row in rows]
            for column in range(num_columns)
        ]
        self.source, self.target = columns
        others = [column for column in range(num_columns) if column not in features]
        self.useful = [column for column in others if self._is_useful(column)]
        if len(self.useful) < 2:
            self.useful = others
        self.bare = [without_units(cells) for cells in self.cells]
        self.may_have_commas = may_have_commas
        self.with_commas = self._columns_with_commas() if may_have_commas else frozenset[int]()

    def _columns_with_commas(self) -> frozenset[int]:
        """Return the columns of numbers with decimal commas; none if a column of numbers has
        decimal points."""
        numbers = chain.from_iterable(cells for cells in self.bare if _are_numbers(cells))
        if any(map(has_decimal_point, numbers)):
            return frozenset()
        return frozenset(
            column
            for column, cells in enumerate(self.bare)
            if has_decimal_commas(cells) and _are_numbers(list(map(with_points, cells)))
        )

    def numbers(self, column: int) -> list[str]:
        """Return the cells of a column without a unit, and with decimal points in its numbers."""
        cells = self.bare[column]
        if column in self.with_commas:
            return list(map(with_points, cells))
        if has_thousands(cells, may_have_commas=self.may_have_commas):
            return list(map(without_thousands, cells))
        return cells

    def _is_useful(self, column: int) -> bool:
        cells = self.cells[column]
        if column in (self.source, self.target):
            return True
        if self.num_rows < FEW_ROWS:
            return True
        is_blank = 2 * sum(not cell for cell in cells) >= self.num_rows
        return not (is_blank or is_count(cells) or len(set(cells)) == 1)

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

    def num_values(self, column: int) -> int:
        """Return the number of different cells of a column that are not blank."""
        return len(set(self.cells[column]) - {""})


def num_columns_of_numbers(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Return the number of columns of numbers, and of other columns, without those that count rows,
    are constant or are mostly blank."""
    table = _Table(None, rows, (None, None), may_have_commas=True)
    numbers = [_are_numbers(table.numbers(column)) for column in table.useful]
    return sum(numbers), len(numbers) - sum(numbers)


def is_count(cells: Sequence[str]) -> bool:
    """Return whether the cells are whole numbers that rise by one, such as row numbers."""
    if len(cells) < 3 or not all(cell.isdecimal() and len(cell) < 16 for cell in cells):
        return False
    return all(second - first == 1 for first, second in pairwise(map(int, cells)))


def _captions(table: _Table) -> Roles | None:
    images = table.images()
    source = table.source if table.source is not None else next(iter(images), None)
    if source is None or not table.num_rows:
        return None
    others = [column for column in table.useful if column != source]
    named = table.named(CAPTION_NAMES)
    target = table.target
    if target is None and named is not None and named != source:
        target = named
    if target is None:
        target = max(others, key=lambda column: _length(table.cells[column]), default=None)
    if target is None:
        return None
    num_images = table.num_values(source)
    return Roles("caption", "captions", source, target, f"captions ({num_images:,} images)")


def _labels(table: _Table) -> Roles | None:
    """Return the roles of texts with labels or numbers; None if no column has few values and
    another has many."""
    target = table.target
    if target is None:
        few = [column for column in table.useful if _has_labels(table, column)]
        few = [column for column in few if column != table.source]
        named = table.named(LABEL_NAMES)
        target = named if named in few else next(reversed(few), None)
    if target is None:
        return _values(table)
    source = table.source
    others = [column for column in table.useful if column != target]
    if source is None:
        named = table.named([name for name in TEXT_NAMES if name != _name(table, target)])
        source = named if named in others else None
    is_set = table.target is not None or table.source is not None
    if source is None:
        different = [column for column in others if 2 * table.num_values(column) > table.num_rows]
        candidates = different or (others if is_set else [])
        source = max(candidates, key=lambda column: _length(table.cells[column]), default=None)
    if source is None:
        return None
    if not is_set and 2 * table.num_values(source) <= table.num_rows:
        return None
    if _is_quantity(table, target):
        return _numbers(table, source, target)
    if is_set and not _has_labels(table, target):
        return None
    cells = table.cells[source], table.cells[target]
    examples = [(text, label) for text, label in zip(*cells, strict=True) if text and label]
    num_labels = len({label for _, label in examples})
    title = f"labels ({num_labels:,} in {len(examples):,} rows)"
    return Roles("classify", "labels", source, target, title)


def _values(table: _Table) -> Roles | None:
    """Return the roles of sources with a number each: the last column of numbers is the target. The
    source is the column of series, of items or of texts, not of dates or codes without letters."""
    numbers = [
        column for column in table.useful if column != table.source and _is_quantity(table, column)
    ]
    if not numbers or len(table.useful) < 2:
        return None
    named = table.named(LABEL_NAMES)
    target = named if named in numbers else numbers[-1]
    others = [column for column in table.useful if column != target]
    sources = [column for column in others if _has_sources(table.numbers(column))]
    if table.source is not None:
        return _numbers(table, table.source, target)
    named_text = table.named([name for name in TEXT_NAMES if name != _name(table, target)])
    has_targets = named not in (None, *numbers) or table.named(TARGET_NAMES) is not None
    is_clear = named in numbers or (named_text in sources and not has_targets)
    if len(sources) > 1 and not is_clear:
        return None  # pairs with a number each
    source = named_text if named_text in sources else next(iter(sources or others), None)
    if source is None or source in table.with_commas or unit_of(table.cells[source]):
        return None
    return _numbers(table, source, target)


def _is_quantity(table: _Table, column: int) -> bool:
    """Return whether a column has numbers, with too many different values for labels."""
    max_labels = min(FEW_ROWS, table.num_rows / MIN_ROWS_PER_LABEL)
    return _are_numbers(table.numbers(column)) and table.num_values(column) > max_labels


def _has_sources(cells: Sequence[str]) -> bool:
    """Return whether most cells are texts with letters, or series of several numbers."""
    num_texts = sum(any(map(str.isalpha, cell)) for cell in cells)
    num_series = sum(_is_series(cell) and not is_number(cell) for cell in cells)
    return num_texts + num_series > len(cells) / 2


def _numbers(table: _Table, source: int, target: int) -> Roles:
    cells = table.cells[source]
    fields = {"data.target": "number"}
    if sum(map(_is_series, cells)) > NEARLY_ALL * len(cells):
        fields["data.source"] = "series"
    elif _is_list(cells) and sum(map(_is_items, cells)) > NEARLY_ALL * len(cells):
        fields["data.source"] = "items"
    else:
        fields["data.source"] = "text"
    kind = fields["data.source"]
    unit = unit_of(table.cells[target])
    units = f", in {unit}" if unit else ""
    commas = ", decimal commas" if target in table.with_commas else ""
    title = f"values (a number for each {_NOUNS[kind]}{units}{commas})"
    recipe = "drinks" if kind == "items" else "values"  # items have no order
    return Roles("classify", recipe, source, target, title, fields)


_NOUNS = {"series": "series", "items": "list of items", "text": "text"}


def _pairs(table: _Table) -> Roles:
    source, target = table.source, table.target
    if source is None and target is None:
        named = table.named(SOURCE_NAMES), table.named(TARGET_NAMES)
        if None not in named and named[0] != named[1]:
            source, target = named
    others = [column for column in table.useful if column not in (source, target)]
    if source is None:
        source = others.pop(0) if others else 0
    if target is None:
        target = others.pop(0) if others else 1 - min(source, 1)
    sources, targets = (
        table.cells[column] if column < len(table.cells) else [] for column in (source, target)
    )
    recipe, fields = _text_recipe(sources, targets, table.num_rows)
    title = (
        "pairs" if table.num_rows >= FEW_ROWS else "too few rows to recognise the task, so pairs"
    )
    return Roles("translate", recipe, source, target, title, fields)


def _text_recipe(
    sources: Sequence[str], targets: Sequence[str], num_rows: int
) -> tuple[str, dict[str, str]]:
    """Return the recipe for pairs: letters if the texts are single words, or few and short."""
    if not sources:
        return "letters", {}
    single = sum(len(cell.split()) == 1 for cell in sources) >= NEARLY_ALL * len(sources)
    target_words = [cell.split() for cell in targets]
    symbols = [symbol for words in target_words for symbol in words]
    if single and sum(len(words) == 1 for words in target_words) >= NEARLY_ALL * len(targets):
        return "letters", {}
    if (
        single
        and symbols
        and len(set(symbols)) <= MAX_SYMBOLS
        and mean(map(len, symbols)) <= MAX_SYMBOL_LENGTH
    ):
        return "letters", {"data.target_tokenizer": "spaces"}
    is_short = num_rows < FEW_PAIRS and mean(map(len, sources)) <= MAX_SHORT_LENGTH
    return ("letters" if is_short else "words"), {}


def _unrecognised(table: _Table, task: TaskName) -> Roles:
    """Return the roles of a file that does not look like the task that the user named: for labels
    the column with the fewest different values and the longest other one, otherwise the first
    two."""
    source, target = table.source, table.target
    if task == "classify" and target is None and table.num_rows >= FEW_ROWS:
        others = [column for column in table.useful if column != source]
        target = min(others, key=table.num_values, default=None)
    if task == "classify" and target is not None and source is None:
        others = [column for column in table.useful if column != target]
        source = max(others, key=lambda column: _length(table.cells[column]), default=None)
    source = 0 if source is None else source
    target = (1 if source == 0 else 0) if target is None else target
    recipe = TASK_RECIPES[task][0]
    return Roles(task, recipe, source, target, recipe, is_recognised=False)


def _name(table: _Table, column: int) -> str:
    is_named = table.header is not None and len(table.header) > column
    return table.header[column].strip().lower() if table.header and is_named else ""


def _has_labels(table: _Table, column: int) -> bool:
    """Return whether a column has few different values of few words, and no numbers of many
    values."""
    cells = table.cells[column]
    num_values = table.num_values(column)
    is_small = num_values <= min(MAX_LABELS, table.num_rows / MIN_ROWS_PER_LABEL)
    return (
        num_values > 1
        and is_small
        and median(len(cell.split()) for cell in cells) <= MAX_LABEL_WORDS
    )


def _length(cells: Sequence[str]) -> int:
    return sum(map(len, cells))


def _are_numbers(cells: Sequence[str]) -> bool:
    present = [cell for cell in cells if cell]
    return bool(present) and all(map(is_number, present))


def _is_series(text: str) -> bool:
    """Return whether a text is a series of numbers, with commas between features."""
    values = re.split(r"[\s,]+", text.strip())
    return bool(text.strip()) and all(map(is_number, values))


def _is_list(cells: Sequence[str]) -> bool:
    """Return whether a text has several items. A number at the end of each text makes no list."""
    return any(";" in cell for cell in cells)


def _is_items(text: str) -> bool:
    """Return whether a text is a list such as "cola 1.20; bread 0.80"."""
    items = [item.split() for item in text.split(";")]
    return all(len(item) > 1 and is_number(item[-1]) for item in items)
