"""No page, recipe, help text or message contains a placeholder such as TODO."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name, pages

PLACEHOLDER = re.compile(
    r"\b(?:PLACE|PLACEHOLDER|TODO|TBD|TBC|XXX+|FIXME)\b|(?i:lorem ipsum)|\?\?\?"
    r"|\bto be (?:measured|filled in|determined|announced)\b"
)
PACKAGE = ROOT / "src" / "regard"
FILES = [
    *pages(),
    ROOT / "main.py",
    *sorted(PACKAGE.rglob("*.py")),
    *sorted(PACKAGE.rglob("*.yaml")),
]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_text_is_a_placeholder(path: Path) -> None:
    assert PLACEHOLDER.findall(path.read_text(encoding="utf8")) == []


@pytest.mark.parametrize(
    "text", ["PLACE", "TODO: a figure", "BLEU TBD", "Lorem ipsum dolor", "(to be measured)", "???"]
)
def test_placeholders_are_recognised(text: str) -> None:
    assert PLACEHOLDER.search(text)


@pytest.mark.parametrize("text", ["in place of", "the next token to be decoded", "placeholders"])
def test_ordinary_words_are_not_placeholders(text: str) -> None:
    assert not PLACEHOLDER.search(text)
