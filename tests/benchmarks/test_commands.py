"""Every script of benchmarks/ that a person starts can be imported and has a help page."""

import ast
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from tests.benchmarks.scripts import BENCHMARKS, script

COMMANDS = sorted(
    path.stem for path in BENCHMARKS.glob("*.py") if 'if __name__ == "__main__"' in path.read_text()
)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_script_has_a_help_page(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as stop:
        script(name).main()
    assert stop.value.code == 0
    assert "--" in capsys.readouterr().out


def test_every_script_is_behind_a_published_figure():
    published = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"{name}.py" not in published] == []


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: path.stem)
def test_names_that_functions_import_exist(path):
    """Imports inside functions too, which no help page reaches."""
    imports = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard")
    ]
    for node in imports:
        module = import_module(node.module)
        for alias in node.names:
            assert hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}")
