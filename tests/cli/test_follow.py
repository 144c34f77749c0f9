"""Answers in a pipe: each line is answered before the next one is written."""

import os
import select
import subprocess
import sys

import pytest

from regard.cli import main
from regard.pipeline.train import train
from tests.small_runs import smaller

SECONDS = 60
"""Time for the import of PyTorch and the first answer."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small"
    train(smaller(epochs=1), folder)
    return folder


class Program:
    """A command as a co-process."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "regard", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def write(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def read(self, file="stdout"):
        """Return the next line, or fail after `SECONDS`."""
        descriptor = getattr(self.process, file).fileno()
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([descriptor], [], [], SECONDS)[0], f"no {file} after {line!r}"
            byte = os.read(descriptor, 1)
            if not byte:
                break
            line += byte
        return line.decode()


def test_each_line_of_a_pipe_is_answered_at_once(run):
    program = Program("translate", run)
    program.write("a b c\n")
    first = program.read()
    program.write("a b c\nb\n")
    assert program.read() == first
    program.read()
    output, errors = program.process.communicate(timeout=SECONDS)
    assert (output, program.process.returncode) == (b"", 0)
    assert errors.startswith(b"3 outputs were cut at the maximum length (lines 1, 2, 3): ")
    assert errors.count(b"\n") == 1


def test_follow_answers_one_line_with_one_line(run):
    program = Program("translate", run, "--follow", "--max-source", 4)
    program.write("a b c\n")
    first = program.read()
    program.write("a b c d e f\n")
    assert program.read() == "\n"
    assert "1 output was cut at the maximum length (line 1)" in program.read("stderr")
    assert "1 line of more than 4 tokens (line 2)" in program.read("stderr")
    program.write("\n")
    assert program.read() == "\n"
    program.write("a b c")
    output, _ = program.process.communicate(timeout=SECONDS)
    assert (output.decode(), program.process.returncode) == (first, 1)


def test_follow_reads_a_file_as_it_grows(run, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("a b c\n")
    program = Program("translate", run, path, "--follow")
    first = program.read()
    with path.open("a") as file:
        file.write("a b c\n")
    assert program.read() == first
    program.process.terminate()
    program.process.communicate(timeout=SECONDS)
    assert program.process.returncode == 143


def test_lines_of_mostly_unknown_words_are_reported(run, tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text("a b c\nHello b xyz\na Hello\n")
    assert main.run(["translate", str(run), str(lines)]) == 0
    assert capsys.readouterr().err.startswith(
        '1 line has mostly unknown words (line 2): the vocabulary lacks "Hello", "xyz"\n'
    )


def test_swapped_sides_are_reported(tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{n % 7} {n % 5}\tx{n % 7} x{n % 5}\n" for n in range(40)))
    recipe = tmp_path / "small.yaml"
    recipe.write_text("data: {tokenizer: spaces, dev_size: 4, test_size: 4}\nmodel: {size: 8}\n")
    folder = tmp_path / "run"
    settings = ["--data.path", str(pairs), "--output", str(folder), "--training.epochs", "1"]
    assert main.run(["train", str(recipe), *settings]) == 0
    swapped = tmp_path / "swapped.tsv"
    swapped.write_text("".join(f"x{n % 7} x{n % 5}\t{n % 7} {n % 5}\n" for n in range(9)))
    capsys.readouterr()
    assert main.run(["evaluate", str(folder), str(swapped)]) == 0
    warning = f"100 % of the source words are unknown to {folder}: are the sides swapped?\n"
    assert warning in capsys.readouterr().err
    assert main.run(["evaluate", str(folder), str(pairs)]) == 0
    assert "unknown" not in capsys.readouterr().err
