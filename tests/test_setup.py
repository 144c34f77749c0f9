"""setup.py: instruction sets of the machine that a compiler builds for."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / "src/regard/kernels"
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


@pytest.fixture
def setup(monkeypatch):
    """Names of setup.py."""
    monkeypatch.chdir(ROOT)
    return runpy.run_path("setup.py", run_name="setup")


@pytest.fixture
def instruction_sets(setup):
    return setup["instruction_sets"]


def compiler_for(folder, target):
    """A compiler that builds for a target, as far as setup.py asks."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\necho {target}\n")
    path.chmod(0o755)
    return [str(path)]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("x86_64-linux-gnu", ["BASELINE", "AVX2", "AVX2_ESTIMATES", "AVX512"]),
        ("amd64-unknown-freebsd14", ["BASELINE", "AVX2", "AVX2_ESTIMATES", "AVX512"]),
        ("aarch64-linux-gnu", ["BASELINE"]),
        ("i686-linux-gnu", ["BASELINE"]),
    ],
)
def test_a_cross_compiler_gets_the_instruction_sets_of_its_target(
    instruction_sets, tmp_path, monkeypatch, target, names
):
    monkeypatch.setattr(sys, "platform", "linux")
    sets = instruction_sets(compiler_for(tmp_path, target))
    assert list(sets) == names
    assert not any("ONLY_FOR" in flag for flags in sets.values() for flag in flags)


def test_a_compiler_that_names_no_target_builds_for_this_machine(
    instruction_sets, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert list(instruction_sets([str(tmp_path / "missing")])) == ["BASELINE"]
    assert list(instruction_sets(compiler_for(tmp_path, ""))) == ["BASELINE"]


def test_a_build_for_two_machines_limits_flags_to_one_of_them(
    instruction_sets, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "platform", "darwin")
    sets = instruction_sets(compiler_for(tmp_path, "arm64-apple-darwin23"))
    assert sets["BASELINE"] == []
    assert list(sets) == ["BASELINE", "AVX2", "AVX2_ESTIMATES", "AVX512"]
    arguments = ["-Xarch_x86_64", "-mavx2", "-Xarch_x86_64", "-mfma", "-DONLY_FOR=__x86_64__"]
    assert sets["AVX2"] == arguments


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(("machine", "is_empty"), [("__no_machine__", True), ("__LP64__", False)])
def test_the_kernels_are_empty_for_other_machines(machine, is_empty):
    flags = ["-std=c++17", "-E", "-P", "-DKERNELS=AVX2", f"-DONLY_FOR={machine}"]
    command = [COMPILER, *flags, f"-I{KERNELS}", str(KERNELS / "block.cpp")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (text.strip() == "") == is_empty


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "Command '['g++', '-Wall', '-c']' returned non-zero exit status 1.",
            "Command 'g++' returned non-zero exit status 1",
        ),
        ("[Errno 2] No such file or directory: 'g++'\nmore", None),
    ],
)
def test_the_warning_names_the_compiler_alone(setup, message, reason):
    expected = reason or message.splitlines()[0]
    assert setup["reason_of"](OSError(message)) == expected
