"""The Makefile and the scripts: the test files that they name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = [ROOT / "Makefile", ROOT / ".ci/run", *sorted((ROOT / "scripts").iterdir())]
TESTS = re.compile(r"(?<![\w/])tests(?:/\w+)+(?:\.py)?(?![\w*])")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_named_tests_exist(script):
    named = set(TESTS.findall(script.read_text()))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_deselected_tests_exist():
    script = (ROOT / "scripts/other-cpus").read_text()
    names = re.search(r"^for test in (.*); do$", script, re.MULTILINE)[1].split()
    path, prefix = re.search(r"--deselect (\S+)::(\w+)\$test", script).groups()
    tests = (ROOT / path).read_text()
    assert names
    assert [name for name in names if f"def {prefix}{name}(" not in tests] == []
