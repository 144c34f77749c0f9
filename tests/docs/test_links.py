"""Every link between pages has a target. Links to other sites are only checked for their form."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT, anchors_of, links_of, name, pages


def fault_of(link: str, page: Path, root: Path) -> str | None:
    """Return what is wrong with a link of a page, or None if it is valid."""
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return None
    if parts.scheme or parts.netloc:
        well_formed = parts.scheme == "https" and "." in parts.netloc
        return None if well_formed else "expected https://host/path"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not link or parts.path.startswith("/") or not target.is_relative_to(root):
        return "expected a path inside the project, relative to the page"
    if not target.exists():
        return "no such file"
    if parts.fragment and target.suffix != ".md":
        line = re.fullmatch(r"L(\d+)", parts.fragment)
        if line is None:
            return "only headings of Markdown pages and lines can be anchors"
        num_lines = len(target.read_text(encoding="utf-8").splitlines())
        return None if 1 <= int(line[1]) <= num_lines else f"no such line in {target.name}"
    if parts.fragment and parts.fragment not in anchors_of(target.read_text(encoding="utf-8")):
        return f"no such heading in {target.name}"
    return None


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_of_pages_have_targets(page: Path) -> None:
    links = links_of(page.read_text(encoding="utf-8"))
    faults = {link: fault for link in links if (fault := fault_of(link, page, ROOT))}
    assert not faults


@pytest.mark.parametrize("page", pages(), ids=name)
def test_the_make_commands_that_a_page_names_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9]+):", makefile, re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"(?:`|^ *\$ )make ([a-z0-9]+)", text, re.MULTILINE)
    assert set(commands) <= targets


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("b.md#there", None),
        ("#here", None),
        ("https://example.org", None),
        ("b.md#nowhere", "no such heading"),
        ("c.md", "no such file"),
        ("c.py#L2", None),
        ("c.py#L3", "no such line in c.py"),
        ("c.py#there", "headings"),
        ("http://example.org", "expected https"),
        ("https:example", "expected https"),
        ("/b.md", "inside the project"),
        ("../../b.md", "inside the project"),
        ("", "inside the project"),
    ],
)
def test_valid_and_invalid_links(link: str, fault: str | None, tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# Here\n")
    (tmp_path / "b.md").write_text("# There\n")
    (tmp_path / "c.py").write_text("x = 1\ny = 2\n")
    message = fault_of(link, page, tmp_path)
    assert (message is None) == (fault is None)
    assert fault is None or fault in str(message)
