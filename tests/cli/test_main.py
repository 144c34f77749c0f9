"""Options of the command line that hold for every command."""

import os
import signal
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


@pytest.mark.parametrize(
    ("number", "status", "line"),
    [(signal.SIGINT, 130, "regard: interrupted\n"), (signal.SIGTERM, 143, "regard: terminated\n")],
)
def test_a_signal_before_the_command_ends_with_a_line(number, status, line):
    code = (
        "import signal\nfrom regard.cli import main\nfrom regard.runtime import instruction_set\n"
    )
    code += f"instruction_set.limit = lambda: signal.raise_signal({int(number)})\nmain.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "recipes"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (status, line)
