"""`regard check` of several files of pairs."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from regard.pipeline.train import train
from regard.recipes import find, load
from tests.cli.test_commands import regard
from tests.messages import check_message

LINES = [f"w{number}\tv{number % 7}\n" for number in range(40)]


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """A folder with three packed files of pairs, two files of sides, and a file of pairs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for number in range(3):
        content = "".join(LINES[number::3]).encode()
        (tmp_path / f"shard{number}.tsv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "all.tsv").write_text("".join(LINES))
    (tmp_path / "a.en").write_text("".join(line.split("\t")[0] + "\n" for line in LINES))
    (tmp_path / "a.de").write_text("".join(line.split("\t")[1] for line in LINES))


def report(capsys, *words):
    status, out, err = regard(capsys, "check", *words)
    assert (status, err) == (0, "")
    return out.splitlines()


def test_a_pattern_and_a_mix_have_the_report_of_one_file(shards, capsys):
    expected = report(capsys, "all.tsv")
    for words, number in (
        (("shard*.tsv.gz",), 3),
        (("--mix", "shard0.tsv.gz:0.5", "shard[12].tsv.gz"), 3),
        (("--data.mix", "shard*.gz"), 3),
    ):
        first, name, *lines = report(capsys, *words)
        assert first == f"{number} files; recognised in the first:"
        assert name.startswith("shard0.tsv.gz: text with tabs")
        assert lines == expected[1:]


def test_sides_in_several_files_are_reported(shards, capsys):
    lines = report(capsys, "a.en", "--target-path", "a.de")
    assert report(capsys, "a.e*", "--target-path", "a.d*") == lines
    assert report(capsys, "--mix", "a.en,a.de:3") == lines


def test_the_number_of_pairs_is_that_of_a_training(shards, capsys, tmp_path):
    def begin(plan):
        counts.append(plan.num_pairs + plan.num_dev)
        raise KeyboardInterrupt

    counts = []
    experiment = load(find("letters"))
    data = replace(experiment.data, mix=("shard*.gz:2", "a.en,a.de"), test_size=0)
    with pytest.raises(KeyboardInterrupt):
        train(replace(experiment, data=data), tmp_path / "run", begin=begin)
    lines = report(capsys, "--mix", "shard*.gz:2", "a.en,a.de")
    assert f"{counts[0]} pairs; 40 repeat an earlier one; 0 sources have several targets" in lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "expected either a file, folder or pattern, or --mix CORPUS ...; neither came"),
        (("all.tsv", "--mix", "a"), "--mix CORPUS ...; all.tsv and --mix came"),
        (("--mix", "all.tsv:x"), "whose weight is 'x'"),
        (("--mix", "gone*.tsv"), "no file matches gone*.tsv"),
        (("gone.tsv",), "gone.tsv"),
        (("shard*.gz", "--task", "classify"), "can only have pairs of texts, but --task is class"),
    ],
)
def test_wrong_data_is_one_line(shards, capsys, words, message):
    status, out, err = regard(capsys, "check", *words)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert message in err


def test_columns_of_features_are_read_as_in_training(capsys, tmp_path):
    regard(capsys, "data", "inflection", "--size", "300", "-o", tmp_path / "inflection.tsv")
    lines = report(capsys, tmp_path / "inflection.tsv", "--feature-columns", "case", "number")
    check_message(lines[1])
    lemmas = [line.split("\t")[0] for line in (tmp_path / "inflection.tsv").open()][1:]
    assert f"source: {sum(map(len, lemmas))} tokens" in "\n".join(lines)
    status, _, err = regard(
        capsys, "check", tmp_path / "inflection.tsv", "--feature-columns", "gender"
    )
    assert status == 1
    assert "has no column 'gender' (--feature-columns)" in err
