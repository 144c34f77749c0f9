"""The help of `regard train`: the options that most trainings need, or all of them by section."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from regard.config import DATA_SECTIONS, KINDS, Experiment
from regard.config.checks import Explanations, alternatives, choices_of, hints_of

USAGE = """\
usage: regard train RECIPE|FILE [FILE] [OPTIONS]

Train a recipe, or the default model on a file of pairs. `regard recipes` lists the recipes.
Ctrl-C stops safely; --resume continues.

examples:
  regard train pairs.tsv                             a file of SOURCE TAB TARGET lines
  regard train letters pairs.tsv --model.size 128    a recipe on this file
  regard train letters pairs.tsv --resume            continue an interrupted run

arguments:
  RECIPE|FILE         Name of a recipe, a recipe file (.yaml), or a file of pairs.
  FILE                Data file of the recipe: short for --data.path FILE.
"""
RUN = """\
  -o, --output FOLDER               Run folder. [runs/NAME]
  --resume                          Continue the run in the folder.
  --model.family NAME               Short for the kind of encoder and decoder: recurrent or
                                    transformer.
  -h, --help                        Show these options.
  --help-all                        Show all options, by section.
"""
COMMON = (
    "data.path",
    "data.dev_path",
    "data.limit",
    "data.tokenizer",
    "data.lowercase",
    "data.batch_tokens",
    "data.batch_sentences",
    "model.size",
    "model.dropout",
    "model.encoder.kind",
    "model.encoder.layers",
    "model.decoder.kind",
    "model.decoder.layers",
    "model.head.kind",
    "training.epochs",
    "training.learning_rate",
    "training.metric",
    "training.patience",
    "training.precision",
    "training.seed",
    "search.beam",
)
"""Fields of a recipe that most trainings set."""
COLUMN = 36


def short_help(experiment: Experiment) -> str:
    """Return the options that most trainings need, with the values of this experiment."""
    fields = ((name, entry) for name, entry in _fields(experiment, "") if name in COMMON)
    lines = [
        _line(name, value, hint, f"{text.split('. ')[0].rstrip('.')}.")
        for name, (value, hint, text) in fields
    ]
    return "\n".join([USAGE, "options:", RUN + "\n".join(lines)])


def full_help(experiment: Experiment) -> str:
    """Return all options by section, with the values of this experiment."""
    sections: dict[str, list[str]] = {}
    for name, entry in _fields(experiment, ""):
        section = name.rpartition(".")[0]
        sections.setdefault(section, []).append(_line(name, *entry))
    pages = ["\n".join([f"{section or 'recipe'}:", *lines]) for section, lines in sections.items()]
    return "\n\n".join([f"{USAGE}\noptions:\n{RUN.rstrip()}", *pages])


def _fields(record: Any, prefix: str) -> Iterator[tuple[str, tuple[Any, Any, str]]]:
    """Yield each field's full name, with its value, its annotation and its help."""
    texts = field_texts(record.__class__)
    for name, hint in hints_of(record.__class__).items():
        value = getattr(record, name)
        if is_dataclass(value):
            yield from _fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", (value, hint, texts.get(name, ""))


def _line(name: str, value: Any, hint: Any, text: str) -> str:
    flag = f"  --{name.replace('_', '-')} {_placeholder(name, hint)}".rstrip()
    notes = [] if "Default:" in text and value is None else [f"[{_shown(value)}]"]
    choices = _choices(name, hint)
    if choices and not all(choice in text for choice in choices):
        notes.append(f"One of {', '.join(choices)}.")
    lines = textwrap.wrap(" ".join([text, *notes]), 100 - COLUMN)
    head = f"{flag:{COLUMN - 1}} " if len(flag) < COLUMN else f"{flag}\n{'':{COLUMN}}"
    return head + f"\n{'':{COLUMN}}".join(lines)


def _placeholder(name: str, hint: Any) -> str:
    kinds = [kind for kind in alternatives(hint) if kind is not NoneType]
    if kinds == [bool]:
        return ""
    origins = {get_origin(kind) for kind in kinds}
    if tuple in origins:
        return "VALUES"
    if name.endswith("path") or any("Path" in str(kind) for kind in kinds):
        return "FILE"
    if any(kind is str for kind in kinds) or Literal in origins:
        return "NAME"
    return "N"


def _choices(name: str, hint: Any) -> list[str]:
    """Return the names that an option takes. A kind takes those of every record of its part."""
    if name == "data.task":
        return list(DATA_SECTIONS)
    section, _, field = name.rpartition(".")
    if field == "kind":
        part, kind = section.removeprefix("model."), get_args(hint)[0]
        parts = [kinds[part] for kinds in KINDS.values() if kind in kinds.get(part, {})]
        return list(parts[0]) if parts else []
    return list(choices_of(hint))


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "empty"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not set" if value is None else str(value)


@cache
def field_texts(record: type) -> dict[str, str]:
    """Return the docstring of each field of a record, with the explanations of its names."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    texts = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            name, value = field.target, text.value
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                words = " ".join(str(value.value).split())
                names = _explained(hints_of(record)[name.id])
                texts[name.id] = f"{words.removesuffix('.')}: {names}." if names else words
    return texts


def _explained(hint: Any) -> str:
    """Return the names that a field accepts with their explanations. Empty without explanations."""
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Explanations):
            texts = ((name, extra.texts[name]) for name in choices_of(hint))
            return ", ".join(f"{name} ({text})" if text else name for name, text in texts)
    return ""
