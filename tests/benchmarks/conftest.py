"""Commands of scripts that run in the process of the test."""

import pytest

from regard.cli.main import run
from tests.benchmarks.scripts import script

whole_runs = script("whole_runs")


@pytest.fixture
def commands(monkeypatch):
    """Run commands in this process. A command whose number is in the list ends with status 1."""
    commands, failing = [], []

    def measure_command(*command, on_usage=lambda usage: None):
        commands.append(command)
        status = 1 if len(commands) in failing else run([*command])
        usage = whole_runs.Usage(status, "the last line", 1.0, 30.0, 3.0, 50.0)
        on_usage(usage)
        return usage

    monkeypatch.setattr(whole_runs, "measure_command", measure_command)
    return commands, failing
