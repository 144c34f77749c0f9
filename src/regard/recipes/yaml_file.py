"""Recipe files: YAML of plain scalars, lists and maps, with bounds.

A recipe file has no tags, no aliases and no timestamps. Its size, depth, number of values and
lengths of numbers are bounded, so a hostile file costs a fraction of a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import yaml

from regard.config.checks import is_text
from regard.errors import UserError

MAX_BYTES = 1 << 20
MAX_VALUES = 20_000
MAX_DEPTH = 8
"""Maps and lists inside each other; an experiment has four."""
MAX_DIGITS = 64
"""Characters of a number."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NUMBERS = re.compile(r"[-+]?[0-9.][^:]*")
"""Numbers without colons: YAML 1.1 reads 1:30 as 90."""


@dataclass(frozen=True)
class RecipeFile:
    """Values of a recipe file, and the line of each field by its full name, such as data.limit."""

    path: Path
    values: dict[str, Any]
    lines: dict[str, int]
    is_yaml: bool = True
    """Whether the values are from a file; otherwise a program gave them as settings."""

    def place(self, name: str) -> str:
        """Return the file, and the line if the file has this field, for a message."""
        line = self.lines.get(name)
        return str(self.path) if line is None else f"{self.path}, line {line}"


def read_recipe_file(path: Path) -> RecipeFile:
    """Read a recipe file. UserError with line and column if it is not plain YAML."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: save it as UTF-8") from error
    if len(content) > MAX_BYTES:
        raise UserError(f"{path} has more than {MAX_BYTES:,} bytes, the limit for recipes")
    odd = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if odd is not None:
        line, column = _place(text, odd.start())
        raise UserError(
            f"{path}, line {line}, column {column}: YAML does not allow the character "
            f"U+{ord(odd[0]):04X}: remove it"
        )
    reader = _Reader(path)
    try:
        for event in yaml.parse(text, Loader=LOADER):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UserError(f"{_at(path, mark)}: {_problem(error, text)}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: this is not YAML: {' '.join(str(error).split())}") from error
    values = {} if reader.root is None else reader.root
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected lines of the form `field: value`")
    return RecipeFile(path, values, reader.lines)


@dataclass
class _Open:
    """A map or a list that is still being read."""

    values: dict[str, Any] | list[Any]
    prefix: str
    """Full name of the fields in it, up to their own names."""
    key: str | None = None
    """The key whose value comes next."""


@dataclass
class _Reader:
    """Builds values from YAML's events, without recursion."""

    path: Path
    root: Any = None
    lines: dict[str, int] = field(default_factory=dict)
    open: list[_Open] = field(default_factory=list)
    num_values: int = 0
    num_documents: int = 0

    def take(self, event: yaml.Event) -> None:
        """Raise a UserError for an event that no recipe has."""
        match event:
            case yaml.AliasEvent():
                self._refuse(event, f"aliases (*{event.anchor}): write the value out")
            case yaml.DocumentStartEvent():
                self.num_documents += 1
                if self.num_documents > 1:
                    self._refuse(event, "a second document (---): write one document")
            case yaml.ScalarEvent():
                self._count(event)
                self._take_scalar(event)
            case yaml.MappingStartEvent():
                self._begin(event, {})
            case yaml.SequenceStartEvent():
                self._begin(event, [])
            case yaml.CollectionEndEvent():
                self.open.pop()

    def _count(self, event: Any) -> None:
        self.num_values += 1
        if event.tag not in (None, "!"):
            self._refuse(event, f"tags ({event.tag}): leave it out")
        if self.num_values > MAX_VALUES:
            self._refuse(event, f"more than {MAX_VALUES:,} values")

    def _begin(self, event: Any, values: dict[str, Any] | list[Any]) -> None:
        self._count(event)
        if len(self.open) >= MAX_DEPTH:
            self._refuse(event, f"maps or lists more than {MAX_DEPTH} deep")
        prefix = ""
        if self.open:
            above = self.open[-1]
            if isinstance(above.values, dict) and above.key is None:
                self._refuse(event, "lists or maps as keys: expected the name of a field")
            prefix = f"{above.prefix}{above.key}." if above.key is not None else above.prefix
        self._put(values)
        self.open.append(_Open(values, prefix))

    def _take_scalar(self, event: Any) -> None:
        if not is_text(event.value):
            self._refuse(event, "a NUL or a lone surrogate in text: remove it")
        above = self.open[-1] if self.open else None
        if above is None or above.key is not None or isinstance(above.values, list):
            self._put(self._value(event))
            return
        name = f"{above.prefix}{event.value}"
        if event.value in above.values:
            first = self.lines[name]
            self._refuse(event, f"{name} twice (first on line {first}): leave one out")
        above.key = event.value
        self.lines[name] = event.start_mark.line + 1

    def _put(self, value: Any) -> None:
        if not self.open:
            self.root = value
            return
        above = self.open[-1]
        if isinstance(above.values, list):
            above.values.append(value)
        elif above.key is not None:
            above.values[above.key] = value
            above.key = None

    def _value(self, event: Any) -> Any:
        """Return the text itself if it is in quotes; else null, true, false, a number or text."""
        text = event.value
        if not event.implicit[0]:
            return text
        tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
        if tag.endswith((":int", ":float")) and NUMBERS.fullmatch(text):
            if len(text) > MAX_DIGITS:
                self._refuse(event, f"a number of {len(text):,} characters: at most {MAX_DIGITS}")
            return _number(text)
        if tag.endswith((":null", ":bool")):
            return _constant(text)
        return text

    def _refuse(self, event: Any, problem: str) -> NoReturn:
        raise UserError(f"{_at(self.path, event.start_mark)}: a recipe must not have {problem}")


def _place(text: str, position: int) -> tuple[int, int]:
    """Line and column, from 1."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


_RESOLVER = yaml.SafeLoader("")


@lru_cache(maxsize=256)
def _number(text: str) -> int | float | str:
    """Return a number, or the text if only YAML's pattern takes it for a number, such as 0x_."""
    try:
        return yaml.safe_load(text)
    except ValueError:
        return text


@lru_cache(maxsize=256)
def _constant(text: str) -> bool | None:
    """Return null, true or false."""
    return yaml.safe_load(text)


def _at(path: Path, mark: Any) -> str:
    return f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark
    lines = text.splitlines()
    if mark is not None and mark.line < len(lines) and lines[mark.line].lstrip(" ")[:1] == "\t":
        return "the line begins with a tab: YAML indents with spaces"
    return f"this is not YAML: {' '.join(filter(None, (error.context, error.problem)))}"
