"""Every code block of the README and of docs/ runs.

The blocks of a page run in order, in one empty folder. Python blocks share one namespace.

    python               executed
    console              the lines after "$ " run as one bash script, which stops at the first
                         failure; the other lines are example output
    yaml, json, toml     parsed, which checks their syntax
    text                 not checked

Words after the language change this:

    file=NAME            also write the block to this file, for the blocks below
    needs=data           needs real data; `data/` in the folder links to REGARD_DATA
    needs=export         needs the libraries of this extra
    needs=joblib         needs this package
    norun: REASON        not executed, for this reason

If something that is needed is missing, the rest of the page is skipped. All other blocks run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests import needs
from tests.docs import regard_server
from tests.docs.pages import ROOT, Block, blocks_of, name, pages

READERS: dict[str, Callable[[str], object]] = {
    "yaml": yaml.safe_load,
    "json": json.loads,
    "toml": tomllib.loads,
}
LANGUAGES = {"python", "console", "text", *READERS}
WORDS = re.compile(r"|needs=data|needs=export|needs=joblib|file=[\w.-]+|norun: \S.{9,}")
SECONDS = 120
PAGES = [
    page for page in pages() if name(page) == "README.md" or page.is_relative_to(ROOT / "docs")
]


def run_console(block: Block, folder: Path) -> None:
    process = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(block.commands)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert process.returncode == 0, (
        f"{block.place}: exit {process.returncode}\n{process.stdout}{process.stderr}"
    )


def run_python(block: Block, namespace: dict[str, object]) -> None:
    """Execute with the line numbers of the page, so that a traceback points to the page."""
    code = compile("\n" * (block.line - 1) + block.text, block.page, "exec", dont_inherit=True)
    exec(code, namespace)


def link_data(block: Block, folder: Path) -> None:
    data = os.environ.get("REGARD_DATA")
    if not data:
        pytest.skip(f"{block.place} and the blocks after it need REGARD_DATA")
    if not (folder / "data").exists():
        (folder / "data").symlink_to(Path(data).resolve())


def need_export(block: Block) -> None:
    if not all(importlib.util.find_spec(name) for name in ("ctranslate2", "onnx", "onnxruntime")):
        pytest.skip(f"{block.place} and the blocks after it: {needs.EXPORT}")


def need_joblib(block: Block) -> None:
    if not importlib.util.find_spec("joblib"):
        pytest.skip(f"{block.place} and the blocks after it need joblib")


def run(block: Block, folder: Path, namespace: dict[str, object]) -> None:
    if block.words.startswith("norun"):
        return
    if block.words == "needs=data":
        link_data(block, folder)
    if block.words == "needs=export":
        need_export(block)
    if block.words == "needs=joblib":
        need_joblib(block)
    if block.file:
        (folder / block.file).write_text(block.text, encoding="utf-8")
    if block.language in READERS:
        READERS[block.language](block.text)
    elif block.language == "console":
        run_console(block, folder)
    elif block.language == "python":
        run_python(block, namespace)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The value of PATH with the `regard` and `python` of this environment first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if not regard_server.IS_SUPPORTED:
        yield path
        return
    with regard_server.started(tmp_path_factory.mktemp("server")) as folder:
        yield f"{folder}{os.pathsep}{path}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: str
) -> None:
    monkeypatch.setenv("PATH", programs)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(name(page), page.read_text(encoding="utf-8")):
        run(block, tmp_path, namespace)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_has_a_known_language_and_words(page: Path) -> None:
    for block in blocks_of(name(page), page.read_text(encoding="utf-8")):
        info = f"{block.place}: {block.language} {block.words}"
        assert block.language in LANGUAGES, f"{info}: expected one of {sorted(LANGUAGES)}"
        assert WORDS.fullmatch(block.words), (
            f"{info}: expected no words, file=NAME, needs=data, needs=export, needs=joblib or "
            "norun: REASON"
        )
        if block.language == "console":
            assert block.commands, f'{info}: expected lines that begin with "$ "'


def test_a_failing_command_is_reported_with_its_place(tmp_path: Path) -> None:
    block = Block("page.md", 13, "console", "", "$ true\n$ false | cat\n$ true\n")
    with pytest.raises(AssertionError, match=r"page\.md:13: exit 1"):
        run(block, tmp_path, {})


def test_failing_python_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as error:
        run(Block("page.md", 7, "python", "", "x = 1\nx / 0\n"), tmp_path, {})
    assert error.traceback[-1].lineno + 1 == 8


def test_invalid_yaml_is_reported(tmp_path: Path) -> None:
    with pytest.raises(yaml.YAMLError):
        run(Block("page.md", 1, "yaml", "file=a.yaml", "a: [1"), tmp_path, {})


def test_blocks_share_a_folder_and_a_namespace(tmp_path: Path) -> None:
    namespace: dict[str, object] = {}
    run(Block("page.md", 1, "text", "file=pairs.tsv", "a\tb\n"), tmp_path, namespace)
    run(Block("page.md", 2, "console", "", "$ cp pairs.tsv more.tsv\n"), tmp_path, namespace)
    run(Block("page.md", 3, "python", "", "x = 41\n"), tmp_path, namespace)
    run(Block("page.md", 4, "python", "", "x += 1\n"), tmp_path, namespace)
    run(Block("page.md", 5, "python", "norun: it would fail", "1 / 0\n"), tmp_path, namespace)
    assert (tmp_path / "more.tsv").read_text() == "a\tb\n"
    assert namespace["x"] == 42


def test_real_data_is_linked_or_the_rest_of_the_page_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = Block("page.md", 5, "console", "needs=data", "$ ls data/here\n")
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"page\.md:5"):
        run(block, tmp_path, {})
    (tmp_path / "real" / "here").mkdir(parents=True)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "real"))
    run(block, tmp_path, {})
    assert (tmp_path / "data" / "here").is_dir()
