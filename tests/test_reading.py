"""A user's files are read within bounds: no waiting, no filling of the memory, one line."""

from __future__ import annotations

import gzip
import io
import os
import socket
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.storage import files
from regard.storage.files import check_input, check_name, open_bytes, read_bytes, read_text
from tests.messages import raises

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a\0b", r"'a\\x00b' has a NUL"),
        ("\0", "has a NUL"),
        ("a\ud800b", r"'a\\ud800b' has half of a surrogate pair"),
        ("x" * 5000, "file name too long"),
        ("", "is a directory"),
        ("nothing", "no such file"),
    ],
)
def test_invalid_file_names_are_rejected(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for read in (check_input, open_bytes, read_bytes, read_text):
        with pytest.raises(UserError, match=message) as caught:
            read(name)
        assert "\n" not in str(caught.value)


def test_bytes_of_a_name_that_are_not_utf8_are_a_name(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9")
    path.write_text("here")
    assert check_name(str(path)) == path
    assert read_text(path) == "here"


@posix
def test_a_pipe_without_a_writer_a_socket_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with raises(UserError):
        open_bytes(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(UserError, match="it is a socket: expected a file"):
            open_bytes(tmp_path / "s")
    for device in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(UserError, match=rf"cannot read {device}: it is a device"):
            open_bytes(device)
    with pytest.raises(UserError, match="is a directory"):
        open_bytes(tmp_path)
    with open_bytes(os.devnull) as file:
        assert file.read() == b""


@posix
def test_streams_that_the_process_has_open_are_read(tmp_path):
    code = "import sys; from regard.storage.files import read_text; print(read_text(sys.argv[1]))"
    for name in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        if Path(name).exists():
            done = subprocess.run(
                [sys.executable, "-c", code, name],
                input="hello",
                capture_output=True,
                text=True,
                timeout=20,
            )
            assert done.stdout == "hello\n", done.stderr
    command = f'"{sys.executable}" -c "{code}" <(echo substituted)'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=20)
    assert "substituted" in done.stdout, done.stderr
    os.mkfifo(tmp_path / "pipe")  # under its name, while it is the standard input
    command = f'echo named > pipe & "{sys.executable}" -c "{code}" pipe < pipe'
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=20
    )
    assert "named" in done.stdout, done.stderr


def test_gzip_comes_through_a_pipe_too():
    code = "import sys; from regard.storage.files import read_text; print(read_text('/dev/stdin'))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=gzip.compress(b"packed"), capture_output=True
    )
    assert done.stdout == b"packed\n", done.stderr


def bomb(megabytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join([*(packer.compress(block) for _ in range(megabytes)), packer.flush()])


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "RATIO_FROM", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(bomb(16))
    with open_bytes(path) as file:
        assert len(file.read(1 << 20)) == 1 << 20
        with pytest.raises(UserError, match=r"bomb\.gz unpacks to \d+ times its size"):
            file.read(3 << 20)
    with pytest.raises(UserError, match=r"unpacks to \d+ times .*unpack it first"):
        read_bytes(path)
    monkeypatch.setattr(files, "MAX_RATIO", 10_000)
    assert len(read_bytes(path)) == 16 << 20
    monkeypatch.setattr(files, "MAX_UNPACKED", 1 << 20)
    with pytest.raises(UserError, match=r"unpack it first"):
        read_bytes(path)


def test_ordinary_gzip_ratios_are_accepted(tmp_path):
    path = tmp_path / "repeated.gz"
    content = b"the same line again\n" * 100_000
    path.write_bytes(gzip.compress(content))
    assert read_bytes(path) == content
    path.write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    assert read_bytes(path) == b"one two"


def test_whole_files_have_a_size_limit(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(b"x" * 11)
    assert read_bytes(path, 11) == b"x" * 11
    with pytest.raises(UserError, match="more than 10 bytes"):
        read_bytes(path, 10)


@pytest.mark.parametrize(
    "content", [gzip.compress(b"a" * 999, mtime=0)[:-9], b"\x1f\x8b", b"\x1f\x8bno"]
)
def test_a_cut_gzip_file_is_one_line(content, tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot read .*cut\.gz: ") as caught:
        read_bytes(path)
    assert "\n" not in str(caught.value)


def test_text_must_be_utf8(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfok")
    assert read_text(path) == "ok"
    path.write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match="is not UTF-8 at byte 3: save it as UTF-8"):
        read_text(path)
    with open_bytes(path) as file:
        assert isinstance(file, io.BufferedReader)
