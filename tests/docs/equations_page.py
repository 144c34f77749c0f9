"""The tables of docs/equations.md, made from the comments above the lines that compute equations.

    # PAPER, PLACE: EQUATION
    # PAPER, PLACE if OPTION and OPTION is VALUE: EQUATION

An option restricts an equation to recipes that set it. A line that continues a comment is indented
by four more spaces. A recipe has the equations of the classes of its model, and of the classes and
functions that their methods use. Equations of search and training have options.

`python -m tests.docs.equations_page` updates the page.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from types import FunctionType
from typing import Any

from torch import nn

from regard import recipes
from regard.compiled.exact import kind_of
from regard.config import Experiment
from regard.layers.recurrent.cells import next_state
from tests.docs.pages import ROOT
from tests.recipes.models import build

PAGE = ROOT / "docs" / "equations.md"
START = "## Papers\n"
SOURCE = ROOT / "src" / "regard"
MODELS, PROCEDURES = ("attention", "layers", "models"), ("search", "training")
"""Folders with equations of models, and those with equations of search and training."""
MOST_NAMES = 3
COMMENT = re.compile(
    r" *# (?P<paper>[A-Za-z][^:#]*? (?:19|20)\d\d), (?P<place>[^:]+?)"
    r"(?: if (?P<options>[^:]+))?:(?P<text>| .+)"
)


@dataclass(frozen=True)
class Equation:
    """An equation of a paper, with the number of the line of code that computes it."""

    paper: str
    place: str
    options: tuple[str, ...]
    text: str
    path: Path
    line: int

    def link(self, label: str = "") -> str:
        name = self.path.relative_to(SOURCE).as_posix()
        return f"[{label or f'{name}:{self.line}'}](../src/regard/{name}#L{self.line})"


@cache
def equations() -> tuple[Equation, ...]:
    """All equations, by paper and place."""
    paths = [path for folder in MODELS + PROCEDURES for path in (SOURCE / folder).rglob("*.py")]

    def order(equation: Equation) -> tuple[Any, ...]:
        numbers = [int(number) for number in re.findall(r"\d+", equation.place)]
        kind = re.split(r"[ .\d]", equation.place)[0]
        place = kind, numbers, equation.place
        return equation.paper, *place, equation.path, equation.line

    return tuple(sorted((each for path in paths for each in _equations_of(path)), key=order))


def _equations_of(path: Path) -> Iterator[Equation]:
    comments: list[list[str]] = []
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), start=1):
        match = COMMENT.fullmatch(line)
        if match:
            comments.append(list(match.group("paper", "place", "options", "text")))
        elif comments and re.match(" *#     ", line):
            comments[-1][-1] += f" {line.strip(' #')}"
        else:
            for paper, place, options, text in comments:
                required = tuple(options.split(" and ")) if options else ()
                yield Equation(paper, place, required, text.strip(), path, number)
            comments = []


@cache
def recipes_of_equations() -> dict[Equation, tuple[str, ...]]:
    """Names of the recipes that have each equation."""
    by_recipe = {}
    for name in recipes.names():
        experiment = recipes.load(recipes.find(name))
        by_recipe[name] = equations_of_recipe(experiment)
    return {
        equation: tuple(name for name, of_recipe in by_recipe.items() if equation in of_recipe)
        for equation in equations()
    }


def equations_of_recipe(experiment: Experiment) -> set[Equation]:
    """Return the equations of a recipe's model, search and training."""
    code = [_place(part) for part in code_of(build(experiment))]
    options = options_of(experiment)

    def is_used(equation: Equation) -> bool:
        if equation.path.relative_to(SOURCE).parts[0] in PROCEDURES:
            return True
        return any(path == equation.path and equation.line in lines for path, lines in code)

    return {each for each in equations() if options.issuperset(each.options) and is_used(each)}


def options_of(record: Any) -> set[str]:
    """Return each field that has a value other than its default, and `FIELD is TEXT` for texts."""
    options = set()
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            options |= options_of(value)
        if isinstance(value, str):
            options.add(f"{field.name} is {value}")
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if value and value != default:
            options.add(field.name)
    return options


def code_of(model: nn.Module) -> set[Any]:
    """Return the classes of a model's parts, by their formulas, and the classes and functions that
    they use."""
    code: set[Any] = set()
    visited: set[int] = set()
    rest: list[Any] = [model]
    while rest:
        part = rest.pop()
        if id(part) in visited:
            continue
        visited.add(id(part))
        if isinstance(part, dict | list | tuple):
            rest += part.values() if isinstance(part, dict) else part
        elif isinstance(part, type | FunctionType):
            code.add(part)
            rest += used_by(part)
        elif isinstance(part, nn.RNNBase):  # PyTorch computes the equations of `next_state`
            rest.append(inspect.unwrap(next_state))
        else:
            rest += [kind_of(part)] if _is_formula(kind_of(part)) else []
            rest += vars(part).values() if isinstance(part, nn.Module) or _is_formula(part) else []
    return code


@cache
def used_by(part: type | FunctionType) -> list[Any]:
    """Return the bases of a class, and the classes and functions of formulas that the code of a
    function, or of the methods of a class, calls, reads or passes on."""
    if isinstance(part, FunctionType):
        tree = ast.parse(dedent(inspect.getsource(part)))
        values = [part.__globals__.get(name) for name in _names(tree)]
        return [inspect.unwrap(each) for each in values if callable(each) and _is_formula(each)]
    members = [member for name, member in vars(part).items() if name != "__init__"]
    methods = [getattr(each, "fget", getattr(each, "__func__", each)) for each in members]
    functions = [inspect.unwrap(each) for each in methods if isinstance(each, FunctionType)]
    of_methods = [used_by(each) for each in functions if _is_written(each)]
    return sum(of_methods, [base for base in part.__mro__[1:] if _is_formula(base)])


def _is_written(method: Any) -> bool:
    """Whether a method has source code: those that a dataclass generates have none."""
    return Path(method.__code__.co_filename).is_file()


def _names(tree: ast.AST) -> Iterator[str]:
    """Return the names that code calls, passes to a function, or reads an attribute of. Types in
    `isinstance` and in annotations are none of them."""
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.Attribute):
            values = [node.value]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) != "isinstance":
            values = [node.func, *node.args]
        yield from (value.id for value in values if isinstance(value, ast.Name))


def _is_formula(part: Any) -> bool:
    return getattr(part, "__module__", "").startswith(tuple(f"regard.{each}." for each in MODELS))


@cache
def _place(part: Any) -> tuple[Path, range]:
    """Return the file and the lines of a class or function."""
    lines, start = inspect.getsourcelines(part)
    return Path(inspect.getfile(part)), range(start, start + len(lines))


def tables() -> str:
    """One table for each paper, then the equations of each recipe."""
    papers = groupby(equations(), key=lambda equation: equation.paper)
    parts = [_table(paper, list(of_paper)) for paper, of_paper in papers]
    rows = [f"| {name} | {_places(name)} |" for name in recipes.names()]
    head = ["## Recipes", "", "| recipe | equations |", "|---|---|"]
    return "\n".join([*parts, *head, *rows, ""])


def _table(paper: str, of_paper: Sequence[Equation]) -> str:
    head = [f"### {paper}", "", "| place | equation | line | recipes |", "|---|---|---|---|"]
    return "\n".join([*head, *map(_row, of_paper), ""])


def _row(equation: Equation) -> str:
    names = recipes_of_equations()[equation]
    text = equation.text.replace("|", "\\|")
    listed = ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} recipes"
    return f"| {equation.place} | `{text}` | {equation.link()} | {listed or 'none'} |"


def _places(name: str) -> str:
    """Return the places of a recipe's equations, by paper, as links to their lines."""

    def link(equation: Equation) -> str:
        return equation.link(re.sub(r" ?\(?from memory\)?", "", equation.place) or "equation")

    of_recipe = [each for each, names in recipes_of_equations().items() if name in names]
    papers = groupby(of_recipe, key=lambda equation: equation.paper)
    return "; ".join(f"{paper}: {', '.join(map(link, of_paper))}" for paper, of_paper in papers)


if __name__ == "__main__":
    head = PAGE.read_text(encoding="utf8").partition(START)[0]
    PAGE.write_text(f"{head}{START}\n{tables()}", encoding="utf8")
