"""Parser of a command's words: options and arguments are the fields of a record.

A field's annotation says how many words an option has and which values it accepts: the checks are
those of `config.checks`. Fields of a section, such as the search or an experiment, are options too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from regard.cli.parsing.help import POSITIONAL, REPEATED, command_help, extras, field_texts
from regard.config.checks import (
    alternatives,
    bare,
    default_of,
    field_types,
    find_problem,
    format_value,
    option_of,
    parse_value,
)
from regard.config.fields import field_hints, foreign_field, with_values
from regard.errors import UsageError, UserError
from regard.names import TaskName

Record = TypeVar("Record")
ALIASES = {"-o": "output", "--init-from": "training.initial_run", "--freeze": "training.freeze"}
"""Further names of options."""
TRUTHS = ("true", "false", "yes", "no", "on", "off")
"""Words that a switch does not take."""
VALUES = ("True", "False", "None")
"""Values of a switch that is recognised by default."""
LINE_COMMANDS = ("translate", "classify", "caption", "score")
"""Commands that write lines to the standard output by default."""


@dataclass(frozen=True)
class Typed:
    """Option as it was typed, and the words up to the next option."""

    flag: str
    """Name with its hyphens. Empty for words before the first option; `--` for the words after
    it."""
    words: Sequence[str]
    has_equals: bool = False
    """Whether the first word is joined to the name, as in --beam=4 or -oFILE."""

    @property
    def name(self) -> str:
        """Full name of the field, with no_ before the name of a switch that is off."""
        return ALIASES.get(self.flag, self.flag.removeprefix("--")).replace("-", "_")

    def cut(self, number: int) -> list[str]:
        """Return the option as it is typed, with this number of its words."""
        words = self.words[:number]
        if self.has_equals:
            return [f"{self.flag}={words[0]}", *words[1:]]
        return [self.flag, *words] if self.flag else [*words]


def parse(
    options: type[Record],
    words: Sequence[str],
    prog: str,
    default: Record | None = None,
    *,
    remedy: str = "",
) -> Record:
    """Return the options of a command: the default, by default that of each field, with the values
    of the words. `--help` prints the options and exits.

    UserError of one line for words that do not fit. The remedy is added to a message about
    unexpected arguments that are no options."""
    _print_help(options, words, prog)
    for before, word in pairwise(("", *words)):
        if not word and not before.startswith("-"):
            raise UsageError(f"an argument is empty; `{prog} --help` lists the arguments")
    values, rest = read(options, words, default)
    more, rest = _read_arguments(options, rest)
    values |= more
    defaults = _defaults(options, default)
    required = [name for name, value in defaults.items() if value is MISSING]
    missing = [_with_text(options, name) for name in required if name not in values]
    if missing:
        raise UsageError(f"missing: {' and '.join(missing)}; `{prog} --help` lists the arguments")
    if rest:
        note = _switch_note(words) or (f": {remedy}" if remedy else "")
        raise UsageError(
            f"unexpected arguments: {', '.join(rest)}{note}; `{prog} --help` lists the arguments"
        )
    record = options(**{**defaults, **{name: values[name] for name in required}})
    return _with_standard_output(with_values(record, values), prog)


def parse_own(
    options: type[Record], words: Sequence[str], prog: str
) -> tuple[Record, tuple[str, ...]]:
    """Return the options of a command that trains, and the words for `regard train`: the arguments
    and all options that the command does not have. `--help` prints the options and exits.

    UserError for words that do not fit an own option, and if the recipe is not the first word for
    `regard train`."""
    _print_help(options, words, prog)
    hints = dict(_options(options, _defaults(options)))
    own, rest = list[str](), list[str]()
    for typed in split(words):
        if typed.name not in hints:
            rest += typed.cut(len(typed.words))
            continue
        number = min(_num_words(hints[typed.name][1], typed), len(typed.words))
        own += typed.cut(number)
        rest += typed.words[number:]
    arguments = [*takewhile(lambda word: not _is_option(word), rest)]
    if not arguments:
        raise UsageError(f"name the recipe or data file first, as in `{prog} RECIPE`")
    return parse(options, [*arguments, *own], prog), tuple(rest)


def _print_help(options: type, words: Sequence[str], prog: str) -> None:
    """Print the options of a command and exit if one of the words is an option for help."""
    if {"-h", "--help"} & {*takewhile(lambda word: word != "--", words)}:
        print(command_help(options, prog))
        raise SystemExit(0)


def typed_values(words: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the words of each option by the full name of its field, for words whose recipe is not
    known yet. A switch has no words, or False."""
    values: dict[str, Sequence[str]] = {}
    for typed in split(words):
        section, dot, field = typed.name.rpartition(".")
        is_off = field.startswith("no_") and not typed.words
        name = f"{section}{dot}{field.removeprefix('no_')}" if is_off else typed.name
        values[name] = ["False"] if is_off else typed.words
    return values


def read(
    record: type[Record], words: Sequence[str], default: Record | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the options, by the full names of the record's fields, and the words
    that belong to no option. UserError for the first option that does not exist or that has an
    invalid value."""
    defaults = _defaults(record, default)
    options = dict(_options(record, defaults))
    values: dict[str, Any] = {}
    rest = list[str]()
    for typed in split(words):
        if typed.flag in ("", "--") and not typed.has_equals:
            rest += typed.words
            continue
        name, is_on = _find(typed, options, defaults.get("experiment"))
        path, hint = options[name]
        number = _num_words(hint, typed) if is_on else 0
        taken, more = typed.words[:number], typed.words[number:]
        rest += more
        if number and not taken:
            raise UsageError(f"{typed.flag} has no value: {find_problem(hint, MISSING)}")
        if typed.has_equals and not number:
            raise UsageError(
                f"{typed.flag} is a switch and takes no value, but {format_value(typed.words[0])} "
                f"came: write {_both_options(typed.flag)}"
            )
        is_switch = bool in map(bare, alternatives(hint)) and not number
        value = is_on if is_switch else _value(typed.flag, hint, taken)
        is_repeated = REPEATED in extras(hint) and path in values
        values[path] = values[path] + value if is_repeated else value
    return values, rest


def split(words: Sequence[str]) -> Iterator[Typed]:
    """Yield each option with the words up to the next one. All words after `--` are arguments, and
    so are negative numbers."""
    typed = Typed("", [])
    for number, word in enumerate(words):
        if word == "--":
            yield typed
            yield Typed("--", words[number + 1 :])
            return
        if not _is_option(word):
            typed = Typed(typed.flag, [*typed.words, word], typed.has_equals)
            continue
        yield typed
        flag, equals, value = word.partition("=")
        if not word.startswith("--") and len(flag) > 2:
            flag, equals, value = word[:2], "=", word[2:]
        typed = Typed(flag, [value] if equals else [], bool(equals))
    yield typed


def _is_option(word: str) -> bool:
    """Whether a word is an option, and no negative number."""
    if word.startswith("--"):
        return len(word) > 2
    return word.startswith("-") and word[1:2].isalpha() and word[1:] not in ("inf", "nan")


def _defaults(options: type[Record], default: Record | None = None) -> dict[str, Any]:
    """Return the default of each field of a command's options; MISSING if it has none."""
    if default is not None:
        return dict(vars(default))
    return {field.name: default_of(field) for field in fields(options)}  # type: ignore[arg-type]


def _options(record: type, defaults: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Yield the name of each option, with the full name and the annotation of its field. Names of
    options begin inside the sections of a command."""
    for name, hint in field_types(record).items():
        if is_dataclass(defaults[name]):
            for path, kind in field_hints(defaults[name]):
                yield path, (f"{name}.{path}", kind)
        elif POSITIONAL not in extras(hint):
            yield name.rstrip("_"), (name, hint)


def _num_words(hint: Any, typed: Typed) -> int:
    """Return the number of words that an option takes at most."""
    kinds = [bare(kind) for kind in alternatives(hint)]
    if bool in kinds:
        has_value = typed.has_equals or (typed.words[:1] and typed.words[0] in VALUES)
        return int(NoneType in kinds and bool(has_value))
    lists = [get_args(kind) for kind in kinds if get_origin(kind) is tuple]
    if not lists or typed.words[:1] == ["None"]:
        return 1
    if REPEATED in extras(hint):  # only folders are runs: a file after them is an argument
        is_path = Path in lists[0]
        return 1 + len([*takewhile(lambda word: is_path and Path(word).is_dir(), typed.words[1:])])
    return len(typed.words) if lists[0][-1] is ... else len(lists[0])


def _value(place: str, hint: Any, words: Sequence[str]) -> Any:
    try:
        if "" in words and Path in alternatives(hint):  # which Path takes for this folder
            raise ValueError("expected a path")
        return parse_value(hint, words)
    except ValueError as error:
        raise UserError(f"{place} is {format_value(' '.join(words))}: {error}") from None


def _read_arguments(record: type, words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the arguments, which have no flags, and the words beyond them."""
    values: dict[str, Any] = {}
    for name, hint in field_types(record).items():
        if POSITIONAL in extras(hint):
            is_list = get_origin(bare(hint)) is tuple
            number = len(words) if is_list else 1
            if words or is_list:
                values[name] = _value(name.upper(), hint, words[:number])
            words = words[number:]
    return values, words


def _find(typed: Typed, options: Mapping[str, Any], experiment: Any) -> tuple[str, bool]:
    """Return the name of an option, and False for the opposite of a switch. UserError if there is
    no such option."""
    flag, name = typed.flag, typed.name
    if name in options:
        return name, True
    section, dot, last = name.rpartition(".")
    for switch in (f"{section}{dot}{last.removeprefix('no_')}", name.removeprefix("no_")):
        _, hint = options.get(switch, ("", None))
        if switch != name and bool in map(bare, alternatives(hint)):
            opposite = option_of(switch, False)
            if opposite == flag:
                return switch, False
            raise UsageError(f"unknown option {format_value(flag)}; did you mean {opposite}?")
    foreign = experiment and foreign_field(experiment, name)
    if foreign:
        raise UserError(f"--{name.replace('_', '-')} is an option of {foreign}")
    near = [full for full in options if full.rpartition(".")[2] == last]
    near = near or difflib.get_close_matches(name, options, n=1, cutoff=0.75)
    names = " or ".join(f"--{full.replace('_', '-')}" for full in near)
    hint = f"did you mean {names}?" if names else "--help lists the options"
    raise UsageError(f"unknown option {format_value(flag)}; {hint}")


def _with_text(options: type, name: str) -> str:
    """Return an argument or option with its help, for a message."""
    hint, text = field_types(options)[name], field_texts(options)[name].strip(".")
    flag = name.upper() if POSITIONAL in extras(hint) else f"--{name.replace('_', '-')}"
    return f"{flag} ({text[:1].lower()}{text[1:]})"


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


Device = Annotated[
    str,
    "Device that runs the model: cpu, cuda, a GPU such as cuda:1, or auto (a GPU if there is one).",
]
Runs = Annotated[tuple[Path, ...], REPEATED]
"""Folders of runs, after one option or each with the option's name before it."""


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
