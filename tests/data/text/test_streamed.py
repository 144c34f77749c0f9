"""Files that are read in every pass give equal pairs, or an error that names the changed file."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.examples import Pair
from regard.data.files.lines import LineProblem
from regard.data.text.streamed import PairFiles
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
    files = PairFiles.of(path)
    next(files.each_line())
    assert list(files.each_line()) == list(files.each_line()) == expected
    two = PairFiles.of(write(tmp_path / "a", "a\nb\n"), write(tmp_path / "b", "c\nd\n"))
    assert list(two.each_line()) == [Pair("a", "c", 1), Pair("b", "d", 2)]


def test_a_digest_depends_on_bytes_and_not_on_the_path(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", "a\tb\n"), write(tmp_path / "two", "a\tb\n")
    third = write(tmp_path / "other", "a\tc\n")
    assert PairFiles.of(one).digest() == PairFiles.of(two).digest() != PairFiles.of(third).digest()
    assert PairFiles.of(one, third).digest() != PairFiles.of(third, one).digest()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_changes_while_it_is_read_is_rejected(tmp_path: Path, when: str) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\nc\td\n")
    files = PairFiles.of(path)
    lines = files.each_line()
    if when == "meanwhile":
        next(lines)
    write(path, "a\tb\nc\td\ne\tf\n")
    with pytest.raises(UserError, match=r"a\.tsv changed while it was read"):
        list(lines)
    with pytest.raises(UserError, match=r"a\.tsv changed while it was read"):
        files.digest()


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*nothing: no such file"):
        PairFiles.of(tmp_path / "nothing")
