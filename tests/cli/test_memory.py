"""Commands that write attention: parts that fit into the memory, and the line of a text that does
not."""

from pathlib import Path

import pytest

from regard.cli.main import run
from regard.tasks import memory
from tests.small_runs import RUNS

RUN = RUNS / "transformer"
TEXTS = ["a b c", "", "d b", "a b c d b b a"] * 5


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def traces(folder, lines, name):
    paths = [str(folder / f"{name}.{kind}") for kind in ("out", "links", "jsonl")]
    output, links, trace = paths
    options = ["-o", output, "--alignments", links, "--trace", trace, "--nbest", "2"]
    assert run(["translate", str(RUN), str(lines), *options]) == 0
    return [Path(path).read_text() for path in paths[:2]]


def test_parts_of_the_lines_have_the_output_of_all_lines(tmp_path, lines, monkeypatch):
    expected = traces(tmp_path, lines, "whole")
    monkeypatch.setattr(memory, "BATCH_BYTES", 200_000)
    assert traces(tmp_path, lines, "parts") == expected


def test_the_line_of_a_text_that_needs_too_much_memory_is_named(tmp_path, lines, capsys):
    lines.write_text("a\n\n" + "a b c d " * 200 + "\n")
    options = ["--max-memory", "20", "--max-source", "1000", "--max-length", "900", "--beam", "9"]
    command = ["translate", str(RUN.parent / "bahdanau"), str(lines), *options]
    assert run([*command, "--trace", str(tmp_path / "trace.jsonl")]) == 1
    error = capsys.readouterr().err
    assert "line 3: decoding may take" in error
    assert error.rstrip().endswith("or raise search.max_memory (--max-memory)")
    assert not (tmp_path / "trace.jsonl").exists()


def test_the_line_of_a_pair_that_needs_too_much_memory_is_named(tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\n" + "a b c d " * 80 + "\t" + "b c " * 100 + "\n")
    command = ["score", str(RUN.parent / "bahdanau"), str(pairs), "--max-memory", "1"]
    assert run(command) == 0
    assert run([*command, "--trace", str(tmp_path / "trace.jsonl")]) == 1
    assert "line 2: decoding may take" in capsys.readouterr().err
