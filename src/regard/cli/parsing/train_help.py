"""The help of `regard train`: the options that most trainings need, or all of them by section."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args

from regard.cli.parsing.help import Row, described, field_texts, has_opposite, placeholder
from regard.config import DATA_SECTIONS, KINDS, Experiment
from regard.config.checks import choices_of, field_types
from regard.names import DecoderKind

USAGE = """\
usage: regard train RECIPE|FILE [FILE] [OPTIONS]

Train a recipe, or the recipe that suits a data file. `regard recipes` lists the recipes.
Ctrl-C stops safely; --resume continues.

examples:
  regard train pairs.tsv                             a file of pairs: words, letters or sentences
  regard train letters pairs.tsv --model.size 128    a recipe on this file
  regard train letters pairs.tsv --resume            continue an interrupted run
  regard train labels questions.csv                  a table of texts with their labels
  regard train captions captions.csv                 a table of images with their captions
  regard train values readings.tsv                   series of numbers with a number each

arguments:
  RECIPE|FILE         Name of a recipe, a recipe file (.yaml), or a data file.
  FILE                Data file of the recipe: short for --data.path FILE.
"""
RUN = (
    Row("-o, --output FOLDER", "Run folder. [runs/NAME, after the file or the recipe]"),
    Row("--resume", "Continue the run in the folder."),
    Row("--processes N", "Train in several processes on this machine. [1]"),
    Row("--max-restarts N", "Restarts after a process has failed. [0]"),
    Row(
        "--model.family NAME",
        f"Short for the kinds of encoder and decoder: {' or '.join(get_args(DecoderKind))}.",
    ),
    Row("-h, --help", "Show the common options."),
    Row("--help-all", "Show all options, by section."),
)
COMMON = (
    "data.path",
    "data.mix",
    "data.source_column",
    "data.target_column",
    "data.encoding",
    "data.dev_path",
    "data.limit",
    "data.tokenizer",
    "data.batch_tokens",
    "model.size",
    "model.dropout",
    "model.encoder.kind",
    "model.decoder.kind",
    "model.head.kind",
    "training.epochs",
    "training.hours",
    "training.learning_rate",
    "training.metric",
    "training.patience",
    "training.precision",
    "training.seed",
    "search.beam",
)
"""Fields of a recipe that most trainings set."""
COLUMN = 36
FIELD_DEFAULT = re.compile(r"Default: [^.]*(\.\d[^.]*)*\.")
"""Default of a recipe's field in its docstring, such as "Default: model.size."."""


def short_help(experiment: Experiment) -> str:
    """Return the options that most trainings need, with the values of this experiment."""
    fields = ((name, entry) for name, entry in _fields(experiment, "") if name in COMMON)
    lines = [
        _row(name, value, hint, _short(text)).lines(COLUMN) for name, (value, hint, text) in fields
    ]
    return "\n".join([USAGE, "options:", *_run(), *lines])


def _short(text: str) -> str:
    """Return the first sentence and the default."""
    first, default = text.split(". ")[0].rstrip("."), FIELD_DEFAULT.search(text)
    return " ".join([f"{first}.", *([default[0]] if default else [])])


def full_help(experiment: Experiment) -> str:
    """Return all options by section, with the values of this experiment."""
    sections: dict[str, list[str]] = {}
    for name, entry in _fields(experiment, ""):
        section = name.rpartition(".")[0]
        sections.setdefault(section, []).append(_row(name, *entry).lines(COLUMN))
    pages = ["\n".join([f"{section or 'recipe'}:", *lines]) for section, lines in sections.items()]
    return "\n\n".join(["\n".join([USAGE, "options:", *_run()]), *pages])


def _run() -> list[str]:
    return [row.lines(COLUMN) for row in RUN]


def _fields(record: Any, prefix: str) -> Iterator[tuple[str, tuple[Any, Any, str]]]:
    """Yield each field's full name, with its value, its annotation and its help."""
    texts = field_texts(record.__class__)
    for name, hint in field_types(record.__class__).items():
        value = getattr(record, name)
        if is_dataclass(value):
            yield from _fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", (value, hint, texts.get(name, ""))


def _row(name: str, value: Any, hint: Any, text: str) -> Row:
    section, dot, field = name.replace("_", "-").rpartition(".")
    switch = "[no-]" if has_opposite(hint, value) else ""
    flag = f"--{section}{dot}{switch}{field} {placeholder(name, hint, text)}".rstrip()
    return Row(flag, described(text, value, _choices(name, hint)))


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
