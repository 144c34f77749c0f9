"""Lines of pipes and growing files, as they arrive."""

import os
import threading

import pytest

from regard.data.files import streams
from regard.data.files.streams import LineStream


@pytest.fixture
def pipe():
    source, sink = os.pipe()
    yield LineStream(source, "pipe"), sink
    os.close(source)


def test_a_line_is_available_when_its_end_has_arrived(pipe):
    stream, sink = pipe
    assert not stream.has_line()
    os.write(sink, b"first\nsec")
    assert stream.has_line()
    assert stream.readline() == b"first\n"
    assert not stream.has_line()
    os.write(sink, b"ond\n\nlast")
    assert [stream.readline(), stream.readline()] == [b"second\n", b"\n"]
    assert not stream.has_line()
    os.close(sink)
    assert stream.has_line()
    assert [stream.readline(), stream.readline()] == [b"last", b""]


def test_a_size_bounds_a_line_without_an_end(pipe, monkeypatch):
    monkeypatch.setattr(streams, "BYTES_AT_A_TIME", 3)
    stream, sink = pipe
    os.write(sink, b"abcdefgh\nij\n")
    assert [stream.readline(5), stream.readline(5), stream.readline(5)] == [
        b"abcde",
        b"fgh\n",
        b"ij\n",
    ]
    os.close(sink)


def test_a_growing_file_is_read_on(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "POLL_SECONDS", 0.01)
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb")
    with path.open("rb", buffering=0) as file, path.open("ab", buffering=0) as writer:
        stream = LineStream(file.fileno(), "lines", follow=True)
        assert stream.readline() == b"a\n"
        assert not stream.has_line()
        threading.Timer(0.05, writer.write, [b"c\n"]).start()
        assert stream.readline() == b"bc\n"
