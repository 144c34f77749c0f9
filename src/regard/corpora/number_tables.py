"""Tables of numbers, of which only one column would be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from regard.config import Data
from regard.corpora.table_settings import table_settings
from regard.data.examples import Pair
from regard.data.files.tables import TableSettings
from regard.data.recognition.decimals import is_number
from regard.data.recognition.inspection import can_inspect
from regard.data.recognition.kinds import ColumnKinds
from regard.data.recognition.roles import num_columns_of_numbers
from regard.data.recognition.table import Table, open_table

NUM_ROWS = 200
"""Number of pairs and rows that are compared."""
MIN_COLUMNS = 3
"""Number of columns of numbers from which one of them is not enough."""


def describe_numbers(config: Data, pairs: Iterable[Pair], table: Table | None) -> tuple[str, ...]:
    """Return a sentence if each source is one number of a table that has only columns of numbers,
    apart from its labels."""
    has_features = bool(getattr(config, "feature_columns", None))
    if has_features or not _are_numbers(config, list(islice(pairs, NUM_ROWS))):
        return ()
    table = _table(config) if table is None else table
    if table is None:
        return ()
    table = replace(table, header=None, rows=table.rows[:NUM_ROWS], num_rows=0)
    kinds = ColumnKinds(table, TableSettings(), (None, None))
    num_numbers, num_texts = num_columns_of_numbers(kinds)
    if num_numbers < MIN_COLUMNS or num_texts > 1:
        return ()
    name = " ".join(Path(table.name).name.split())
    return (
        f"{name}: the sources are one of {num_numbers} columns of numbers: write the numbers of "
        'each row into one column, as in "0.1 0.5 0.2", and train a number from them with `regard '
        "train values FILE`, or a label with `regard train values FILE --data.target label`",
    )


def _are_numbers(config: Data, pairs: Sequence[Pair]) -> bool:
    """Return whether the sources are numbers, and of pairs of texts the targets too."""
    is_translated = config.task == "translate"
    return bool(pairs) and all(
        is_number(pair.source) and (not is_translated or is_number(pair.target)) for pair in pairs
    )


def _table(config: Data) -> Table | None:
    """Return the table of a file; None for generated data, two files, a folder, or a pipe."""
    path = config.path
    if path is None or getattr(config, "target_path", None) or not can_inspect(path):
        return None
    return open_table(path, table_settings(config))
