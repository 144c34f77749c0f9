"""The counting task from its command line: output, learned attention and messages."""

from __future__ import annotations

import ast
import errno
import io
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, str(MAIN), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


@dataclass(frozen=True)
class Said:
    status: int
    out: str
    err: str


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Run the command in this process, which has loaded torch already and has no screen."""
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    main = runpy.run_path(str(MAIN))["main"]

    def say(*arguments: str) -> Said:
        status = main(list(arguments))
        return Said(status, *capsys.readouterr())

    return say


@dataclass(frozen=True)
class Sample:
    letters: str
    counts: list[int]
    steps: list[list[int]]
    weights: list[list[float]]


def read(printed: str) -> Sample:
    """Parse the output of --test. Fails if a part of it has another format."""
    match = PRINTED.fullmatch(printed)
    assert match, printed
    outputs = OUTPUT.findall(match["outputs"])
    assert [int(number) for number, _, _ in outputs] == list(range(len(outputs)))
    return Sample(
        match["first"] + "".join(re.findall(r"'(.)'", match["others"])),
        [int(number) for number in match["counts"].split()],
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
    accuracies = re.findall(r"length (\d): ([\d.]+)%", done.stdout)
    assert [length for length, _ in accuracies] == list("12345")
    assert all(float(share) > 99 for _, share in accuracies), done.stdout
    return folder


def test_the_command_prints_the_documented_format(folder: Path) -> None:
    done = call("--test", f"--savepath={folder}")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(read(done.stdout).letters) == 5


@pytest.mark.parametrize("seed", range(1, 6))
def test_counts_are_right_and_attention_is_uniform_over_the_counted_letter(
    say, folder, seed
) -> None:
    result = say("--test", f"--savepath={folder}", f"--seed={seed}")
    assert (result.status, result.err) == (0, "")
    sample = read(result.out)
    assert sample.counts == [sample.letters.count(letter) for letter in "AB"]
    for letter, steps, weights in zip("AB", sample.steps, sample.weights, strict=True):
        by_symbol: dict[str, set[float]] = {}
        for symbol, weight in zip(sample.letters, weights, strict=True):
            by_symbol.setdefault(symbol, set()).add(weight)
        assert all(len(of_one) == 1 for of_one in by_symbol.values()), "not even"
        assert len(set().union(*by_symbol.values())) == len(by_symbol), "not told apart"
        assert sum(weights) == pytest.approx(1, abs=0.0005 * len(weights))
        if letter in sample.letters:
            assert steps == [i for i, symbol in enumerate(sample.letters) if symbol == letter]


def test_short_samples_are_padded_with_visible_blanks(say, folder) -> None:
    result = say("--test", f"--savepath={folder}", "--sample-len", "2", "--seed=3")
    assert (result.status, result.err) == (0, "")
    sample = read(result.out)
    assert len(sample.letters) == 5
    assert sample.letters[2:] == "   "
    assert sample.counts == [sample.letters.count(letter) for letter in "AB"]


def test_long_samples_work_with_a_warning(say, folder) -> None:
    result = say("--test", f"--savepath={folder}", "--sample_len=7")
    assert result.status == 0
    assert result.err == (
        "main.py: warning: 7 letters are more than the 5 that were trained on: "
        "expect wrong counts\n"
    )
    assert len(read(result.out).letters) == 7


def test_numbers_count_sequences_of_any_length(say, tmp_path) -> None:
    """Attention by sigmoid selects a letter, and its weights are added up."""
    options = [*SMALL, "--answer=number", "--normaliser=sigmoid", f"--savepath={tmp_path}"]
    result = say("--train", *options)
    assert result.status == 0, result.err
    accuracies = dict(re.findall(r"length (\d+): ([\d.]+)%", result.out))
    assert list(accuracies) == ["2", "5", "10", "50"]
    assert all(float(share) > 99 for share in accuracies.values()), result.out
    result = say("--test", f"--savepath={tmp_path}", "--sample_len=23", "--seed=1")
    assert (result.status, result.err) == (0, "")
    sample = read(result.out)
    assert sample.counts == [sample.letters.count(letter) for letter in "AB"]
    for letter, weights in zip("AB", sample.weights, strict=True):
        letters = [each for each in zip(sample.letters, weights, strict=True) if each[0] != " "]
        assert all(weight > 0.4 for symbol, weight in letters if symbol == letter)
        assert all(weight < 0.05 for symbol, weight in letters if symbol != letter)


@pytest.mark.parametrize("screen", [False, True])
def test_plot_writes_a_file_and_opens_it_on_a_screen(say, folder, monkeypatch, screen) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    monkeypatch.setattr("sys.platform", "linux")
    if screen:
        monkeypatch.setenv("DISPLAY", ":0")
    result = say("--test", f"--savepath={folder}", "--plot")
    assert result.status == 0, result.err
    printed, _, named = result.out.rpartition("\nHeatmap: ")
    read(printed)
    figure = Path(named.strip())
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert shown == ([figure.as_uri()] if screen else [])


def test_options_may_repeat_the_settings_of_the_model(say, folder) -> None:
    result = say("--test", f"--savepath={folder}", *SMALL, "--variable_length")
    assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--hidden=17", "--hidden=17 contradicts the saved model, whose hidden is 16"),
        ("--vocab-size=3", "--vocab_size=3 contradicts the saved model, whose vocab_size is 2"),
        ("--separate_values", "--separate_values contradicts the saved model"),
    ],
)
def test_options_must_not_contradict_the_model(say, folder, flag, message) -> None:
    result = say("--test", f"--savepath={folder}", flag)
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"main.py: {message}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "either --train or --test"),
        (["--train", "--test"], 2, "either --train or --test"),
        (["--train", "--vocab_size=27"], 2, "vocab_size is 27: expected 1 to 26"),
        (["--train", "--max_len", "0"], 2, "max_len is 0: expected 1 or more"),
        (["--train", "--steps=9223372036854775808"], 2, "expected at most 9223372036854775807"),
        (["--train", "--lr=nan"], 2, "lr is nan: expected a number above 0"),
        (["--test", "--seed=9223372036854775808"], 2, "expected 0 to 9223372036854775807"),
        (["--test", "--savepath="], 2, "--savepath: expected a folder, got an empty path"),
        (["--train", "--max_len=9999999999"], 1, "GB: lower batchsize, max_len or hidden"),
        (["--train", "--hidden=9999999999999"], 1, "of memory and the machine has"),
        (["--train", "--answer=sum"], 2, "--answer: invalid choice: 'sum'"),
        (["--train", "--normaliser=max"], 2, "--normaliser: invalid choice: 'max'"),
        (["--train", "--steps=many"], 2, "--steps: invalid int value: 'many'"),
        (["--train", "--steps"], 2, "--steps: expected one argument"),
        (["--train", "--step=5"], 2, "unknown option --step=5"),
        (["--train", "--sample_len=5"], 2, "--sample_len goes with --test"),
        (["--train", f"--savepath={MAIN}"], 1, "cannot write a model into"),
        (["--train", "--lr=1e30", "--savepath=FOLDER"], 1, "lower lr, which is 1e+30"),
        (["--train", "--lr=1e39", "--steps=1", "--savepath=FOLDER"], 1, "weights are not finite"),
        (["--test", f"--savepath={'a' * 5000}"], 1, "File name too long"),
        (["--test", "--savepath=FOLDER"], 1, "model.safetensors: train one with --train"),
    ],
)
def test_mistakes_are_one_line(say, tmp_path, arguments, status, message) -> None:
    result = say(*(argument.replace("FOLDER", str(tmp_path)) for argument in arguments))
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.startswith("main.py: ")
    assert result.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


class Output(io.StringIO):
    """A standard output that cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, _text: str) -> int:
        raise self.error


CLOSED = (BrokenPipeError(errno.EPIPE, "Broken pipe"), "")
FULL = (OSError(errno.ENOSPC, "No space left on device"), "main.py: the output: No space left")


@pytest.mark.parametrize(("error", "message"), [CLOSED, FULL])
def test_an_output_that_cannot_be_written_is_one_line(
    folder, monkeypatch, capsys, error, message
) -> None:
    monkeypatch.setattr("sys.stdout", Output(error))
    status = runpy.run_path(str(MAIN))["main"](["--test", f"--savepath={folder}"])
    assert (status, capsys.readouterr().err[: len(message) or None]) == (1, message)


def test_a_closed_pipe_is_silent(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(MAIN), "--test", f"--savepath={folder}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as testing:
        testing.stdout.close()
        assert testing.stderr.read() == ""
    assert testing.returncode == 1


@pytest.mark.parametrize("error", [CLOSED[0], FULL[0]])
def test_training_saves_its_model_where_its_output_cannot_be_written(
    tmp_path, monkeypatch, capsys, error
) -> None:
    monkeypatch.setattr("sys.stdout", Output(error))
    options = ["--steps=5", "--hidden=4", "--print_every=2", f"--savepath={tmp_path}"]
    assert runpy.run_path(str(MAIN))["main"](["--train", *options]) == 1
    assert 1 <= len(capsys.readouterr().err.splitlines()) <= 2
    assert (tmp_path / "model.safetensors").is_file()


def test_an_interruption_while_torch_is_loaded_is_one_line(say, monkeypatch) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupt)
    assert say("--test") == Said(130, "", "main.py: interrupted\n")


def test_help_and_an_install_hint_work_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('not here', name='torch')")
    help_result = call("--help", PYTHONPATH=str(tmp_path))
    assert help_result.returncode == 0
    for option in ("--vocab_size", "--variable_length", "--sample_len", "--save_every"):
        assert option in help_result.stdout
    bare_result = call(PYTHONPATH=str(tmp_path))
    assert bare_result.returncode == 1
    assert bare_result.stderr.startswith("main.py: torch is not installed")
    assert "`sh scripts/install` installs" in bare_result.stderr
    assert bare_result.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_an_interrupted_training_saves_its_model(say, tmp_path) -> None:
    command = [sys.executable, "-u", str(MAIN), "--train", "--print_every=1", "--steps=100000"]
    with subprocess.Popen(
        [*command, "--hidden=5", f"--savepath={tmp_path}"], stdout=subprocess.PIPE, text=True
    ) as training:
        assert training.stdout.readline().startswith("step 1 of")
        time.sleep(0.1)
        training.send_signal(signal.SIGINT)
        printed, _ = training.communicate(timeout=300)
    assert training.returncode == 130
    steps = re.search(r"Interrupted: the model after (\d+) steps is in (.*)", printed)
    assert steps
    assert Path(steps[2]).is_file()
    result = say("--test", f"--savepath={tmp_path}")
    assert result.status == 0
    assert f"the training stopped after {steps[1]} of 100000 steps" in result.err
