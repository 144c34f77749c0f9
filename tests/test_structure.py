"""Structure of the package: size of its folders, its map in CONTRIBUTING.md, imports between
folders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "regard"
MAX_FILES = 16
MAX_IMPORTS = 240
"""Largest number of pairs of a folder or module of the first level and another one that it
imports."""


def modules() -> dict[str, set[str]]:
    """Return the names of the modules of each folder of the package."""
    folders: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        names = folders.setdefault(file.parent.relative_to(PACKAGE).as_posix(), set())
        names |= {file.stem} - {"__init__"}
    return folders


def mapped_modules() -> dict[str, set[str]]:
    """Return the names of the modules of each folder on the map. They follow the last colon."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("src/regard/\n")[2]
    folders: dict[str, set[str]] = {".": set()}
    folder, path, entry = ".", list[str](), ""
    for line in text.partition("\ndocs/")[0].splitlines():
        if module := re.match(r"  (\w+)\.py ", line):
            folders["."].add(module[1])
            continue
        if start := re.match(r"( {2,8})(\w+)/ +", line):
            path = [*path[: len(start[1]) // 2 - 1], start[2]]
            folder, entry = "/".join(path), line[start.end() :]
        else:
            entry = f"{entry} {line.strip()}"
        meaning, _, names = entry.rpartition(": ")
        folders[folder] = set(names.split(", ")) if meaning else set()
    return folders


def imports_between_folders() -> Iterator[tuple[str, str]]:
    """Yield the first-level folder or module of each import, and that of the imported module."""
    for file in PACKAGE.rglob("*.py"):
        first = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = list[str]()
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.startswith("regard.")]
            yield from ((first, name.split(".")[1]) for name in names)


def test_a_folder_has_few_files() -> None:
    numbers = {folder: len(list((PACKAGE / folder).glob("*.py"))) for folder in modules()}
    assert {folder: number for folder, number in numbers.items() if number > MAX_FILES} == {}


def test_the_map_has_every_module_in_its_folder() -> None:
    assert mapped_modules() == modules()


def test_few_folders_import_each_other() -> None:
    known = {path.stem for path in PACKAGE.iterdir()} - {"__init__", "__main__"}
    pairs = {(first, name) for first, name in imports_between_folders() if first != name}
    pairs = {pair for pair in pairs if known.issuperset({*pair} - {"__init__"})}
    assert len(pairs) <= MAX_IMPORTS
