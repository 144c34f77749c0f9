"""Cached results are returned completely or not at all, and only if all they depend on is equal."""

import json
import multiprocessing
import os
import shutil
import time

import pytest

from regard.corpora import cache
from regard.corpora.cache import DataCache, cache_folder
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.pairs.parts import Part, PartFacts
from regard.errors import UserError

PAIRS = EncodedPairs.of([[5, 6, 7], [9]], [[8], [10, 11]])


def part(number, last=2):
    facts = PartFacts(0, 2 * number, 2, is_last=number == last, has_copies=False, about="")
    return Part.of(PAIRS, facts, 13)


DIGESTS = [part(number).digest for number in range(3)]


class Counted:
    """A source of three parts that notes the pairs from which it is asked, and may break off."""

    def __init__(self, error=None):
        self.asked = []
        self.made = []
        self._error = error

    def parts(self, first):
        self.asked.append(first)
        for number in range(first // 2, 3):
            self.made.append(number)
            yield part(number)
            if self._error and number == 1:
                raise self._error


def digests(cached):
    return [part.digest for part in cached.parts]


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


def test_parts_are_encoded_once(data_cache):
    source = Counted()
    first, second = data_cache.parts("facts", source), data_cache.parts("facts", source)
    assert source.asked == [0]
    assert digests(first) == digests(second) == DIGESTS
    assert len(first.made) == 3
    assert second.made == ()


def test_parts_that_are_missing_or_damaged_are_encoded_alone(data_cache):
    files = data_cache.parts("facts", Counted()).made
    files[1].unlink()
    source = Counted()
    assert digests(data_cache.parts("facts", source)) == DIGESTS
    assert (source.asked, source.made) == ([2], [1])
    files[0].write_bytes(b"")
    files[2].write_bytes(files[1].read_bytes())  # another part
    source = Counted()
    assert digests(data_cache.parts("facts", source)) == DIGESTS
    assert (source.asked, source.made) == ([0, 4], [0, 2])


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
    made = data_cache.parts("facts", source).made
    for path in data_cache.folder.iterdir():
        path.write_bytes(damage)
    assert data_cache.recall_or_compute("name", "facts", lambda: "anew") == "anew"
    assert data_cache.recall_or_compute("name", "facts", lambda: "again") == "anew"
    assert data_cache.parts("facts", source).made == made
    assert digests(data_cache.parts("facts", source)) == DIGESTS
    assert source.asked == [0, 0]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no")])
def test_an_interrupted_call_continues_at_the_next_part(data_cache, error):
    with pytest.raises(type(error)):
        data_cache.parts("facts", Counted(error))
    assert len(list(data_cache.folder.iterdir())) == 2
    source = Counted()
    assert digests(data_cache.parts("facts", source)) == DIGESTS
    assert (source.asked, source.made) == ([4], [2])


def test_entries_that_cannot_be_written_are_held_in_memory_with_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    data_cache = DataCache(tmp_path / "file", "these data")
    assert data_cache.recall_or_compute("name", "facts", lambda: "content") == "content"
    cached = data_cache.parts("facts", Counted())
    assert (digests(cached), cached.made) == (DIGESTS, ())
    (message,) = caplog.messages
    assert "there is a file of that name" in message
    assert "REGARD_CACHE" in message


def test_on_a_full_disk_entries_are_held_in_memory(data_cache, monkeypatch, caplog):
    def write(part, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Part, "write", write)
    source = Counted()
    assert digests(data_cache.parts("facts", source)) == DIGESTS
    assert source.asked == [0]
    (message,) = caplog.messages
    assert "No space left on device" in message
    assert list(data_cache.folder.iterdir()) == []


@pytest.mark.parametrize("size", [0, 30, 300])
def test_a_limit_on_the_size_of_files_is_a_full_disk(data_cache, caplog, size):
    resource = pytest.importorskip("resource", reason="only POSIX limits the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        cached = data_cache.parts("facts", Counted())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (digests(cached), cached.made) == (DIGESTS, ())
    (message,) = caplog.messages
    assert f"cannot write {data_cache.folder}" in message
    assert list(data_cache.folder.iterdir()) == []


def test_a_folder_that_is_removed_meanwhile_costs_time_alone(data_cache, monkeypatch):
    tidy = DataCache._tidy

    def removed(self):
        shutil.rmtree(self.folder)
        tidy(self)

    monkeypatch.setattr(DataCache, "_tidy", removed)
    assert data_cache.recall_or_compute("name", "facts", lambda: "content") == "content"
    assert digests(data_cache.parts("facts", Counted())) == DIGESTS
    assert not data_cache.folder.exists()


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
    queue.put(digests(DataCache(folder, "these data").parts("facts", Counted())))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_concurrent_writers_do_not_mix(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(3), context.SimpleQueue()
    processes = [
        context.Process(target=_encode, args=(tmp_path / "cache", barrier, queue)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    assert [queue.get() for _ in processes] == [DIGESTS] * 3
    for process in processes:
        process.join()
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".safetensors"] * 3


def test_entries_are_json_without_pickle(data_cache):
    data_cache.recall_or_compute("name", "facts", lambda: [1, 2])
    (path,) = data_cache.folder.iterdir()
    assert json.loads(path.read_text())["content"] == [1, 2]


@pytest.mark.parametrize("changed", ["the program", "the tokenizers", "the format"])
def test_an_upgrade_makes_a_new_entry(data_cache, monkeypatch, changed):
    data_cache.recall_or_compute("name", "facts", lambda: "old")
    source = Counted()
    data_cache.parts("facts", source)
    if changed == "the program":
        monkeypatch.setattr(cache, "VERSION", "99.0")
    elif changed == "the tokenizers":
        monkeypatch.setattr(cache, "version", lambda _: "99.0")
    else:
        monkeypatch.setattr(cache, "FORMAT", 99)
    assert data_cache.recall_or_compute("name", "facts", lambda: "new") == "new"
    data_cache.parts("facts", source)
    assert source.asked == [0, 0]
    place = data_cache.place("images")
    monkeypatch.undo()
    assert data_cache.place("images") != place
