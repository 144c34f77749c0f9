"""Choices of columns that the data do not decide, or that another column decides.

- Several columns of labels suit alike.
- Sources have several targets, and a further column decides which: the features of an inflected
  form, the language or the part of speech. Columns about the origin of a row, such as numbers,
  dates and annotators, decide nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.data.recognition.associations import predictability
from regard.data.recognition.header import ORIGIN_NAMES
from regard.data.recognition.kinds import FEW_ROWS, ColumnKinds

MIN_AMBIGUOUS = 0.05
"""Share of rows whose source has several targets."""
MIN_DECIDED = 0.95
"""Share of these rows whose target the further columns decide."""
MIN_CROSSED = 0.5
"""Mean share of the values of a column that a source with several targets has: all languages, say.
Above it the column is not about the origin of single rows."""
MIN_PREDICTED = 0.25
"""Share of a column's variation that the endings and words of the targets explain."""
BUNDLE = re.compile(r"[^;|\s]+(?:[;|][^;|\s]+)+")
MIN_ROWS_PER_VALUE = 3
"""Smallest mean number of rows of each value of the column."""


@dataclass(frozen=True)
class Ambiguity:
    """Columns among which the user has to choose."""

    columns: tuple[int, ...]
    """Columns, from 0."""
    reason: str
    are_features: bool = False
    """Whether the columns are features of the source, in place of targets."""

    def describe(self, name_of: Callable[[int], str]) -> str:
        """Return a sentence with the option that decides, from the names of columns."""
        names = list(map(name_of, self.columns))
        if self.are_features:
            is_one = len(names) == 1
            noun, verb = ("column", "decides") if is_one else ("columns", "decide")
            return (
                f"{self.reason}, and the {noun} {' and '.join(names)} {verb} which: read "
                f"{'it' if is_one else 'them'} with the sources (--data.feature-columns "
                f"{' '.join(names)})"
            )
        return (
            f"the columns {', '.join(names)} {self.reason}, and a run learns one of them: name it "
            f"with --data.target-column, such as --data.target-column {names[-1]}"
        )


def find_deciding_columns(table: ColumnKinds, source: int, target: int) -> Ambiguity | None:
    """Return the columns that decide which target a source has; None without such columns, and if
    features are read."""
    if table.features or max(source, target) >= len(table.cells):
        return None
    pairs = list(zip(table.cells[source], table.cells[target], strict=True))
    targets_of: defaultdict[str, set[str]] = defaultdict(set)
    for text, output in pairs:
        targets_of[text].add(output)
    rows = [
        number
        for number, (text, output) in enumerate(pairs)
        if text and output and len(targets_of[text]) > 1
    ]
    if len(rows) < max(FEW_ROWS / 2, MIN_AMBIGUOUS * table.num_rows):
        return None
    columns = [
        column
        for column in table.useful
        if column not in (source, target) and _may_decide(table, column, rows, source, target)
    ]
    single: list[tuple[int, ...]] = [
        (column,) for column in columns if _decide(table, (column,), rows, source, target)
    ]
    chosen = single[:1] or ([tuple(columns)] if len(columns) > 1 else [])
    if not chosen or not _decide(table, chosen[0], rows, source, target):
        return None
    reason = f"sources have several targets ({len(rows):,} of {table.num_rows:,} rows)"
    return Ambiguity(chosen[0], reason, are_features=True)


def _may_decide(
    table: ColumnKinds, column: int, rows: Sequence[int], source: int, target: int
) -> bool:
    """Return whether the values of a column repeat and belong to the targets: each source has most
    of them, or the targets show them."""
    if table.name(column) in ORIGIN_NAMES or table.kinds[column] not in ("text", "code"):
        return False
    cells = table.cells[column]
    if table.is_full(column) and _are_bundles(cells):
        return True
    if not table.is_full(column) or table.num_values(column) * MIN_ROWS_PER_VALUE > len(cells):
        return False
    values: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        values[table.cells[source][row]].add(cells[row])
    crossed = sum(map(len, values.values())) / len(values) / table.num_values(column)
    if crossed >= MIN_CROSSED and table.kinds[column] == "text":
        return True
    shapes = [_shape(table.cells[target][row]) for row in rows]
    return predictability(shapes, [cells[row] for row in rows], has_numbers=False) >= MIN_PREDICTED


def _are_bundles(cells: Sequence[str]) -> bool:
    """Return whether most cells are bundles of features, such as V;IND;1;PL, with few values."""
    bundles = [cell for cell in cells if BUNDLE.fullmatch(cell)]
    values = {value for cell in bundles for value in re.split("[;|]", cell)}
    return 2 * len(bundles) > len(cells) and len(values) * MIN_ROWS_PER_VALUE <= len(cells)


def _decide(
    table: ColumnKinds, columns: Sequence[int], rows: Sequence[int], source: int, target: int
) -> bool:
    """Return whether sources with several targets have one for each value of the columns."""
    targets_of: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    keys = [tuple(table.cells[column][row] for column in (source, *columns)) for row in rows]
    for row, key in zip(rows, keys, strict=True):
        targets_of[key].add(table.cells[target][row])
    return sum(len(targets_of[key]) == 1 for key in keys) >= MIN_DECIDED * len(rows)


def _shape(text: str) -> str:
    """Return the words of a text, its beginning and its endings as words of a text."""
    parts = [f"b{text[:2]}", *(f"e{size}{text[-size:]}" for size in (1, 2, 3))]
    return " ".join([text, *("".join(filter(str.isalnum, part)) for part in parts)])
