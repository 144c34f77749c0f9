"""Cells with several labels, such as `sports|politics` or `["sports", "politics"]`.

A comma or a slash is part of many labels (`rock, pop`). It separates labels only where the parts
are the labels of other rows, or where few parts are combined in many ways and orders."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.characters import composed

FASTTEXT = "__label__"
"""Mark of a label in fastText's format."""
SEPARATORS = ("|", ";", ",")
"""Characters that usually separate labels."""
RARE_SEPARATORS = ("/", "+", "&", " ")
"""Characters that seldom do: the parts have to be labels of other rows in several ways."""
MIN_COMBINATIONS = 3
"""Number of different cells from which a rare separator is recognised."""
MIN_SHARE = 0.01
"""Share of rows from which a rare separator is recognised."""
MIN_KNOWN = 0.8
"""Share of rows with several labels whose parts are all labels of other rows."""
MANY = 0.5
"""Share of rows with a separator above which no part has to be a label of its own."""
MAX_PARTS = 200
"""Largest number of different parts."""
NEARLY_ALL = 0.9
"""Share of rows with lists above which lists are several labels."""
LIST = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|(<[^<>/]+>)+")
QUOTED = re.compile(r""" "([^"]*)" | '([^']*)' """, re.VERBOSE)
_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")


class ListText(str):
    """Cell that is a list in its file, with spaces between the items."""

    __slots__ = ("is_nested", "items")
    items: tuple[str, ...]
    """Items that are not blank."""
    is_nested: bool
    """Whether items are lists or objects, such as spans of a text with their labels."""

    @classmethod
    def of(cls, items: Sequence[str], *, is_nested: bool) -> ListText:
        text = cls(" ".join(items))
        text.items = tuple(stripped for item in items if (stripped := item.strip()))
        text.is_nested = is_nested
        return text

    @property
    def has_several_labels(self) -> bool:
        """Whether a label with this text would be several labels, or labels of spans."""
        return self.is_nested or len(self.items) > 1


@dataclass(frozen=True)
class SeveralLabels:
    """Cells with several labels, and the labels of each."""

    cells: Mapping[str, tuple[str, ...]]
    names: frozenset[str]
    """All labels, those of other cells included."""


def texts_of(cell: str) -> tuple[str, ...]:
    """Return the items of a list of texts, most of which have several words; otherwise the cell."""
    if type(cell) is not ListText or 2 * sum(" " in item for item in cell.items) <= len(cell.items):
        return (cell,)
    return cell.items


def find_several_labels(
    counts: Counter[str], max_labels: int = sys.maxsize
) -> SeveralLabels | None:
    """Return the cells that have several labels, from the number of rows of each cell; None if none
    has, or if there are more than `max_labels` labels."""
    typed = [cell for cell in counts if type(cell) is ListText]
    if any(cell.has_several_labels for cell in typed):
        return _of_lists(typed)
    total = counts.total()
    lists = {cell: _items(cell) for cell in counts if LIST.fullmatch(cell)}
    if sum(counts[cell] for cell in lists) >= NEARLY_ALL * total > 0:
        several = {cell: items for cell, items in lists.items() if len(items) > 1}
        names = frozenset(name for items in lists.values() for name in items)
        return SeveralLabels(several, names) if several else None
    for separator in (*SEPARATORS, *RARE_SEPARATORS):
        several = _split(counts, separator, max_labels)
        if not several or not _may_separate(several, separator):
            continue
        single = {cell for cell in counts if cell not in several}
        if _is_separator(several, single, counts, separator):
            parts = frozenset(part for parts in several.values() for part in parts)
            return SeveralLabels(several, parts | single)
    return None


def _split(cells: Iterable[str], separator: str, max_labels: int) -> dict[str, tuple[str, ...]]:
    """Return the parts of the cells that have several; none for more than `max_labels` parts."""
    several, labels = {}, set[str]()
    for cell in cells:
        parts = _parts(cell, separator) if separator in cell else ()
        if len(parts) > 1:
            several[cell] = parts
        labels.update(several.get(cell, (cell,)))
        if len(labels) > max_labels:
            return {}
    return several


def _of_lists(cells: Sequence[ListText]) -> SeveralLabels | None:
    """Return the cells whose lists have several labels; None if items occur twice in a list, as
    words and numbers of a series do."""
    if not any(cell.is_nested for cell in cells) and any(
        len(set(cell.items)) < len(cell.items) for cell in cells
    ):
        return None
    several: dict[str, tuple[str, ...]] = {
        cell: cell.items for cell in cells if cell.has_several_labels
    }
    return SeveralLabels(several, frozenset(name for cell in cells for name in cell.items))


def _is_separator(
    several: Mapping[str, Sequence[str]], single: set[str], counts: Counter[str], separator: str
) -> bool:
    """Return whether the parts of cells are labels."""
    num_rows = sum(counts[cell] for cell in several)
    num_known = sum(counts[cell] for cell, parts in several.items() if single.issuperset(parts))
    is_known = num_known >= MIN_KNOWN * num_rows
    if separator in RARE_SEPARATORS:
        is_frequent = num_rows >= MIN_SHARE * counts.total()
        return is_known and is_frequent and len(several) >= MIN_COMBINATIONS
    return is_known or (num_rows > MANY * counts.total() and _are_combined(several))


def _are_combined(several: Mapping[str, Sequence[str]]) -> bool:
    """Return whether few parts are combined in many ways, and occur at several places: not two
    labels of different kinds, such as aspect and polarity."""
    places: dict[str, set[int]] = {}
    for parts in several.values():
        for place, part in enumerate(parts):
            places.setdefault(part, set()).add(place)
    num_movable = sum(len(each) > 1 for each in places.values())
    return len(places) < min(len(several), MAX_PARTS) and 3 * num_movable >= len(places)


def _may_separate(several: Mapping[str, Sequence[str]], separator: str) -> bool:
    """Return whether a separator does not belong to numbers: to dates, fractions, thousands, or
    decimals, which have two parts."""
    if not all(_NUMBER.fullmatch(part) for parts in several.values() for part in parts):
        return True
    return separator in ("|", ";") or (
        separator == "," and any(len(parts) > 2 for parts in several.values())
    )


def _parts(cell: str, separator: str) -> tuple[str, ...]:
    """Return the parts of a cell; none if a part is blank."""
    parts = tuple(composed(part) for part in cell.split(separator))
    return parts if all(parts) and len(set(parts)) == len(parts) else ()


def _items(cell: str) -> tuple[str, ...]:
    """Return the items of a list, such as ["a", "b"], [a, b] or <a><b>."""
    quoted = ["".join(groups) for groups in QUOTED.findall(cell)]
    items = quoted or re.split("><" if cell.startswith("<") else "[,;]", cell[1:-1])
    return tuple(composed(item) for item in items if item.strip())
