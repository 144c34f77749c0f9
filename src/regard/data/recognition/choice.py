"""Columns that suit as source and target.

Usual names precede. Otherwise:

- A source carries information: it is the column of texts with the most letters in different cells.
  Codes, numbers and dates are sources only if no column has texts.
- A target is a column of few labels or of numbers. Of several, it is the one that is filled in
  nearly all rows and that the words of the source predict best; of similar ones, the last.
- Two columns of texts are pairs if their lengths correlate or their scripts differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from regard.data.recognition.ambiguity import Ambiguity
from regard.data.recognition.associations import predictability, translation_score
from regard.data.recognition.header import LABEL_NAMES, SOURCE_NAMES, TARGET_NAMES, TEXT_NAMES
from regard.data.recognition.kinds import MAX_NUMBER_LABELS, WHOLE, ColumnKinds

MIN_TEXTS_PER_LABEL = 3
"""Smallest mean number of different sources of a label, if the sources are few."""
MIN_PREDICTABILITY = 0.1
"""Share of a column's variation that words explain by chance in small tables."""
REPEATED_KINDS = ("text", "code", "number", "date")
"""Kinds of columns that have few texts, the best source first."""
SIMILAR = 0.1
"""Difference between shares of explained variation that does not decide."""
MIN_INDICATORS = 3
"""Number of columns with the same two values from which each is a label of its own."""
MAX_COMPARED = 10
"""Number of columns that are compared with each other."""


def source_column(table: ColumnKinds, target: int | None) -> int | None:
    """Return the column of texts for labels or numbers: a usual name, the most text, or, if there
    are no texts, another column of many values. None if no column suits."""
    others = [column for column in table.useful if column != target]
    texts = [column for column in others if has_texts(table, column)]
    own_name = None if target is None else table.name(target)
    named = table.named([name for name in TEXT_NAMES if name != own_name])
    if named in others and (named in texts or not texts):
        return named
    if texts:
        return max(texts, key=table.amount)
    fewest = min(map(table.num_values, table.targets if target is None else [target]), default=0)
    texts = [
        column
        for column in others
        if table.kinds[column] == "text"
        and table.num_values(column) >= MIN_TEXTS_PER_LABEL * fewest
    ]
    different = [column for column in others if 2 * table.num_values(column) > table.num_rows]
    is_set = target is not None or table.source is not None
    numbers = [column for column in others if table.is_quantity(column)]
    candidates = texts or different or (others if is_set else numbers)
    if table.header is None and not texts and len(candidates) == len(table.useful) == 2:
        return candidates[0]  # lines of SOURCE TAB TARGET, such as 1230 and 0321
    return min(candidates, key=lambda column: rank(table, column), default=None)


def has_texts(table: ColumnKinds, column: int) -> bool:
    """Return whether a column has many texts, series or lists."""
    kind = table.kinds[column]
    return column in table.texts or kind in ("series", "items")


def rank(table: ColumnKinds, column: int) -> tuple[int, int]:
    """Return how little a column suits as source: texts come first, in their order; then short
    texts that repeat, codes, numbers and dates, each by their amount."""
    if has_texts(table, column):
        return 0, 0
    return REPEATED_KINDS.index(table.kinds[column]) + 1, -table.amount(column)


class TargetChoice(NamedTuple):
    """Column of the target, the reason why it is uncertain, and the columns of labels among which
    the user has to choose."""

    column: int | None
    doubt: str = ""
    ambiguity: Ambiguity | None = None


def best_target(table: ColumnKinds, source: int, candidates: Sequence[int]) -> TargetChoice:
    """Return the target for a source, and the reason why the choice is uncertain, blank if it is
    not. The target has a usual name, or nearly all rows, and is the one that the source predicts
    best; of similar ones, the last column of labels. None if it is a number that the source does
    not predict, beside further texts."""
    names = {table.name(column): column for column in reversed(candidates)}
    for name in LABEL_NAMES:
        if name in names:
            return TargetChoice(names[name])
    pool = [column for column in candidates if table.is_full(column)] or list(candidates)
    pool = pool[-MAX_COMPARED:]
    has_one_text = len(table.texts) < 2 or table.name(source) in TEXT_NAMES
    if len(pool) == 1 and has_one_text:
        return TargetChoice(pool[0])
    scores = {column: _predictability(table, source, column) for column in pool}
    best = max(scores.values(), default=0.0)
    close = [column for column in pool if scores[column] >= best - SIMILAR]
    labels = [column for column in close if not table.is_quantity(column)]
    is_predicted = best >= MIN_PREDICTABILITY
    if not close or not (labels or is_predicted or has_one_text):
        return TargetChoice(None)
    target = (labels or close)[-1]
    ambiguity = _of_each_label(table, pool)
    different = [column for column in labels if column == target or _differ(table, column, target)]
    if ambiguity is None and len(different) > 1:
        ambiguity = Ambiguity(tuple(different), "suit alike as labels")
    doubt = ""
    if not is_predicted and (len(close) > 1 or not has_one_text):
        doubt = "the words of the source do not predict the target"
    elif len(close) > 1:
        doubt = "the words of the source predict several columns"
    return TargetChoice(target, doubt, ambiguity)


def _differ(table: ColumnKinds, first: int, second: int) -> bool:
    """Return whether the labels of two columns are not the same under other names."""
    num_pairs = len(set(zip(table.cells[first], table.cells[second], strict=True)))
    return num_pairs > max(table.num_values(first), table.num_values(second)) or (
        table.num_values(first) != table.num_values(second)
    )


def _of_each_label(table: ColumnKinds, columns: Sequence[int]) -> Ambiguity | None:
    """Return the columns with the same two values, if they are several: one for each of several
    labels of a text."""
    groups: dict[frozenset[str], list[int]] = {}
    for column in columns:
        groups.setdefault(frozenset(table.cells[column]) - {""}, []).append(column)
    for values, group in groups.items():
        if len(values) == 2 and len(group) >= MIN_INDICATORS:
            reason = f"all have the values {' and '.join(sorted(values))}"
            return Ambiguity(tuple(group), reason)
    return None


def are_one_to_one(table: ColumnKinds, source: int, target: int) -> bool:
    """Return whether sources repeat and have few different values for each target, so source and
    target are rather pairs."""
    num_sources = table.num_values(source)
    is_repeated = 2 * num_sources <= table.num_rows
    return is_repeated and num_sources < MIN_TEXTS_PER_LABEL * table.num_values(target)


def are_quantities(table: ColumnKinds, source: int, target: int) -> bool:
    """Return whether targets are quantities. Numbers that may be those of classes are, if the words
    of the source do not predict them, or predict their order better."""
    if table.target_kind == "number" or table.is_quantity(target):
        return True
    is_named = table.have_classes[target] or table.target is not None
    has_few = table.num_values(target) <= MAX_NUMBER_LABELS
    if is_named or has_few or not table.may_be_classes(target):
        return False
    texts, numbers = table.cells[source], table.cells[target]
    as_labels = predictability(texts, numbers, has_numbers=False)
    as_order = predictability(texts, numbers, has_numbers=True)
    return as_labels < max(MIN_PREDICTABILITY, as_order - SIMILAR)


def names_of_numbers(table: ColumnKinds, source: int, target: int) -> int | None:
    """Return the column that has one name for each whole number of the target; None if there is
    none."""
    numbers = table.cells[target]
    if not all(WHOLE.fullmatch(number) for number in numbers if number):
        return None
    for column in table.useful:
        names = table.cells[column]
        if column in (source, target) or table.kinds[column] not in ("text", "code"):
            continue
        pairs = {pair for pair in zip(numbers, names, strict=True) if any(pair)}
        is_named = all(map(all, pairs)) and not any(WHOLE.fullmatch(name) for _, name in pairs)
        num_names = len({name for _, name in pairs})
        if is_named and len(pairs) == num_names == table.num_values(target):
            return column
    return None


def _predictability(table: ColumnKinds, source: int, target: int) -> float:
    is_quantity = table.is_quantity(target)
    targets = table.numbers(target) if is_quantity else table.cells[target]
    return predictability(table.cells[source], targets, has_numbers=is_quantity)


def is_translation(table: ColumnKinds) -> bool:
    """Return whether two columns of texts are pairs, although further columns have labels or
    numbers: no labels have a usual name, and the target of pairs has, or two columns with much of
    the text look like translations."""
    if table.target is not None:
        return False
    pair = table.named(SOURCE_NAMES), table.named(TARGET_NAMES)
    has_pair = pair[0] != pair[1] and all(column in table.texts for column in pair)
    # Beside a pair, the language is no label: it decides which target the source has.
    names = [name for name in LABEL_NAMES if not (has_pair and name == "language")]
    named = [column for column in table.targets if table.name(column) in names]
    named = [column for column in named if table.num_values(column) > 1]
    if not all(map(table.is_quantity, named)):
        return False
    if table.named(TARGET_NAMES) in table.texts and len(table.texts) > 1:
        return True
    columns = None if named else first_translations(table, table.texts)
    if columns is None:
        return False
    longest = max(map(table.length, table.texts))
    return 2 * max(map(table.length, columns)) >= longest


def first_translations(table: ColumnKinds, columns: Sequence[int]) -> tuple[int, int] | None:
    """Return the first two of these columns that look most like translations of each other."""
    columns = columns[:MAX_COMPARED]
    pairs: Iterable[tuple[int, int]] = combinations(columns, 2)
    if (source := table.source) is not None:
        pairs = ((source, target) for target in columns if target != source)
    scores = {pair: translation_score(*(table.cells[column] for column in pair)) for pair in pairs}
    best = max(scores, key=lambda pair: scores[pair], default=None)  # the first of equal ones
    return best if best is not None and scores[best] else None
