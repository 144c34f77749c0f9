"""Limits on instruction sets: the libraries stay within them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.runtime import instruction_set
from tests.benchmarks.scripts import BENCHMARKS, script

instruction_sets = script("instruction_sets")
running = script("peers.running")

SCRIPT = Path(__file__).parents[2] / "scripts" / "other-cpus"


def test_there_is_a_limit_for_every_instruction_set():
    assert set(instruction_sets.LIMITS) == set(instruction_set.LANES)
    assert len({frozenset(limits) for limits in instruction_sets.LIMITS.values()}) == 1


@pytest.mark.parametrize("name", instruction_sets.LIMITS)
def test_the_tests_of_other_cpus_have_the_same_limits(name):
    line = re.search(rf"{name}\) onednn=(\S+) torch=(\S+) mkl=(\S+)", SCRIPT.read_text())
    limits = instruction_sets.LIMITS[name]
    names = "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS"
    assert line.groups() == tuple(limits[each] for each in names)


def test_without_a_limit_nothing_changes(monkeypatch):
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("started again"))
    instruction_sets.restart(None)
    assert instruction_sets.variables(None) == {}


def test_a_program_starts_again_once():
    code = (
        "import instruction_sets, os, sys; sys.argv = ['-c', sys.argv[1]];"
        "print(len(os.environ.get('ATEN_CPU_CAPABILITY', '')), flush=True);"
        "instruction_sets.os.execve = lambda path, words, values: os.environ.update(values);"
        "[instruction_sets.restart('avx2') for _ in range(2)];"
        "import torch; from regard import kernels;"
        "print(torch.backends.cpu.get_cpu_capability(), kernels.available() and kernels.lanes())"
    )
    environment = {k: v for k, v in os.environ.items() if k != "ATEN_CPU_CAPABILITY"}
    answer = subprocess.run(
        [sys.executable, "-c", code, "word"],
        capture_output=True,
        text=True,
        cwd=BENCHMARKS,
        env=environment,
        check=True,
    )
    assert answer.stdout.split()[0] == "0"
    assert answer.stdout.split()[1] in ("AVX2", "DEFAULT")  # DEFAULT: a CPU without AVX2
    assert answer.stdout.split()[2] in ("8", "4", "False")


def test_contestants_have_the_limit_and_the_threads(tmp_path, monkeypatch):
    for name in instruction_sets.LIMITS["avx2"]:
        monkeypatch.delenv(name, raising=False)
    unlimited = running.Place(tmp_path, tmp_path, "cpu", 0)
    limited = running.Place(tmp_path, tmp_path, "cpu", 0, threads=2, instruction_set="avx2")
    assert unlimited.variables["OMP_NUM_THREADS"] == "1"
    assert "ATEN_CPU_CAPABILITY" not in unlimited.variables
    assert limited.variables["MKL_NUM_THREADS"] == "2"
    assert instruction_sets.LIMITS["avx2"].items() <= limited.variables.items()
