"""Options of a command, checked before tyro parses them: one line for a wrong value.

Options and the fields of recipes share one set of checks, that of `config.checks`.
"""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import MISSING, is_dataclass, replace
from itertools import pairwise, takewhile, zip_longest
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import tyro

from regard.cli.parsing.help import command_help, extras
from regard.config import DATA_SECTIONS, KINDS, MODELS
from regard.config.checks import (
    alternatives,
    bare,
    field_types,
    find_problem,
    format_value,
    option_of,
    parse_value,
)
from regard.errors import UsageError, UserError
from regard.names import TaskName

Record = TypeVar("Record")
SECTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "data": ("data.task", DATA_SECTIONS),
    "model": ("data.task", MODELS),
    **{
        f"model.{part}": (
            f"model.{part}.kind",
            {
                kind: record
                for parts in KINDS.values()
                for kind, record in parts.get(part, {}).items()
            },
        )
        for part in ("encoder", "decoder", "head")
    },
}
"""Sections of a recipe, each with the field that decides its record, and the records."""
ENSEMBLE = "--ensemble"
TRUTHS = ("true", "false", "yes", "no", "on", "off")
"""Words that a switch does not take."""
VALUES = ("True", "False", "None")
"""Values of a switch that is recognised by default."""
LINE_COMMANDS = ("translate", "classify", "caption", "score")
"""Commands that write lines to the standard output by default."""
CONFIG = (tyro.conf.PositionalMetavarFromFieldName,)
RULE = re.compile(r"[─-]{5,}")
"""The line between the problem and the help in tyro's messages."""


def parse(
    options: type[Record],
    arguments: list[str],
    prog: str,
    default: Record | None = None,
    *,
    remedy: str = "",
) -> Record:
    """Return the options of a command. `--help` prints them and exits. UserError of one line for
    arguments that do not fit; the remedy as in `one_line`."""
    if {"-h", "--help"} & {*takewhile(lambda argument: argument != "--", arguments)}:
        print(command_help(options, prog))
        raise SystemExit(0)
    for before, word in pairwise(("", *arguments)):
        if not word and not before.startswith("-"):
            raise UsageError(f"an argument is empty; `{prog} --help` lists the arguments")
    typed = arguments
    arguments = with_switch_values(options, arguments, default)
    check(options, arguments, default)
    arguments = _repeated(arguments)
    with one_line(prog, typed, remedy):
        if default is None:
            record = tyro.cli(options, args=arguments, prog=prog, config=CONFIG)
        else:
            record = tyro.cli(options, args=arguments, prog=prog, config=CONFIG, default=default)
    return _with_standard_output(record, prog)


def _with_standard_output(record: Record, prog: str) -> Record:
    """Return the options of a command. An output named `-` is the standard output, which is the
    default of commands that write lines. UsageError for the other files named `-`."""
    files = [name for name, value in vars(record).items() if value == Path("-")]
    if files == ["output"] and prog.split()[-1] in LINE_COMMANDS:
        changed: Any = record
        return replace(changed, output=None)
    name = next((name for name in files if name in ("output", "trace", "alignments")), None)
    if name is not None:
        raise UsageError(
            f"--{name} is -: expected the name of a file or folder, because the standard output "
            "has other lines"
        )
    return record


@contextmanager
def one_line(prog: str, arguments: Sequence[str], remedy: str = "") -> Iterator[None]:
    """Turn the message that tyro prints before it exits into a UsageError of one line. The remedy
    is added to a message about unexpected arguments that are no options. `arguments` are those that
    the user typed."""
    message = io.StringIO()
    try:
        with redirect_stderr(message):
            yield
    except SystemExit as error:
        if error.code != UsageError.STATUS:  # SIGTERM
            raise
        problem = _problem(message.getvalue())
        if problem.startswith("unexpected"):
            problem += _switch_note(arguments)
        if remedy and re.fullmatch(r"unexpected arguments: [^-(].*[^)]", problem):
            problem += f": {remedy}"
        raise UsageError(f"{problem}; `{prog} --help` lists the arguments") from None


def _problem(message: str) -> str:
    """Return the problem in tyro's message, which has a title, the problem, a rule and a hint."""
    text = [line.strip("│").rstrip() for line in message.splitlines()][1:]
    is_rule = [RULE.fullmatch(line.strip()) is not None for line in text]
    first = is_rule.index(False)
    lines = text[first : is_rule.index(True, first)]
    if lines[0].lstrip().startswith("Missing from "):
        return f"missing: {_missing(lines[1:])}"
    words = " ".join(" ".join(lines).split()).rstrip(".")
    words = re.sub(r"^Missing value for argument '([^']+)'.*", r"\1 has no value", words)
    return words.replace("Unrecognized options:", "unexpected arguments:")


def _switch_note(arguments: Sequence[str]) -> str:
    """Return how to write the first switch that has a value. Empty if no switch has one."""
    for flag, word in pairwise(arguments):
        if flag.startswith("--") and word.lower() in TRUTHS:
            return f" (a switch takes no value: write {_both_options(flag)})"
    return ""


def _both_options(flag: str) -> str:
    """Return the option of a switch and its opposite, from either of them."""
    section, dot, name = flag.removeprefix("--").rpartition(".")
    name = f"{section}{dot}{name.removeprefix('no-')}"
    return f"{option_of(name, True)} or {option_of(name, False)}"


def _missing(lines: list[str]) -> str:
    """Return the arguments that tyro misses, each on a line, with its help on the lines below,
    which are indented further."""
    arguments = list[tuple[str, list[str]]]()
    indentation = min(len(line) - len(line.lstrip()) for line in lines)
    for line in lines:
        if line[indentation:].startswith(" "):
            arguments[-1][1].append(line.strip())
        else:
            arguments.append((line.strip(), []))
    texts = [
        (name, " ".join(text).replace("(required)", "").strip(" .")) for name, text in arguments
    ]
    return " and ".join(f"{name} ({text[:1].lower()}{text[1:]})" for name, text in texts)


def check(options: Any, arguments: Sequence[str], default: Any = None) -> None:
    """Raise a UserError for the first option with a value that it cannot have, or that belongs to
    models or tasks of another kind."""
    hints = dict(_fields(options, default, ""))
    for flag, has_equals, words in _flags(arguments):
        name = flag.removeprefix("--").replace("-", "_")
        if name not in hints:
            _check_section(name, default)
            _check_name(flag, hints)
            continue
        _check_count(flag, hints[name], words, has_equals=has_equals)
        values = _words_of(hints[name], words)
        try:
            if values:
                parse_value(hints[name], values)
        except ValueError as error:
            raise UserError(f"{flag} is {format_value(' '.join(values))}: {error}") from None


def _fields(record: Any, default: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the full name and the annotation of each field."""
    for name, hint in field_types(record).items():
        section = getattr(default, name, None)
        kinds = [kind for kind in alternatives(hint) if is_dataclass(bare(kind))]
        if not kinds:
            yield f"{prefix}{name}", hint
            yield from ((alias, hint) for alias in _aliases(hint))
        elif section is not None or len(kinds) == 1:
            kind = bare(kinds[0]) if section is None else section.__class__
            is_flat = get_origin(hint) is Annotated
            yield from _fields(kind, section, prefix if is_flat else f"{prefix}{name}.")


def with_switch_values(options: Any, arguments: Sequence[str], default: Any = None) -> list[str]:
    """Return the arguments with a value after each switch that is recognised by default, such as
    --data.header: True, or False for --data.no-header."""
    switches = {
        f"--{name.replace('_', '-')}"
        for name, hint in _fields(options, default, "")
        if {bool, NoneType} == {bare(kind) for kind in alternatives(hint)}
    }
    options = list(takewhile(lambda argument: argument != "--", arguments))
    words = []
    for argument, following in zip_longest(options, options[1:], fillvalue=""):
        section, dot, name = argument.rpartition("." if "." in argument else "--")
        positive = f"{section}{dot}{name.removeprefix('no-')}"
        if argument in switches:
            words += [argument] if following in VALUES else [argument, "True"]
        elif positive in switches:
            words += [positive, "False"]
        else:
            words.append(argument)
    return words + list(arguments[len(options) :])


def _aliases(hint: Any) -> Iterator[str]:
    """Further names of an option, from its annotation for tyro."""
    for extra in extras(hint):
        names = (getattr(extra, "name", None), *(getattr(extra, "aliases", None) or ()))
        yield from (name.lstrip("-").replace("-", "_") for name in names if name)


def _flags(arguments: Sequence[str]) -> Iterator[tuple[str, bool, list[str]]]:
    """Yield each option before `--`, whether it has `=`, and the words up to the next one."""
    flag, equals, words = "", "", list[str]()
    for argument in takewhile(lambda argument: argument != "--", arguments):
        if argument.startswith("--") and len(argument) > 2:
            if flag:
                yield flag, bool(equals), words
            flag, equals, value = argument.partition("=")
            words = [value] if equals else []
        elif argument.startswith("-") and argument[1:2].isalpha():
            if flag:
                yield flag, bool(equals), words
            flag = ""
        else:
            words.append(argument)
    if flag:
        yield flag, bool(equals), words


def _words_of(hint: Any, words: list[str]) -> list[str]:
    """Return the words that an option takes. Empty for a switch, a text or a list of texts, which
    tyro takes as they are."""
    kinds = [bare(kind) for kind in alternatives(hint)]
    tuples = [get_args(kind) for kind in kinds if get_origin(kind) is tuple]
    if {bool, str, Path} & {*kinds, *(bare(kind[0]) for kind in tuples)}:
        return []
    if not tuples or words[:1] == ["None"]:
        return words[:1]
    (entries,) = tuples
    return words if entries[-1] is ... else words[: len(entries)]


def _check_name(flag: str, hints: Mapping[str, Any]) -> None:
    """Raise a UserError if no option has this name, nor the opposite of a switch. `hints` are the
    annotations of the options."""
    name = flag.removeprefix("--").replace("-", "_")
    section, _, last = name.rpartition(".")
    switch = last.removeprefix("no_")
    if name in ("help", "help_all") or (
        last != switch and f"{section}.{switch}".lstrip(".") in hints
    ):
        return
    switch = name.removeprefix("no_")
    if switch != name and bool in map(bare, alternatives(hints.get(switch))):
        raise UsageError(
            f"unknown option {format_value(flag)}; did you mean {option_of(switch, False)}?"
        )
    near = difflib.get_close_matches(name, hints, n=1, cutoff=0.75)
    near = near or [full for full in hints if full.rpartition(".")[2] == last][:1]
    hint = f"did you mean --{near[0].replace('_', '-')}?" if near else "--help lists the options"
    raise UsageError(f"unknown option {format_value(flag)}; {hint}")


def _check_count(flag: str, hint: Any, words: list[str], *, has_equals: bool) -> None:
    """UsageError for an option without a value, or a switch with one after `=`."""
    kinds = [bare(kind) for kind in alternatives(hint)]
    if kinds == [bool]:
        if has_equals:
            raise UsageError(
                f"{flag} is a switch and takes no value, but {format_value(words[0])} came: write "
                f"{_both_options(flag)}"
            )
    elif not words and not any(get_origin(kind) is tuple for kind in kinds):
        raise UsageError(f"{flag} has no value: {find_problem(hint, MISSING)}")


def _check_section(name: str, default: Any) -> None:
    """Raise a UserError if the field belongs to another task or kind than that of the
    experiment."""
    experiment = getattr(default, "experiment", None)
    sections = [section for section in SECTIONS if name.startswith(f"{section}.")]
    if experiment is None or not sections:
        return
    section = max(sections, key=len)
    field = name.removeprefix(f"{section}.").split(".")[0]
    place, records = SECTIONS[section]
    part = getattr(experiment.model, section.removeprefix("model."), None)
    if section.startswith("model.") and part is None:
        place, records = SECTIONS["model"]
        field = section.removeprefix("model.")
    owners = [owner for owner, record in records.items() if field in field_types(record)]
    now = experiment.data.task if place == "data.task" else getattr(part, "kind", "")
    if owners and now not in owners:
        raise UserError(
            f"--{name.replace('_', '-')} is an option of {place} {' and '.join(owners)}, but "
            f"{place} is {now}: leave it out or change either"
        )


def _repeated(arguments: list[str]) -> list[str]:
    """Return the arguments with `--ensemble RUN RUN` as `--ensemble RUN --ensemble RUN`. Only
    folders are runs, so a file or text after them stays the command's own."""
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


def check_task(run: Path, command: TaskName) -> None:
    """Raise a UserError that names the right command if the run is of another task than that of
    this command, which has the name of its task."""
    from regard.runs.folder import RunFolder
    from regard.tasks.arguments import wrong_task

    task = RunFolder(run).experiment().data.task
    if task != command:
        raise UserError(
            f"{wrong_task(task, command, str(run))}. `regard {task}` is the command for {run}"
        )
