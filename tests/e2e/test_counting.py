"""The counting task from its command line: what it prints, what it learns to look at, and what it
says to those who ask for what cannot be."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

MAIN = Path(__file__).resolve().parents[2] / "main.py"
SMALL = ["--steps=600", "--max_len=5", "--vocab_size=2", "--hidden=16", "--print_every=300"]
PRINTED = re.compile(
    r"""Input:
\[\[\['(?P<first>[ AB])'\](?P<others>(?:\n  \['[ AB]'\])*)\]\]

Prediction:
\[\[(?P<counts>\d+(?: \d+)*)\]\]

Encoder-Decoder Attention:
(?P<outputs>(?:Output step \d+ attended mainly to Input steps: \[\d+(?: \d+)*\]
\[[0-9., ]+\]
)+)"""
)
OUTPUT = re.compile(r"Output step (\d+) attended mainly to Input steps: \[([\d ]+)\]\n(\[.*\])\n")


def call(*arguments: str | Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "BROWSER": "true"}
    environment.pop("DISPLAY", None)
    environment.pop("WAYLAND_DISPLAY", None)
    command = [python, str(MAIN), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=environment
    )


@dataclass(frozen=True)
class Sample:
    letters: str
    counts: list[int]
    steps: list[list[int]]
    weights: list[list[float]]


def read(printed: str) -> Sample:
    """What --test printed; fails unless the whole has the one form."""
    found = PRINTED.fullmatch(printed)
    assert found, printed
    outputs = OUTPUT.findall(found["outputs"])
    assert [int(number) for number, _, _ in outputs] == list(range(len(outputs)))
    return Sample(
        found["first"] + "".join(re.findall(r"'(.)'", found["others"])),
        [int(number) for number in found["counts"].split()],
        [[int(step) for step in steps.split()] for _, steps, _ in outputs],
        [ast.literal_eval(weights) for _, _, weights in outputs],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counting") / "models"
    done = call("--train", *SMALL, "--variable-length", f"--savepath={folder}")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["step 300 of 600", "step 600 of 600"]
    shares = re.findall(r"length (\d): ([\d.]+)%", done.stdout)
    assert [length for length, _ in shares] == list("12345")
    assert all(float(share) > 99 for _, share in shares), done.stdout
    return folder


@pytest.mark.parametrize("seed", [1, 2])
def test_it_counts_and_looks_evenly_at_the_letter_that_it_counts(folder: Path, seed: int) -> None:
    done = call("--test", f"--savepath={folder}", f"--seed={seed}")
    assert (done.returncode, done.stderr) == (0, "")
    sample = read(done.stdout)
    assert sample.counts == [sample.letters.count(letter) for letter in "AB"]
    for letter, steps, weights in zip("AB", sample.steps, sample.weights, strict=True):
        of_symbol = {symbol: set() for symbol in sample.letters}
        for symbol, weight in zip(sample.letters, weights, strict=True):
            of_symbol[symbol].add(weight)
        assert all(len(of_one) == 1 for of_one in of_symbol.values())
        assert len({weight for of_one in of_symbol.values() for weight in of_one}) == len(of_symbol)
        assert sum(weights) == pytest.approx(1, abs=0.0005 * len(weights))
        if letter in sample.letters:
            there = [step for step, symbol in enumerate(sample.letters) if symbol == letter]
            assert steps == there


def test_short_samples_are_filled_up_with_visible_blanks(folder: Path) -> None:
    done = call("--test", f"--savepath={folder}", "--sample-len", "2", "--seed=3")
    assert (done.returncode, done.stderr) == (0, "")
    sample = read(done.stdout)
    assert len(sample.letters) == 5
    assert sample.letters[2:] == "   "
    assert sample.counts == [sample.letters.count(letter) for letter in "AB"]


def test_long_samples_work_with_a_warning(folder: Path) -> None:
    done = call("--test", f"--savepath={folder}", "--sample_len=7")
    assert done.returncode == 0
    assert done.stderr == (
        "main.py: warning: 7 letters are more than the 5 that were trained on: "
        "expect wrong counts\n"
    )
    assert len(read(done.stdout).letters) == 7


def test_the_plot_is_a_file_that_is_named(folder: Path) -> None:
    done = call("--test", f"--savepath={folder}", "--plot")
    assert done.returncode == 0, done.stderr
    printed, _, named = done.stdout.rpartition("\nHeatmap: ")
    read(printed)
    assert Path(named.strip()).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("flag", ["--hidden=16", "--max_len=5", "--variable_length"])
def test_flags_may_repeat_what_the_model_has(folder: Path, flag: str) -> None:
    assert call("--test", f"--savepath={folder}", flag).returncode == 0


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--hidden=17", "--hidden=17 contradicts the saved model, whose hidden is 16"),
        ("--vocab-size=3", "--vocab_size=3 contradicts the saved model, whose vocab_size is 2"),
        ("--separate_values", "--separate_values contradicts the saved model"),
    ],
)
def test_flags_may_not_contradict_the_model(folder: Path, flag: str, message: str) -> None:
    done = call("--test", f"--savepath={folder}", flag)
    assert done.returncode == 1
    assert done.stderr.startswith(f"main.py: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "either --train or --test"),
        (["--train", "--test"], 2, "either --train or --test"),
        (["--train", "--vocab_size=27"], 2, "vocab_size is 27: expected 1 to 26"),
        (["--train", "--max_len", "0"], 2, "max_len is 0: expected 1 or more"),
        (["--train", "--steps=many"], 2, "--steps: invalid int value: 'many'"),
        (["--train", "--step=5"], 2, "--step=5 is not known"),
        (["--train", "--sample_len=5"], 2, "--sample_len goes with --test"),
        (["--test", "--savepath=/nowhere"], 1, "no model at /nowhere/model.safetensors"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], status: int, message: str) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert done.stderr.startswith("main.py: ")
    assert done.stderr.count("\n") == 1


def test_help_and_a_line_about_installing_come_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('not here', name='torch')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(MAIN), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, env=environment
        )

    told = without_torch("--help")
    assert told.returncode == 0
    for option in ("--vocab_size", "--variable_length", "--sample_len", "--save_every"):
        assert option in told.stdout
    asked = without_torch()
    assert asked.returncode == 1
    assert asked.stderr.startswith("main.py: torch is not installed")
    assert "`sh scripts/install` installs" in asked.stderr
    assert asked.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_an_interrupted_training_saves_what_there_is(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(MAIN), "--train", "--print_every=1", "--steps=100000"]
    with subprocess.Popen(
        [*command, "--hidden=5", f"--savepath={tmp_path}"], stdout=subprocess.PIPE, text=True
    ) as training:
        assert training.stdout.readline().startswith("step 1 of")
        time.sleep(0.1)
        training.send_signal(signal.SIGINT)
        said, _ = training.communicate(timeout=60)
    assert training.returncode == 130
    steps = re.search(r"Interrupted: the model as it was after (\d+) steps is in (.*)", said)
    assert steps
    assert Path(steps[2]).is_file()
    done = call("--test", f"--savepath={tmp_path}")
    assert done.returncode == 0
    assert f"the training stopped after {steps[1]} of 100000 steps" in done.stderr
