"""Files appear whole, or nothing changes."""

import os
from contextlib import suppress

import pytest

from regard.errors import UserError
from regard.files import whole


def test_a_file_takes_the_others_place_when_all_is_written(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_the_old_file_stays_where_writing_fails(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with suppress(KeyboardInterrupt), whole(path) as unfinished:
        unfinished.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    with whole(tmp_path / "link.txt") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_what_is_no_file_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole(pipe) as path:
        path.write_text("through")
    assert os.read(reader, 20) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["", "missing/a.txt"])
def test_what_cannot_be_written_is_named(tmp_path, name):
    with (
        pytest.raises(UserError, match=rf"cannot write {tmp_path / name}"),
        whole(tmp_path / name) as path,
    ):
        path.write_text("a")
