"""Checks of every field: its type, its choices, its range.

A field's annotation is its schema. The same check serves recipes, flags and Python:

    hidden: Size = 256                   a whole number with the range of Size
    clip: Positive | None = 1.0          a number above 0, or None
    cell: Literal["gru", "lstm"]         one of these names
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from regard.errors import UserError


@dataclass(frozen=True)
class Range:
    """Finite numbers that a field accepts, both ends included unless `is_open` excludes the lower
    one or `is_open_above` the upper one."""

    minimum: int | float
    maximum: int | float = math.inf
    is_open: bool = False
    is_open_above: bool = False

    def __contains__(self, value: int | float) -> bool:
        above = self.minimum < value if self.is_open else self.minimum <= value
        below = value < self.maximum if self.is_open_above else value <= self.maximum
        return above and below and value != math.inf

    def __str__(self) -> str:
        if self.maximum == math.inf:
            return f"{'more than' if self.is_open else 'at least'} {self.minimum:,}"
        first = f"{'above' if self.is_open else 'from'} {self.minimum:,}"
        return f"{first} to {'less than ' if self.is_open_above else ''}{self.maximum:,}"


@dataclass(frozen=True, eq=False)
class Explanations:
    """Explanations of the names that a field accepts. Help adds the names to the field's text, each
    with its explanation in brackets, unless that is empty."""

    texts: Mapping[str, str]


MAX_COUNT = 1_000_000_000
Count = Annotated[int, Range(1, MAX_COUNT)]
CountOrZero = Annotated[int, Range(0, MAX_COUNT)]
NumExamples = Annotated[int, Range(1, 10_000_000)]
"""Number of examples to generate."""
Size = Annotated[int, Range(1, 1 << 20)]
"""A dimension of a model."""
SizeOrZero = Annotated[int, Range(0, 1 << 20)]
Layers = Annotated[int, Range(1, 256)]
ContextWindow = Annotated[int, Range(0, 1000)]
"""Number of neighbouring positions on each side."""
ImageSize = Annotated[int, Range(8, 4096)]
NumAveraged = Annotated[int, Range(2, 1000)]
"""Number of checkpoints to average."""
NumSamples = Annotated[int, Range(1, 1000)]
"""Number of samples of a sentence. The memory of an update grows with it."""
BeamSize = Annotated[int, Range(1, 1000)]
"""Number of live hypotheses. The limit bounds the time of a search, which grows with the square."""
Length = Annotated[int, Range(1, 1_000_000)]
"""A length in tokens."""
LengthOrZero = Annotated[int, Range(0, 1_000_000)]
Seed = Annotated[int, Range(0, (1 << 63) - 1)]
Share = Annotated[float, Range(0, 1)]
Dropout = Annotated[float, Range(0, 1, is_open_above=True)]
"""Probability of dropping a value. With 1 a model would learn nothing."""
PositiveShare = Annotated[float, Range(0, 1, is_open=True)]
Weight = Annotated[float, Range(0)]
Factor = Annotated[float, Range(1)]
Positive = Annotated[float, Range(0, is_open=True)]
Gpus = Count | Share
"""Number of GPUs of a process: several, or a part of one."""

Value = TypeVar("Value")
Record = TypeVar("Record")
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
UNWRITABLE_TEXT = "expected text without NUL or lone surrogates"
DECIMAL, GROUPED = re.compile(r"[-+]?\d+,\d+"), re.compile(r"[-+]?\d{1,3}(,\d{3})+")
"""Numbers with a decimal comma, and with commas between thousands."""
MAX_VALUE_LENGTH = 60
"""Largest number of characters of a value in a message."""


def check_fields(section: str, record: Any) -> None:
    """Raise a UserError for the first field whose value is not of its type, choices or range."""
    for name, hint in field_types(record.__class__).items():
        value = getattr(record, name)
        if (plain := without_numpy(value)) is not value:
            object.__setattr__(record, name, plain)
        texts = plain if isinstance(plain, tuple) else (plain,)
        is_writable = all(is_text(str(text)) for text in texts if isinstance(text, str | Path))
        problem = find_problem(hint, plain) if is_writable else UNWRITABLE_TEXT
        if problem:
            place = f"{section}.{name}" if section else name
            raise UserError(f"{place} is {format_value(getattr(record, name))}: {problem}")


def without_numpy(value: Any) -> Any:
    """Return a number or text of NumPy as a value of Python; any other value unchanged."""
    if isinstance(value, tuple) and any(hasattr(entry, "dtype") for entry in value):
        return tuple(map(without_numpy, value))
    is_scalar = hasattr(value, "dtype") and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


def check_heads(section: str, size: int | None, heads: int, positions: str) -> None:
    """Raise a UserError unless attention heads divide the size of a Transformer, into parts of even
    size if positions rotate pairs of numbers. An inherited size is not known yet."""
    if size is None:
        return
    if size % heads:
        raise UserError(
            f"{section}.heads is {heads}: expected a number that divides {section}.size, which is "
            f"{size}"
        )
    if positions == "rotary" and size // heads % 2:
        raise UserError(
            f"{section}.positions is rotary, which rotates pairs of numbers, but each of the "
            f"{heads} heads has {size // heads}: change {section}.heads or {section}.size"
        )


def inherit(record: Record, **values: Any) -> Record:
    """Return the record with these values in the named fields that are None."""
    unset = {name: value for name, value in values.items() if getattr(record, name) is None}
    fields_set: Record = replace(cast(Any, record), **unset)
    return fields_set


def require_resolved(value: Value | None) -> Value:
    """Return a value that `config.resolve` has set. ValueError if it is None."""
    if value is None:
        raise ValueError("the configuration is not resolved: call config.resolve first")
    return value


def find_problem(hint: Any, value: object) -> str:
    """Return the end of a message that says which values a field with this annotation accepts.
    Empty if the value is one of them."""
    if _fits(hint, value):
        return ""
    sentence = f"expected {_named(hint)}"
    names = choices_of(hint)
    near = difflib.get_close_matches(value, names, n=1) if isinstance(value, str) else []
    if near:
        return f"{sentence}; did you mean {near[0]}?"
    remedy = _without_comma(hint, value)
    return f"{sentence}; {remedy}" if remedy else sentence


def _without_comma(hint: Any, value: object) -> str:
    """Return how to write a number that has a comma. Empty for other values and annotations."""
    kinds = {bare(kind) for kind in alternatives(hint)}
    if not isinstance(value, str) or not {int, float} & kinds:
        return ""
    if float in kinds and DECIMAL.fullmatch(value):
        return f"write {value.replace(',', '.')} with a point"
    if GROUPED.fullmatch(value):
        return f"write {value.replace(',', '')} without commas"
    return ""


def parse_value(hint: Any, words: Sequence[str]) -> Any:
    """Parse the words of an option as a value of this annotation. Text stays as it is: names of
    files may have bytes that are no UTF-8.

    ValueError, as the end of a message, if the text stands for no such value."""
    for kind in sorted(alternatives(hint), key=lambda kind: kind is not NoneType):
        value = _read(kind, words)
        if value is not MISSING and (_fits(kind, value) or _is_number(value)):
            return _checked(hint, value)
    came = words[0] if len(words) == 1 else list(words)
    raise ValueError(find_problem(hint, came) or f"expected {_named(hint)}")


def parse_weight(number: str, maximum: float) -> float | None:
    """Return the weight of an entry such as NAME:WEIGHT; None unless it is above 0 and at most
    `maximum`."""
    try:
        weight = float(number)
    except ValueError:
        return None
    return weight if 0 < weight <= maximum else None


def is_text(value: str) -> bool:
    """False for a NUL or a lone surrogate, which no file name and no UTF-8 file can hold."""
    return UNWRITABLE.search(value) is None


@cache
def field_types(record: Any) -> dict[str, Any]:
    """Return the annotation of each field, with its range."""
    return get_type_hints(record, include_extras=True)


def alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation itself."""
    if get_origin(hint) is Annotated and not _split(hint)[1]:
        hint = bare(hint)
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for member in get_args(hint) for kind in alternatives(member))
    return (hint,)


def format_value(value: object) -> str:
    """Return a value as text for a message, shortened if it is long."""
    try:
        text = str(value) if isinstance(value, int | float | tuple) else repr(value)
    except ValueError:  # Python writes no more than some thousand digits
        return "a number of thousands of digits"
    if not isinstance(value, str):
        text = " ".join(text.split())
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def option_of(name: str, value: object) -> str:
    """Return the option that sets the field of this full name to a value, as it is written on the
    command line."""
    if isinstance(value, bool):
        section, dot, switch = name.rpartition(".")
        return f"--{section}{dot}{'' if value else 'no-'}{switch}".replace("_", "-")
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"--{name.replace('_', '-')} {text}"


def changed_fields(record: Any, *names: str) -> tuple[str, ...]:
    """Return the named fields of a dataclass that differ from their defaults."""
    return tuple(name for name in all_changed_fields(record) if name in names)


def all_changed_fields(record: Any) -> tuple[str, ...]:
    """Return the fields of a dataclass that differ from their defaults."""
    return tuple(
        field.name for field in fields(record) if getattr(record, field.name) != default_of(field)
    )


def default_of(field: Any) -> Any:
    """Return the default of a field of a dataclass; MISSING if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def bare(hint: Any) -> Any:
    """Return the type of an annotation, without its range and other extras."""
    return _split(hint)[0]


def _split(kind: Any) -> tuple[Any, Range | None]:
    """Return the type of an annotation and its range."""
    if get_origin(kind) is not Annotated:
        return kind, None
    ranges = [extra for extra in kind.__metadata__ if isinstance(extra, Range)]
    return kind.__origin__, ranges[0] if ranges else None


def choices_of(hint: Any) -> tuple[str, ...]:
    """Return the names that a field, or each entry of a list, accepts."""
    kinds = map(bare, alternatives(hint))
    entries = (
        entry
        for kind in kinds
        for entry in (get_args(kind) if get_origin(kind) is tuple else [kind])
    )
    return tuple(
        choice for entry in entries if get_origin(entry) is Literal for choice in get_args(entry)
    )


def _fits(hint: Any, value: object) -> bool:
    return any(_is_a(kind, value) for kind in alternatives(hint))


def _is_a(annotation: Any, value: object) -> bool:
    kind, limits = _split(annotation)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _fits(kind, value)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if origin is tuple:
        return isinstance(value, tuple) and _are(get_args(kind), value)
    if kind in (int, float):
        is_number = _is_number(value) and (kind is float or isinstance(value, int))
        return is_number and _in_range(value, limits)
    return isinstance(value, kind)


def _are(kinds: tuple[Any, ...], values: tuple[object, ...]) -> bool:
    if kinds[-1] is ...:
        return all(_fits(kinds[0], value) for value in values)
    return len(kinds) == len(values) and all(map(_fits, kinds, values))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_range(value: Any, limits: Range | None) -> bool:
    if limits is not None:
        return value in limits
    return isinstance(value, int) or math.isfinite(value)


def _named(hint: Any) -> str:
    """Return the values of an annotation in words."""
    kinds = [kind for kind in alternatives(hint) if kind is not NoneType]
    choices = [choice for kind in kinds if _is_choice(kind) for choice in get_args(_split(kind)[0])]
    others = [_name(kind) for kind in kinds if not _is_choice(kind)]
    if NoneType in alternatives(hint):
        others.append("None")
    if others == ["None"]:
        return _listed([*choices, *others])
    return " or ".join([_listed(choices), *others] if choices else others)


def _is_choice(annotation: Any) -> bool:
    return get_origin(_split(annotation)[0]) is Literal


def _listed(choices: Sequence[object], conjunction: str = "or") -> str:
    *first, last = map(str, choices)
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def _name(annotation: Any) -> str:
    kind, limits = _split(annotation)
    if get_origin(kind) in (Union, UnionType):
        return _named(kind)
    if get_origin(kind) is Literal:
        return _listed(get_args(kind))
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if kinds[-1] is ...:
            return f"a list, each entry {_name(kinds[0])}"
        entries = [_name(kind) for kind in kinds]
        if len({*entries}) == 1:
            return f"{len(entries)} values, each {entries[0]}"
        return f"{len(entries)} values: {_listed(entries, 'and')}"
    if kind in (int, float):
        name = "a whole number" if kind is int else "a number"
        return f"{name} {limits}" if limits else name
    names = {bool: "True or False", str: "text", Path: "a path (pathlib.Path)"}
    return names.get(kind, getattr(kind, "__name__", str(kind)))


def _read(annotation: Any, words: Sequence[str]) -> Any:
    """Return the value of this type that the words stand for, or MISSING."""
    kind, _ = _split(annotation)
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        entries = [kinds[0]] * len(words) if kinds[-1] is ... else list(kinds)
        if len(entries) != len(words):
            return MISSING
        values = tuple(_read(entry, [word]) for entry, word in zip(entries, words, strict=True))
        return MISSING if MISSING in values else values
    if len(words) != 1:
        return MISSING
    (word,) = words
    if kind is NoneType:
        return None if word == "None" else MISSING
    if kind is bool:
        return {"True": True, "False": False}.get(word, MISSING)
    if get_origin(kind) is Literal:
        return word if word in get_args(kind) else MISSING
    if is_dataclass(kind):
        return MISSING
    try:
        return kind(word)
    except ValueError:
        return MISSING


def _checked(hint: Any, value: Any) -> Any:
    problem = find_problem(hint, value)
    if problem:
        raise ValueError(problem)
    return value
