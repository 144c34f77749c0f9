"""Commands in processes of their own, and what they use."""

import subprocess
import sys
import time

import pytest

from tests.benchmarks.scripts import script

whole_runs = script("whole_runs")


@pytest.fixture
def program(monkeypatch):
    """Run Python code in place of `regard`."""
    popen = subprocess.Popen

    def begin(arguments, **options):
        return popen([sys.executable, "-c", arguments[-1]], **options)

    monkeypatch.setattr(whole_runs.subprocess, "Popen", begin)
    monkeypatch.setattr(whole_runs, "LONGEST_PAUSE", 0.05)


def test_use_of_resources_is_measured_while_a_command_runs_and_at_its_end(program):
    usages = []
    code = "data = bytearray(60_000_000); s = sum(range(6_000_000)); print('a'); print('b')"
    usage = whole_runs.measure_command(code, on_usage=usages.append)
    assert usages[-1] is usage
    assert (usage.status, usage.last_line) == (0, "b")
    assert usage.megabytes > 57
    assert 0 < usage.user_seconds <= usage.cpu_seconds
    assert usage.wall_seconds > 0
    if sys.platform == "linux":
        assert len(usages) > 1
        assert usages[0].status == whole_runs.RUNNING
        assert usages[-2].cpu_seconds <= usage.cpu_seconds + 0.02
        assert usages[-2].megabytes <= usage.megabytes


def test_a_failure_has_its_status_and_its_last_line(program):
    code = "print('first'); raise SystemExit('no such file')"
    assert whole_runs.measure_command(code).status == 1
    with pytest.raises(SystemExit, match="no such file"):
        whole_runs.run_command(code)


def test_an_interrupted_command_is_terminated(program):
    """An exception in the script ends the command, which would go on without it."""

    def stop(usage):
        raise KeyboardInterrupt

    before = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        whole_runs.measure_command("import time; time.sleep(60)", on_usage=stop)
    assert time.perf_counter() - before < 30
    assert not whole_runs.PROCESSES
