"""Sentences in public docstrings, pages and help texts: subject, verb, object."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = sorted((ROOT / "src" / "regard").rglob("*.py"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "benchmarks/README.md",
]
RECIPES = sorted((ROOT / "src" / "regard" / "recipes").glob("*.yaml"))

OPENINGS = re.compile(r"(Those|These|Of|The same|So many|So much|As|Whoever|From what|What is)\b")
"""A docstring that begins with one of these has no subject, or hides it."""
BANNED = re.compile(
    r"\b(looks? at|looked at|looking at|who asks|is asked|are asked|what was found|is told|are told"
    r"|so many|that many|as would|anew|goes by|all the same|the living|of whom|in one go"
    r"|is no command|of each of|(?-i:are none|is none))\b",
    re.IGNORECASE,
)
"""Phrases for which the field has a term."""


def documented(body, prefix=""):
    """Yield the public definitions in a body with their docstrings: modules' fields too."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            if not node.name.startswith("_"):
                yield f"{prefix}{node.name}", ast.get_docstring(node)
                if isinstance(node, ast.ClassDef):
                    yield from documented(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            is_text = (
                isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            )
            if is_text and isinstance(target, ast.Name) and not target.id.startswith("_"):
                yield f"{prefix}{target.id}", after.value.value


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_public_docstrings_begin_with_their_subject(path):
    tree = ast.parse(path.read_text())
    sentences = [("module", ast.get_docstring(tree)), *documented(tree.body)]
    wrong = [
        f"{name}: {text.splitlines()[0]}"
        for name, text in sentences
        if text and OPENINGS.match(text)
    ]
    assert not wrong


def prose(page):
    """Yield the number and the text of each line of a page outside its blocks of code."""
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_terms_of_the_field(page):
    wrong = [f"line {number}: {line}" for number, line in prose(page) if BANNED.search(line)]
    assert not wrong


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_recipes_use_the_terms_of_the_field(recipe):
    assert not [line for line in recipe.read_text().splitlines() if BANNED.search(line)]


def help_texts():
    """Yield every text of the configuration and the command line that a person may read."""
    folders = (ROOT / "src" / "regard" / name for name in ("cli", "config"))
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield f"{path.relative_to(ROOT)}, line {node.lineno}", " ".join(node.value.split())


def test_help_uses_the_terms_of_the_field():
    assert not [f"{place}: {text}" for place, text in help_texts() if BANNED.search(text)]


@pytest.mark.parametrize(
    ("sentence", "is_wrong"),
    [("Of each label, the share that is right.", True), ("Precision of each label.", False)],
)
def test_openings(sentence, is_wrong):
    assert bool(OPENINGS.match(sentence)) is is_wrong
