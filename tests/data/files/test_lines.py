"""Lines: other encodings and formats, marks of joined files, lines without end."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from regard.data.files import lines
from regard.data.files.lines import LineProblem, decoded, read_lines
from regard.data.images.annotations import read_captions
from regard.data.labels.readers import read_labelled
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from tests.messages import check_message, raises

PAIRS = "one\teins\ntwo\tzwei\nthree\tdrei\n"
GREEK = "λόγος\tlogos\nνερό\tnero\n"
CHINESE = "你好世界\t问候\n再见\t告别\n"
PERSIAN = "می\u200cخواهم\tI want\n" * 3
HEBREW = "\u200fשלום\u200f\tעולם\u200e\n" * 3


@pytest.mark.parametrize(
    "text", [PAIRS, GREEK, CHINESE, PERSIAN, HEBREW, PAIRS.replace("\n", "\r\n")]
)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le"])
def test_utf16_is_refused_with_and_without_a_mark(text, encoding, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(text.encode(encoding))
    name = encoding[:6].upper()
    for read in (read_pairs, lambda path: list(read_lines(path))):
        with pytest.raises(UserError, match=rf"pairs\.tsv is {name}: save it as UTF-8, or run"):
            read(path)


@pytest.mark.parametrize("end", ["\r", ""])
def test_line_ends_of_cr_alone_are_refused(end, tmp_path):
    path = tmp_path / "mac.tsv"
    path.write_bytes(b"one\teins\rtwo\tzwei" + end.encode())
    for read in (read_pairs, read_labelled, lambda path: list(read_lines(path))):
        with pytest.raises(UserError, match=r"mac\.tsv ends its lines with CR alone"):
            read(path)


def test_a_cr_inside_a_line_stays_white_space(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"one\teins\ntwo\rtimes\tzwei\n")
    assert [pair.source for pair in read_pairs(path).pairs] == ["one", "two\rtimes"]


@pytest.mark.parametrize(
    ("beginning", "message"),
    [
        (b"PK\x03\x04\x14\x00", "a ZIP archive or an Excel workbook: save the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1", "an old Excel workbook"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\xfd7zXZ\x00", "compressed with xz"),
    ],
)
def test_files_of_another_format_are_named(beginning, message, tmp_path):
    path = tmp_path / "words.tsv"
    path.write_bytes(beginning + b"\nmore\tmehr\n")
    for read in (read_pairs, read_labelled, read_captions, lambda path: list(read_lines(path))):
        with pytest.raises(UserError, match=rf"words\.tsv is {message}"):
            read(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (bytes(100_000), "is not text, because it has NUL bytes: expected a file of UTF-8 text"),
        (b"\0\1\0\2\0\0\0\3\n", "is not text"),
        (np.random.default_rng(1).bytes(20_000).replace(b"\n", b"\0"), "is not text"),
        ("one\teins\n".encode("utf-32"), "is UTF-32: save it as UTF-8, or run `iconv -f UTF-32"),
        ("ein\tλόγος\n".encode("utf-16-be"), "is UTF-16"),
        ("漢字\t语言 a\n".encode("utf-16-le"), "is UTF-16"),
        (b"\x7fELF\2\1\1\0\n", "is a program: expected"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is a PNG image: expected"),
    ],
)
def test_files_that_are_no_text_are_not_called_utf16(tmp_path, content, words):
    path = tmp_path / "words.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"words\.tsv {words}"):
        read_pairs(path)


def test_a_line_without_end_is_refused_while_it_is_read(monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE", 1000)

    class Endless(io.RawIOBase):
        num_bytes = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            self.num_bytes += len(buffer)
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    endless = Endless()
    with raises(UserError, "line 1"):
        list(decoded(io.BufferedReader(endless), "endless"))
    assert endless.num_bytes <= 1 << 18
    content = io.BytesIO(b"short\n" + b"y" * 1000 + b"\n")
    with pytest.raises(UserError, match="line 2 has more than 1,000 bytes"):
        list(decoded(content, "here"))
    assert len(list(decoded(io.BytesIO(b"y" * 1000), "here"))) == 1


def test_marks_inside_a_file_are_removed_and_counted_by_every_reader(tmp_path):
    def write(name: str, content: str) -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf8")
        return path

    mark = "\ufeff"
    pairs = write("pairs.tsv", f"{mark}one\teins\n{mark}two\tzwei\nthree{mark}\tdrei\n")
    corpus = read_pairs(pairs)
    removed = f"removed 2 byte-order marks inside {pairs} (lines 2, 3): joined files have them"
    assert [pair.source for pair in corpus.pairs] == ["one", "two", "three"]
    assert corpus.summary() == (removed,)
    texts = write("texts.txt", f"{mark}one\n{mark}two\nthree{mark}\n")
    side = read_pairs(texts, target_path=texts)
    assert [pair.target for pair in side.pairs] == ["one", "two", "three"]
    assert len(side.problems) == 4

    table = write("table.csv", f"{mark}text,label\n{mark}good,1\nbad,0\n")
    labelled = read_labelled(table)
    assert [pair.source for pair in labelled.pairs] == ["good", "bad"]
    check_message(*labelled.summary())
    assert read_labelled(write("trec.label", f"A one\n{mark}B two\n")).pairs[1].target == "B"

    captions = write("captions.csv", f"{mark}file,caption\n{mark}a.png,a dog\nb.png,a cat\n")
    read = read_captions(captions)
    assert [Path(pair.source).name for pair in read.pairs] == ["a.png", "b.png"]
    assert "removed a byte-order mark inside" in " ".join(read.train.summary())

    problems: list[LineProblem] = []
    read_twice = list(read_lines(write("lines", f"{mark}hello\n{mark}hello\n"), problems.append))
    assert read_twice == ["hello", "hello"]
    assert [(each.line, each.kind) for each in problems] == [(2, "byte-order mark")]


def test_lines_with_nul_are_left_out_and_counted(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"one\teins\ntw\0o\tzwei\nthree\tdrei\n")
    corpus = read_pairs(path)
    assert [pair.source for pair in corpus.pairs] == ["one", "three"]
    assert corpus.summary() == (f"left out 1 line of {path}: 1 with NUL characters (line 2)",)
    assert len(read_labelled(path).pairs) == 2
    problems: list[LineProblem] = []
    assert len(list(read_lines(path, problems.append))) == 3
    assert [(each.line, each.kind) for each in problems] == [(2, "NUL")]


def test_a_gzip_bomb_of_lines_is_rejected(tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(b"a" * 5000 + b"\n" + bytes(20 << 20), 1))
    with pytest.raises(UserError, match=r"line 2 has more than|unpacks to"):
        read_pairs(path)
