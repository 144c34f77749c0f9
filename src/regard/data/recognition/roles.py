"""Task of a file and the roles of its columns, from a sample of its rows.

`columns` has the kinds of the columns, `choice` the columns that suit as source and target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean

from regard.characters import quoted
from regard.data.recognition.ambiguity import Ambiguity, find_deciding_columns
from regard.data.recognition.choice import (
    are_one_to_one,
    are_quantities,
    best_target,
    first_translations,
    has_texts,
    is_translation,
    names_of_numbers,
    rank,
    source_column,
)
from regard.data.recognition.decimals import NEARLY_ALL as NEARLY_ALL_NUMBERS
from regard.data.recognition.decimals import NumberForm, is_missing, may_be_number
from regard.data.recognition.header import (
    CAPTION_NAMES,
    CLASS_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    has_name_of,
)
from regard.data.recognition.kinds import (
    FEW_ROWS,
    MIN_REPEATED,
    NEARLY_ALL,
    WHOLE,
    ColumnKinds,
    are_items,
    is_series,
)
from regard.names import TASK_RECIPES, TaskName

FEW_PAIRS = 5000
"""Number of pairs below which short sources are read letter by letter."""
MAX_SHORT_LENGTH = 40
"""Largest mean number of letters of a short source."""
MAX_SYMBOLS = 200
"""Largest number of different symbols in targets with spaces between symbols."""

TWO_NUMBERS = re.compile(r"\d+([.,]\d+)?\s?[/:–-]\s?\d+([.,]\d+)?")
"""Fraction, time of day or range."""


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
    candidates: Mapping[int, str] = field(default_factory=dict)
    """Further columns that could be the target, with the nouns for their cells: labels or
    numbers."""
    alternative: str = ""
    """Option that reads numbers of classes as quantities, or the reverse; blank if the targets can
    only be one of them."""
    doubt: str = ""
    """Reason why the columns are uncertain; blank if they are not."""
    ambiguity: Ambiguity | None = None
    """Columns among which the user has to choose before a training."""


def assign_roles(table: ColumnKinds, task: TaskName | None = None) -> Roles:
    """Return the roles of the columns: captions if a column has names of images, labels if a column
    has few different values, values if the targets are numbers, otherwise pairs. The task may be
    set."""
    rules = {"caption": _captions, "classify": _labels, "translate": _pairs}
    if task is None and table.target_kind is not None:
        task = "classify"
    if task is not None:
        return rules[task](table) or _unrecognised(table, task)
    if table.source is None or table.source in table.images():
        roles = _captions(table)
        if roles is not None:
            return roles
    roles = None
    if table.num_rows >= FEW_ROWS and not is_translation(table):
        roles = _labels(table)
    return roles or _pairs(table)


def num_columns_of_numbers(table: ColumnKinds) -> tuple[int, int]:
    """Return the number of columns of numbers, and of other columns, without dates and without
    those that count rows, are constant or are mostly blank."""
    columns = [column for column in table.useful if table.kinds[column] != "date"]
    num_numbers = sum(table.forms[column].fits for column in columns)
    return num_numbers, len(columns) - num_numbers


def _captions(table: ColumnKinds) -> Roles | None:
    images = table.images()
    source = table.source if table.source is not None else next(iter(images), None)
    if source is None or not table.num_rows:
        return None
    others = [column for column in table.useful if column != source]
    longest = max(others, key=table.length, default=None)
    choices = (table.target, table.named(CAPTION_NAMES), longest)
    target = next((column for column in choices if column not in (None, source)), None)
    if target is None:
        return None
    num_images = table.num_values(source)
    return Roles("caption", "captions", source, target, f"captions ({num_images:,} images)")


def _labels(table: ColumnKinds) -> Roles | None:
    """Return the roles of texts with labels or numbers; None if no columns suit."""
    target = table.target
    is_set = target is not None or table.source is not None
    source = table.source if table.source is not None else source_column(table, target)
    if source is None:
        return None
    doubt, ambiguity = "", None
    if target is None:
        is_text = is_set or table.kinds[source] not in ("number", "date")
        candidates = [column for column in table.targets if column != source]
        candidates = [column for column in candidates if is_text or not table.is_quantity(column)]
        target, doubt, ambiguity = best_target(table, source, candidates)
        if target is None and table.target_kind == "number":
            others = [column for column in table.useful if column != source]
            target = max(others, key=lambda column: table.forms[column].num_numbers, default=None)
    if target is None:
        return None
    if table.target_kind != "label" and are_quantities(table, source, target):
        roles = _numbers(table, source, target)
    elif table.target_kind is None and (
        not table.has_labels(target) if is_set else are_one_to_one(table, source, target)
    ):
        return None
    else:
        if table.target is None:
            names = names_of_numbers(table, source, target)
            target = target if names is None else names
        cells = zip(table.cells[source], table.cells[target], strict=True)
        labels = [label for text, label in cells if text and label]
        title = f"labels ({len(set(labels)):,} in {len(labels):,} rows)"
        roles = Roles("classify", "labels", source, target, title)
    if table.source is None and not has_texts(table, source):
        doubt = "no column has many different texts"
    is_class = has_name_of(table.name(roles.target), CLASS_NAMES)
    if is_class and "data.target" in roles.fields and table.target_kind is None:
        doubt = f"the values of {table.name(roles.target)} are not whole numbers that repeat"
    if ambiguity is None and roles.recipe == "labels":
        ambiguity = find_deciding_columns(table, source, roles.target)
    return replace(
        roles,
        candidates=_other_targets(table, roles),
        alternative=_alternative(table, roles),
        doubt=doubt,
        ambiguity=ambiguity,
    )


def _alternative(table: ColumnKinds, roles: Roles) -> str:
    """Return the option for the other kind of target, if the targets are whole numbers that occur
    again."""
    cells = list(filter(None, table.cells[roles.target]))
    if not all(map(WHOLE.fullmatch, cells)) or MIN_REPEATED * len(set(cells)) > len(cells):
        return ""
    return f"--data.target {'label' if 'data.target' in roles.fields else 'number'}"


def _other_targets(table: ColumnKinds, roles: Roles) -> dict[int, str]:
    """Return further columns that could be the target, with the nouns for their cells."""
    return {
        column: "numbers" if table.is_quantity(column) else "labels"
        for column in table.targets
        if column not in (roles.source, roles.target)
    }


def _numbers(table: ColumnKinds, source: int, target: int) -> Roles:
    cells = table.cells[source]
    fields = {"data.target": "number"}
    if sum(map(is_series, cells)) >= NEARLY_ALL_NUMBERS * len(cells):
        fields["data.source"] = "series"
    elif are_items(cells):
        fields["data.source"] = "items"
    else:
        fields["data.source"] = "text"
    kind = fields["data.source"]
    form = table.forms[target]
    if form.title and not form.undecided:
        fields["data.decimal_mark"] = form.mark
    units = f", in {form.unit}" if form.unit else ""
    marks = f", {form.title}" if form.title else ""
    marks += ", uncertain decimal mark: --data.decimal-mark" if form.undecided else ""
    title = f"values (a number for each {_NOUNS[kind]}{units}{marks})"
    recipe = "drinks" if kind == "items" else "values"  # items have no order
    return Roles("classify", recipe, source, target, title, fields)


_NOUNS = {"series": "series", "items": "list of items", "text": "text"}


def _pairs(table: ColumnKinds) -> Roles:
    source, target = table.source, table.target
    is_small = table.num_rows < FEW_ROWS
    is_clear = target is not None or len(table.useful) < 3
    if target is None:
        texts = [column for column in table.useful if table.kinds[column] == "text"]
        pair = _named_pair(table) or (None if is_small else first_translations(table, texts))
        if pair is not None:
            source, target = pair
            is_clear = True
    others = [column for column in table.useful if column not in (source, target)]
    if len(table.useful) > 2:
        others.sort(key=lambda column: rank(table, column))
    if source is None:
        source = others.pop(0) if others else 0
    if target is None:
        target = others.pop(0) if others else 1 - min(source, 1)
    sources, targets = (
        table.cells[column] if column < len(table.cells) else [] for column in (source, target)
    )
    recipe, fields = _text_recipe(sources, targets, table.num_all)
    title = "too few rows to recognise the task, so pairs" if is_small else "pairs"
    roles = Roles("translate", recipe, source, target, title, fields)
    if is_small:
        return roles
    doubt = "" if is_clear else "no two columns look like translations"
    doubt = doubt or _doubtful_numbers(targets)
    ambiguity = find_deciding_columns(table, source, target)
    candidates = _other_targets(table, roles)
    return replace(roles, candidates=candidates, doubt=doubt, ambiguity=ambiguity)


def _doubtful_numbers(cells: Sequence[str]) -> str:
    """Return a sentence about targets of which at least a quarter are numbers, but not enough of
    one form and unit to be values; blank for other targets."""
    filled = [cell for cell in cells if not is_missing(cell)]
    num_two = sum(TWO_NUMBERS.fullmatch(cell) is not None for cell in filled)
    if num_two > NEARLY_ALL * len(filled):
        return (
            f"{num_two:,} of {len(filled):,} targets are two numbers, such as "
            f"{quoted(filled[0], 20)}, and are read as texts; for values, write each as one number"
        )
    num_numbers = sum(map(may_be_number, filled))
    form = NumberForm.of(cells)
    if 4 * num_numbers < len(filled) or not filled or form.num_numbers == len(filled):
        return ""
    example = next(cell for cell in filled if form.plain(cell) is None)
    return (
        f"{num_numbers:,} of {len(filled):,} targets are numbers, {form.num_numbers:,} of one form "
        f"and unit, unlike {quoted(example, 20)}; --data.target number reads and lists them"
    )


def _named_pair(table: ColumnKinds) -> tuple[int, int] | None:
    """Return the columns of source and target by their usual names, unless the source is given. Of
    two columns, one name decides for both."""
    source, target = table.named(SOURCE_NAMES), table.named(TARGET_NAMES)
    if source == target or table.source is not None:
        return None
    if source is not None and target is not None:
        return source, target
    others = [column for column in table.useful if column not in (source, target)]
    if len(others) != 1 or table.name(others[0]) in SOURCE_NAMES + TARGET_NAMES:  # Text, text
        return None
    if source is not None:
        return source, others[0]
    return None if target is None else (others[0], target)


def _text_recipe(
    sources: Sequence[str], targets: Sequence[str], num_rows: int
) -> tuple[str, dict[str, str]]:
    """Return the recipe for pairs: letters if the texts are single words, or few and short."""
    single = sum(len(cell.split()) == 1 for cell in sources) >= NEARLY_ALL * len(sources)
    target_words = [cell.split() for cell in targets]
    symbols = [symbol for words in target_words for symbol in words]
    if single and sum(len(words) == 1 for words in target_words) >= NEARLY_ALL * len(targets):
        return "letters", {}
    if single and len(set(symbols)) <= MAX_SYMBOLS:
        return "letters", {"data.target_tokenizer": "spaces"}
    is_short = num_rows < FEW_PAIRS and mean(map(len, sources)) <= MAX_SHORT_LENGTH
    return ("letters" if is_short else "words"), {}


def _unrecognised(table: ColumnKinds, task: TaskName) -> Roles:
    """Return the roles of a file that does not look like the task that the user named: for labels
    the column with the fewest different values and the longest other one, otherwise the first
    two."""
    source, target = table.source, table.target
    if task == "classify" and target is None and table.num_rows >= FEW_ROWS:
        others = [column for column in table.useful if column != source]
        target = min(others, key=table.num_values, default=None)
    if task == "classify" and target is not None and source is None:
        others = [column for column in table.useful if column != target]
        source = max(others, key=table.length, default=None)
    source = 0 if source is None else source
    target = (1 if source == 0 else 0) if target is None else target
    recipe = TASK_RECIPES[task][0]
    return Roles(task, recipe, source, target, recipe, is_recognised=False)
