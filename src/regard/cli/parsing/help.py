"""Help of a command: its usage, its arguments and its options, with defaults and choices."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from regard.config.checks import Explanations, alternatives, bare, choices_of, field_types

MAX_WIDTH, MIN_WIDTH = 100, 60
"""Range of the width of help, in characters; the terminal's own width between them."""
CLI_DEFAULT = re.compile(r" \(default: ([^()]*)\)")
"""Default of a command's option in its docstring, such as (default: print them)."""
REQUIRED = "required"
RECIPE = "(default: run's recipe)"
NAMES = {
    **{"target": "TEXT", "about": "TEXT", "shard": "I/N", "cluster": "ADDRESS"},
    **{"address": "ADDRESS", "vary": "FIELD=VALUES"},
}
"""Placeholders of options whose value is no name."""
POSITIONAL, REPEATED = object(), object()
"""Markers of annotations: arguments without a flag, and options that can be repeated."""
Field = TypeVar("Field")
Positional = Annotated[Field, POSITIONAL]


@dataclass(frozen=True)
class Row:
    """An argument or option of a help page."""

    head: str
    """Name and placeholder, as they are typed."""
    text: str
    """Meaning, default and choices."""

    def lines(self, column: int) -> str:
        """Return the row, with its text wrapped from a column on."""
        head = f"  {self.head}"
        head = f"{head:{column - 1}} " if len(head) < column else f"{head}\n{'':{column}}"
        return head + f"\n{'':{column}}".join(wrapped(self.text, column))


def wrapped(text: str, column: int = 0) -> list[str]:
    """Return the lines of a text that begins in a column of the terminal."""
    width = max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size((MAX_WIDTH, 1)).columns))
    return textwrap.wrap(" ".join(text.split()), width - column, break_on_hyphens=False)


def command_help(options: type, prog: str, column: int = 28) -> str:
    """Return the help of a command whose options are the fields of a record. `HELP_EXAMPLES` of the
    record's module are pairs of a command line and its meaning."""
    words, required, arguments, flags = list[str](), list[str](), list[Row](), list[Row]()
    for name, hint, default, text in _options(options):
        if POSITIONAL in extras(hint):
            words.append(_word(name, hint, default))
            arguments.append(_row(name.upper(), hint, default, text))
        else:
            if default is MISSING:
                required.append(f"--{name} {placeholder(name, hint, text)}")
            flags.append(_row(_flag(name, hint, default, text), hint, default, text))
    flags.append(Row("-h, --help", "Show this help."))
    about = inspect.cleandoc(options.__doc__ or "").split("\n\n")
    paragraphs = ["\n".join(wrapped(part)) for part in about]
    tables = [
        "\n".join([f"{title}:", *(row.lines(column) for row in rows)])
        for title, rows in (("arguments", arguments), ("options", flags))
        if rows
    ]
    examples = getattr(sys.modules[options.__module__], "HELP_EXAMPLES", ())
    if examples:
        length = max(len(line) for line, _ in examples)
        lines = [f"  {line:{length}}    {meaning}" for line, meaning in examples]
        paragraphs.append("\n".join(["examples:", *lines]))
    usage = " ".join(["usage:", prog, *words, *required, "[OPTIONS]"])
    return "\n\n".join([usage, *paragraphs, *tables])


def _options(record: type) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield name, annotation, default and docstring of each option. Those of a section, which
    belongs to a recipe, default to the recipe of the run."""
    texts, hints = field_texts(record), field_types(record)
    for field in fields(record):
        hint = hints[field.name]
        section = bare(hint)
        if is_dataclass(section) and isinstance(section, type):
            for name, kind, default, text in _options(section):
                yield name, kind, default, f"{text} {RECIPE}" if "Default:" not in text else text
        else:
            own = next((extra for extra in extras(hint) if isinstance(extra, str)), "")
            yield field.name.rstrip("_"), hint, field.default, texts.get(field.name, own)


def extras(hint: Any) -> tuple[Any, ...]:
    """Return what an annotation holds besides its type."""
    return getattr(hint, "__metadata__", ())


def _word(name: str, hint: Any, default: Any) -> str:
    """Return an argument of the usage: in brackets if it has a default."""
    is_list = any(get_origin(bare(kind)) is tuple for kind in alternatives(hint))
    word = f"{name.upper()}..." if is_list else name.upper()
    return word if default is MISSING else f"[{word}]"


def _flag(name: str, hint: Any, default: Any, text: str) -> str:
    """Return an option with its short name and its placeholder."""
    long, short = name.replace("_", "-"), "-o, " if name == "output" else ""
    switch = "[no-]" if has_opposite(hint, default) else ""
    return f"{short}--{switch}{long} {placeholder(name, hint, text)}".rstrip()


def has_opposite(hint: Any, default: Any) -> bool:
    """Return whether an option has an opposite that help should name, as --no-header: a switch that
    is on, or recognised, by default."""
    return default is True or {bare(kind) for kind in alternatives(hint)} == {bool, NoneType}


def _row(head: str, hint: Any, default: Any, text: str) -> Row:
    if REPEATED in extras(hint):
        return Row(head, f"{text} Can be repeated.")
    return Row(head, described(text, default, choices_of(hint)))


def described(text: str, default: Any, names: Sequence[str]) -> str:
    """Return the text of an option with its default in brackets and with its choices."""
    note = REQUIRED if default is MISSING else default_text(default)
    if stated := CLI_DEFAULT.search(text):
        text, note = CLI_DEFAULT.sub("", text), stated[1]
    notes = [] if "Default:" in text and default is None else [f"[{note}]"]
    if not all(name in text for name in names):
        notes.append(f"One of {', '.join(names)}.")
    return " ".join([text, *notes])


def placeholder(name: str, hint: Any, text: str = "") -> str:
    """Return the word that stands for the value of an option; empty for a switch."""
    if REPEATED in extras(hint):
        return "RUN" if Path in get_args(bare(hint)) else NAMES.get(name, "NAME")
    kinds = [bare(kind) for kind in alternatives(hint) if kind is not NoneType]
    if kinds == [bool]:
        return ""
    if any(get_origin(kind) is tuple for kind in kinds):
        return "VALUES"
    if name.endswith("path") or Path in kinds:
        return "FOLDER" if re.match("folder|run folder", text, re.IGNORECASE) else "FILE"
    names = choices_of(hint)
    if {int, float} & {*kinds}:
        return "|".join(["N", *names])
    return NAMES.get(name, "NAME")


def default_text(value: Any) -> str:
    """Return the text of a default value in help."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "empty"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not set" if value is None else str(value) or "empty"


@cache
def field_texts(record: type) -> dict[str, str]:
    """Return the docstring of each field of a record and of the records that it extends, with the
    explanations of its names."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    texts = dict[str, str]()
    for base in filter(is_dataclass, record.__bases__):
        texts |= field_texts(base)
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            name, value = field.target, text.value
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                words = " ".join(str(value.value).split())
                names = _explained(field_types(record)[name.id])
                texts[name.id] = f"{words.removesuffix('.')}: {names}." if names else words
    return texts


def _explained(hint: Any) -> str:
    """Return the names that a field accepts with their explanations. Empty without explanations."""
    for extra in extras(hint):
        if isinstance(extra, Explanations):
            texts = ((name, extra.texts[name]) for name in choices_of(hint))
            return ", ".join(f"{name} ({text})" if text else name for name, text in texts)
    return ""
