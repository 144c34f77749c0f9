"""Cached results are returned completely or not at all, and only if all they depend on is equal."""

import json
import multiprocessing
import os
import time

import pytest

from regard.data.text.encoded import EncodedPairs
from regard.errors import UserError
from regard.runs import cache
from regard.runs.cache import DataCache, cache_folder

PAIRS = EncodedPairs.of([[5, 6, 7], [9]], [[8], [10, 11]])


class Counted:
    """A source of pairs that counts how often it is asked, and may break off."""

    vocabulary = 13
    has_copies = False

    def __init__(self, error=None):
        self.asked = 0
        self._error = error

    def parts(self):
        self.asked += 1
        yield PAIRS
        if self._error:
            raise self._error

    def about(self):
        return f"asked {self.asked}"


@pytest.fixture
def data_cache(tmp_path):
    return DataCache(tmp_path / "cache", "these data")


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "regard"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "regard"
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_without_a_home_folder_the_cache_must_be_set(monkeypatch):
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(UserError, match="set REGARD_CACHE to a folder"):
        cache_folder()


def test_pairs_are_encoded_once(data_cache):
    source = Counted()
    first, second = data_cache.pairs("facts", source), data_cache.pairs("facts", source)
    assert source.asked == 1
    assert (first.about, second.about) == ("asked 1", "asked 1")
    assert first.pairs.digest == second.pairs.digest == PAIRS.digest
    assert first.made is not None
    assert second.made is None


def test_a_json_entry_is_written_once(data_cache):
    made = []
    for _ in range(2):
        content = data_cache.recall_or_compute(
            "name", ["facts", 3], lambda: made.append(1) or {"ß": [1, None, "\udcff"]}
        )
        assert content == {"ß": [1, None, "\udcff"]}
    assert made == [1]


def test_entries_of_other_settings_and_data_are_separate(data_cache):
    data_cache.recall_or_compute("name", "facts", lambda: "these")
    assert data_cache.recall_or_compute("name", "other facts", lambda: "those") == "those"
    assert data_cache.recall_or_compute("other name", "facts", lambda: "those") == "those"
    assert (
        DataCache(data_cache.folder, "other data").recall_or_compute(
            "name", "facts", lambda: "those"
        )
        == "those"
    )
    assert data_cache.recall_or_compute("name", "facts", lambda: "those") == "these"


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"null", b'{"sha256": "x", "content": 1}'])
def test_damaged_entries_are_written_again(data_cache, damage):
    data_cache.recall_or_compute("name", "facts", lambda: "content")
    source = Counted()
    made = data_cache.pairs("facts", source).made
    for path in data_cache.folder.iterdir():
        path.write_bytes(damage)
    assert data_cache.recall_or_compute("name", "facts", lambda: "anew") == "anew"
    assert data_cache.recall_or_compute("name", "facts", lambda: "again") == "anew"
    assert data_cache.pairs("facts", source).made == made
    assert data_cache.pairs("facts", source).pairs.digest == PAIRS.digest
    assert source.asked == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no")])
def test_an_interrupted_entry_leaves_no_file(data_cache, error):
    with pytest.raises(type(error)):
        data_cache.pairs("facts", Counted(error))
    assert list(data_cache.folder.iterdir()) == []


def test_entries_that_cannot_be_written_are_held_in_memory_with_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    data_cache = DataCache(tmp_path / "file", "these data")
    assert data_cache.recall_or_compute("name", "facts", lambda: "content") == "content"
    cached = data_cache.pairs("facts", Counted())
    assert (cached.pairs.digest, cached.made) == (PAIRS.digest, None)
    (message,) = caplog.messages
    assert "there is a file of that name" in message
    assert "REGARD_CACHE" in message


def test_on_a_full_disk_entries_are_held_in_memory(data_cache, monkeypatch, caplog):
    def write(path, source):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.encoded, "write", write)
    cached = data_cache.pairs("facts", Counted())
    assert cached.pairs.digest == PAIRS.digest
    assert "No space left on device" in caplog.messages[0]
    assert list(data_cache.folder.iterdir()) == []


def test_old_entries_and_no_other_files_are_removed(data_cache):
    for facts in ("old", "used"):
        data_cache.recall_or_compute("name", facts, lambda: "content")
    own = data_cache.folder / "own.json"
    own.write_text("a person's")
    killed = data_cache.folder / f"{'0' * 32}.pairs.s.123.unfinished"
    killed.write_text("half")
    long_ago = time.time() - 31 * 86_400
    for path in data_cache.folder.iterdir():
        os.utime(path, (long_ago, long_ago))
    data_cache.recall_or_compute("name", "used", lambda: "anew")
    data_cache.recall_or_compute("name", "new", lambda: "content")
    assert own.exists()
    assert not killed.exists()
    assert data_cache.recall_or_compute("name", "used", lambda: "anew") == "content"
    assert data_cache.recall_or_compute("name", "old", lambda: "anew") == "anew"


def _encode(folder, barrier, queue):
    barrier.wait()
    cached = DataCache(folder, "these data").pairs("facts", Counted())
    queue.put((cached.pairs.digest, cached.pairs.numbers.tolist()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_concurrent_writers_do_not_mix(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(3), context.SimpleQueue()
    processes = [
        context.Process(target=_encode, args=(tmp_path / "cache", barrier, queue)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    assert [queue.get() for _ in processes] == [(PAIRS.digest, PAIRS.numbers.tolist())] * 3
    for process in processes:
        process.join()
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".safetensors"]


def test_entries_are_json_without_pickle(data_cache):
    data_cache.recall_or_compute("name", "facts", lambda: [1, 2])
    (path,) = data_cache.folder.iterdir()
    assert json.loads(path.read_text())["content"] == [1, 2]


@pytest.mark.parametrize("changed", ["the program", "the tokenizers", "the format"])
def test_an_upgrade_makes_a_new_entry(data_cache, monkeypatch, changed):
    data_cache.recall_or_compute("name", "facts", lambda: "old")
    source = Counted()
    data_cache.pairs("facts", source)
    if changed == "the program":
        monkeypatch.setattr(cache, "VERSION", "99.0")
    elif changed == "the tokenizers":
        monkeypatch.setattr(cache, "version", lambda _: "99.0")
    else:
        monkeypatch.setattr(cache, "FORMAT", 99)
    assert data_cache.recall_or_compute("name", "facts", lambda: "new") == "new"
    data_cache.pairs("facts", source)
    assert source.asked == 2
    place = data_cache.place("pictures")
    monkeypatch.undo()
    assert data_cache.place("pictures") != place
