"""Files appear whole, or nothing changes."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest

from regard.errors import UserError
from regard.storage.files import locked, remove_unfinished, whole


def test_a_file_is_replaced_when_it_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_the_old_file_stays_if_writing_fails(tmp_path):
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


def test_devices_and_pipes_are_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole(pipe) as path:
        path.write_text("through")
    assert os.read(reader, 20) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["", "missing/a.txt"])
def test_unwritable_paths_are_named(tmp_path, name):
    with (
        pytest.raises(UserError, match=rf"cannot write {tmp_path / name}"),
        whole(tmp_path / name) as path,
    ):
        path.write_text("a")


def test_concurrent_writers_leave_one_complete_file(tmp_path):
    path, together = tmp_path / "race.txt", Barrier(5)

    def write(letter):
        together.wait()
        with whole(path) as unfinished:
            unfinished.write_text(letter * 100_003)
            together.wait()

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(write, "abcde"))
    assert path.read_text() in {letter * 100_003 for letter in "abcde"}
    assert [each.name for each in tmp_path.iterdir()] == ["race.txt"]


def test_files_of_the_user_with_similar_names_are_not_removed(tmp_path):
    own = tmp_path / "a.txt.unfinished"
    own.write_text("mine")
    with whole(tmp_path / "a.txt") as unfinished:
        unfinished.write_text("new")
    assert own.read_text() == "mine"


def test_unfinished_files_of_killed_processes_are_removed(tmp_path):
    """It is there while the block runs, under the name that is removed."""
    own = tmp_path / "a.txt.unfinished"
    own.write_text("mine")
    with whole(tmp_path / "a.txt") as unfinished:
        left = unfinished
    left.write_bytes(b"as after a kill")
    remove_unfinished(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "a.txt.unfinished"]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_files_keep_their_mode_and_new_ones_have_the_default(tmp_path):
    usual, own = tmp_path / "usual.txt", tmp_path / "own.txt"
    usual.write_text("")
    own.write_text("")
    own.chmod(0o640)
    for path in (own, tmp_path / "new.txt"):
        with whole(path) as unfinished:
            unfinished.unlink()  # as a library does that writes a file of its own and renames it
            unfinished.touch(mode=0o600)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("own.txt", "new.txt")]
    assert modes == [0o640, stat.S_IMODE(usual.stat().st_mode)]


def test_a_long_name_can_be_written(tmp_path):
    path = tmp_path / ("é" * 127)
    with whole(path) as unfinished:
        unfinished.write_text("new")
    assert path.read_text() == "new"


@pytest.mark.skipif(os.name != "posix", reason="locks of POSIX")
def test_a_lock_admits_one_process_at_a_time(tmp_path):
    path = tmp_path / "count.txt"
    path.write_text("0")

    def add(_):
        with locked(tmp_path):
            number = int(path.read_text())
            with whole(path) as unfinished:
                unfinished.write_text(str(number + 1))

    with ThreadPoolExecutor(7) as pool:
        list(pool.map(add, range(43)))
    assert path.read_text() == "43"
