"""Files that are read in every pass give equal pairs, or an error that names the changed file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.data.examples import Pair
from regard.data.files.lines import LineProblem
from regard.data.files.tables import TableSettings
from regard.data.text.pairs.streamed import PairFiles
from regard.errors import UserError


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf8")
    return path


def test_every_iteration_starts_from_the_beginning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\nbad\nc\td\n")
    expected = [
        Pair("a", "b", 1),
        LineProblem(str(path), 2, "one column", "bad"),
        Pair("c", "d", 3),
    ]
    files = PairFiles.of([[(path, None)]])
    next(files.each_line())
    assert list(files.each_line()) == list(files.each_line()) == expected
    sides = write(tmp_path / "a", "a\nb\n"), write(tmp_path / "b", "c\nd\n")
    two = PairFiles.of([[sides]])
    assert list(two.each_line()) == [Pair("a", "c", 1), Pair("b", "d", 2)]


def test_a_digest_depends_on_bytes_and_on_how_they_are_read(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", "a\tb\n"), write(tmp_path / "two", "a\tb\n")
    kinds = [
        ([[(one, None)]], ["x"], None),
        ([[(one, None)]], ["y"], None),
        ([[(one, two)]], ["x", "x"], None),
        ([[(one, None), (two, None)]], ["x", "x"], None),
        ([[(one, None)], [(two, None)]], ["x", "x"], None),
        ([[(one, None)]], ["x"], TableSettings(delimiter="b")),
    ]
    digests = [
        PairFiles.of(corpora, settings).digest(digests) for corpora, digests, settings in kinds
    ]
    assert len(set(digests)) == len(kinds)
    assert PairFiles.of([[(two, None)]]).digest(["x"]) == digests[0]


def test_lines_are_estimated_from_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.text.pairs.streamed.SAMPLE_BYTES", 40)
    short, long = "a\tb\n" * 5000, "a long line\tb\n" * 5000
    one, two = write(tmp_path / "a.tsv", short + long), write(tmp_path / "b.tsv", short)
    empty = write(tmp_path / "empty", "")
    table = write(tmp_path / "t.csv", "source,target\n" + "a,b\n" * 5000)
    packed = tmp_path / "c.tsv.gz"
    packed.write_bytes(gzip.compress(short.encode()))

    def lines(*paths: Path, settings: TableSettings | None = None) -> int | None:
        return PairFiles.of([[(path, None) for path in paths]], settings).estimated_lines()

    assert lines(two) == 5000
    assert lines(one) == pytest.approx(10_000, rel=0.1)
    assert lines(one, two) == pytest.approx(15_000, rel=0.1)
    assert lines(table, settings=TableSettings()) == 5000
    assert PairFiles.of([[(two, one)]]).estimated_lines() == 5000
    assert lines(empty) == 0
    assert lines(two, packed) is None


def test_equal_bytes_that_are_read_differently_have_different_digests(tmp_path: Path) -> None:
    """Quotes belong to the format of .csv files, so these files have different pairs."""
    files = [
        PairFiles.of([[(write(tmp_path / name, '"a"\tb\n' * 9), None)]], TableSettings())
        for name in ("pairs.txt", "pairs.csv")
    ]
    pairs = [next(file.each_line()) for file in files]
    assert pairs == [Pair('"a"', "b", 1), Pair("a", "b", 1)]
    assert files[0].digest(["x"]) != files[1].digest(["x"])


def test_pairs_know_their_corpus_and_their_file(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, f"{name}\tb\n") for name in "abc"]
    files = PairFiles.of([[(paths[0], None), (paths[1], None)], [(paths[2], None)]])
    pairs = [item for item in files.each_line() if isinstance(item, Pair)]
    assert [pair.source for pair in pairs] == ["a", "b", "c"]
    assert [files.corpus_of(pair) for pair in pairs] == [0, 0, 1]
    assert [files.file_of(pair) for pair in pairs] == [0, 1, 2]
    assert files.paths == tuple(paths)
    with pytest.raises(UserError, match="a is named twice"):
        PairFiles.of([[(paths[0], None)], [(paths[0], None)]])


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_changes_while_it_is_read_is_rejected(tmp_path: Path, when: str) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\nc\td\n")
    files = PairFiles.of([[(path, None)]])
    lines = files.each_line()
    if when == "meanwhile":
        next(lines)
    write(path, "a\tb\nc\td\ne\tf\n")
    with pytest.raises(UserError, match=r"a\.tsv changed while it was read"):
        list(lines)
    with pytest.raises(UserError, match=r"a\.tsv changed while it was read"):
        files.files[0].check()


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*nothing: no such file"):
        PairFiles.of([[(tmp_path / "nothing", None)]])
