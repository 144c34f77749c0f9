"""Options of the command line that hold for every command."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "is_plain"),
    [
        (["--plain", "recipes"], True),
        (["recipes", "--plain"], True),
        (["translate", "no-run", "--", "--plain"], False),
    ],
)
def test_plain_runs_the_formulas_with_any_command(words, is_plain):
    code = f"from regard.cli import main; main.run({words})\n"
    code += "from regard.runtime.modes import is_plain; print(is_plain())"
    environment = {name: value for name, value in os.environ.items() if name != "REGARD_PLAIN"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == str(is_plain)
