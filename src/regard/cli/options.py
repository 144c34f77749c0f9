"""Options of a command, checked before tyro parses them: one line for a wrong value.

Options and the fields of recipes share one set of checks, that of `config.checks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import tyro

from regard.config import FAMILIES, TASKS
from regard.config.checks import alternatives, hints_of, parsed, shown
from regard.errors import UserError

Record = TypeVar("Record")
SECTIONS: dict[str, dict[str, Any]] = {"model": FAMILIES, "data": TASKS}
ENSEMBLE = "--ensemble"


def parse(
    options: type[Record], arguments: list[str], prog: str, default: Record | None = None
) -> Record:
    """The options of a command. UserError for a value that an option cannot have."""
    check(options, arguments, default)
    arguments = _repeated(arguments)
    if default is None:
        return tyro.cli(options, args=arguments, prog=prog)
    return tyro.cli(options, args=arguments, prog=prog, default=default)


def check(options: Any, arguments: Sequence[str], default: Any = None) -> None:
    """UserError for the first option with a value that it cannot have, or that belongs to models or
    tasks of another kind."""
    known = dict(_fields(options, default, ""))
    for flag, words in _flags(arguments):
        name = flag.removeprefix("--").replace("-", "_")
        if name not in known:
            _check_section(name, default)
            continue
        values = _words_of(known[name], words)
        try:
            if values:
                parsed(known[name], values)
        except ValueError as error:
            came = values[0] if len(values) == 1 else values
            raise UserError(f"{flag} is {shown(came)}: {error}") from None


def _fields(record: Any, default: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """The full name and the annotation of each field."""
    for name, hint in hints_of(record).items():
        section = getattr(default, name, None)
        kinds = [kind for kind in alternatives(hint) if is_dataclass(_bare(kind))]
        if not kinds:
            yield f"{prefix}{name}", hint
        elif section is not None or len(kinds) == 1:
            kind = _bare(kinds[0]) if section is None else section.__class__
            is_flat = get_origin(hint) is Annotated
            yield from _fields(kind, section, prefix if is_flat else f"{prefix}{name}.")


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each option with the words up to the next one."""
    flag, words = "", list[str]()
    for argument in arguments:
        if argument.startswith("--") and len(argument) > 2:
            if flag:
                yield flag, words
            flag, equals, value = argument.partition("=")
            words = [value] if equals else []
        elif argument.startswith("-") and argument[1:2].isalpha():
            if flag:
                yield flag, words
            flag = ""
        else:
            words.append(argument)
    if flag:
        yield flag, words


def _words_of(hint: Any, words: list[str]) -> list[str]:
    """The words that an option takes. Empty for a switch, a text or a list of texts, which tyro
    takes as they are."""
    kinds = [_bare(kind) for kind in alternatives(hint)]
    tuples = [get_args(kind) for kind in kinds if get_origin(kind) is tuple]
    if {bool, str, Path} & {*kinds, *(_bare(kind[0]) for kind in tuples)}:
        return []
    if not tuples or words[:1] == ["None"]:
        return words[:1]
    (entries,) = tuples
    return words if entries[-1] is ... else words[: len(entries)]


def _check_section(name: str, default: Any) -> None:
    """UserError if the field belongs to another family or task than that of the experiment."""
    section, _, field = name.partition(".")
    experiment = getattr(default, "experiment", None)
    if section not in SECTIONS or experiment is None:
        return
    owners = [
        owner
        for owner, record in SECTIONS[section].items()
        if field.split(".")[0] in hints_of(record)
    ]
    kind = "family" if section == "model" else "task"
    now = getattr(getattr(experiment, section), kind)
    if owners and now not in owners:
        raise UserError(
            f"--{name.replace('_', '-')} is an option of {section}.{kind} {' and '.join(owners)}, "
            f"but {section}.{kind} is {now}: leave it out or change either"
        )


def _repeated(arguments: list[str]) -> list[str]:
    """The arguments with `--ensemble RUN RUN` as `--ensemble RUN --ensemble RUN`. Only folders are
    runs, so a file or text after them stays the command's own."""
    words, is_run = list[str](), False
    for number, argument in enumerate(arguments):
        is_first = number > 0 and arguments[number - 1] == ENSEMBLE
        if is_run and not is_first and Path(argument).is_dir():
            words.append(ENSEMBLE)
        else:
            is_run = argument == ENSEMBLE or is_first
        words.append(argument)
    return words


Device = Annotated[
    str,
    tyro.conf.arg(
        help="Device that runs the model: cpu, cuda, a GPU such as cuda:1, or auto (a GPU if there "
        "is one)."
    ),
]
Runs = tyro.conf.UseAppendAction[tuple[Path, ...]]
"""Folders of runs, each with the option's name before it."""
