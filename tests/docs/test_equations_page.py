"""docs/equations.md lists the line of each equation, and the equations of each recipe."""

import ast
import re

import pytest

from regard import recipes
from tests.docs.equations_page import (
    PAGE,
    PROCEDURES,
    SOURCE,
    START,
    equations,
    recipes_of_equations,
    tables,
)
from tests.docs.pages import ROOT

WITHOUT_ATTENTION = {"tatoeba-plain", "multi30k-bytenet", "wmt14-bytenet"}
NAMED_FOR_OTHER_REASONS = {
    "Li and Roth 2002": "source of the data of trec",
    "Wu et al. 2021": "size of the model of multi30k-transformer, and its published score",
}
NAMED = re.compile(r"([A-Z]\w+(?: et al\.| and [A-Z]\w+)) \(?((?:19|20)\d\d)")


def test_the_equations_page_is_up_to_date():
    text = PAGE.read_text(encoding="utf8").partition(START)[2]
    assert text == f"\n{tables()}", "run `python -m tests.docs.equations_page`"


@pytest.mark.parametrize("path", sorted({each.path for each in equations()}), ids=lambda p: p.stem)
def test_a_statement_begins_below_each_comment(path):
    tree = ast.parse(path.read_text(encoding="utf8"))
    first_lines = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)}
    docstrings = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    lines = {each.line for each in equations() if each.path == path}
    assert lines <= first_lines - docstrings


def test_options_of_equations_exist():
    """Search and training have no object in a model, so their equations need an option."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf8")
    for equation in equations():
        folder = equation.path.relative_to(SOURCE).parts[0]
        assert equation.options or folder not in PROCEDURES, equation
        for option in equation.options:
            field, _, value = option.partition(" is ")
            assert re.search(rf"[. ]{field}\b.*\b{value}\b", page), equation


@pytest.mark.parametrize("name", recipes.names())
def test_recipes_have_the_equations_of_their_attention_and_papers(name):
    of_recipe = [each for each, names in recipes_of_equations().items() if name in names]
    folders = {each.path.relative_to(SOURCE).parts[0] for each in of_recipe}
    assert ("attention" in folders) != (name in WITHOUT_ATTENTION)
    about = recipes.load(recipes.find(name)).about
    papers = {" ".join(match) for match in NAMED.findall(about)}
    assert papers - {each.paper for each in of_recipe} <= NAMED_FOR_OTHER_REASONS.keys()


def test_the_equations_of_one_recipe():
    """Equation 6 of Bahdanau et al. is the softmax; a GRU is no LSTM."""
    of_recipe = {each for each, names in recipes_of_equations().items() if "copy" in names}
    of_paper = [each for each in of_recipe if each.paper == "Bahdanau et al. 2015"]
    (softmax,) = (each for each in of_paper if each.place.startswith("eq. 6"))
    line = softmax.path.read_text(encoding="utf8").splitlines()[softmax.line - 1]
    assert "torch.softmax" in line
    papers = {each.paper for each in of_recipe}
    assert papers == {"Bahdanau et al. 2015", "Cho et al. 2014", "Luong et al. 2015"}
