"""Readers of pairs: lines, pairs, dropped lines, and errors."""

from __future__ import annotations

import gzip
import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.examples import Corpus, Pair
from regard.data.files.lines import LineProblem, numbers_of, read_lines
from regard.data.files.tables import TableSettings
from regard.data.text.parallel import parse_pairs, read_pairs
from regard.errors import UserError
from tests.messages import check_message

ALL_FAULTS = (
    b"\xef\xbb\xbfHi.\tHallo.\r\n"  # 1: byte order mark, CRLF
    b"Run!\tLauf!\tCC-BY 2.0\tmore\n"  # 2: further columns
    b"no tab here\n"  # 3
    b"\tnichts\n"  # 4: blank source
    b"nothing\t  \n"  # 5: blank target
    b"\n"  # 6: blank
    b"caf\xe9\tKaffee\n"  # 7: latin-1
    b"a\xe2\x80\xa8b\x0bc\tx\xc2\x85y\n"  # 8: what only Unicode takes for the end of a line
    b" last \t letzte "  # 9: no end
)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_every_line_is_read_or_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", ALL_FAULTS)
    corpus = read_pairs(path)
    assert corpus.pairs == (
        Pair("Hi.", "Hallo.", 1),
        Pair("Run!", "Lauf!", 2),
        Pair("a\u2028b\x0bc", "x\x85y", 8),
        Pair("last", "letzte", 9),
    )
    assert corpus.problems == (
        LineProblem(str(path), 3, "one column", "no tab here"),
        LineProblem(str(path), 4, "blank", "\tnichts"),
        LineProblem(str(path), 5, "blank", "nothing\t  "),
        LineProblem(str(path), 6, "blank", ""),
        LineProblem(str(path), 7, "not UTF-8", "caf\ufffd\tKaffee"),
    )
    check_message(*corpus.summary())


@given(
    st.lists(
        st.one_of(
            st.text(max_size=9).map(lambda text: text.encode("utf8", errors="ignore")),
            st.binary(max_size=9),
            st.just(b"a\tb"),
        )
    )
)
@settings(max_examples=40, deadline=None)
def test_every_line_is_counted_with_any_bytes(lines: list[bytes]) -> None:
    content = b"good\tgut\n" + b"\n".join(lines)
    corpus = parse_pairs(io.BytesIO(content), "bytes")
    expected = content.count(b"\n") + (not content.endswith(b"\n"))
    dropped = [problem.line for problem in corpus.problems if problem.kind != "byte-order mark"]
    numbers = [pair.line for pair in corpus.pairs] + dropped
    assert sorted(numbers) == list(range(1, expected + 1))


def test_gzip_is_known_by_its_bytes_not_by_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", gzip.compress(ALL_FAULTS))
    plain = write(tmp_path / "plain.gz", ALL_FAULTS)
    assert read_pairs(path).pairs == read_pairs(plain).pairs


def test_two_files_are_read_in_parallel(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", b"one\n\ttwo\t\n\nfo\xffur\nfive\nsix\ntwo\ttabs\nseven\n")
    targets = b"eins\r\nzwei\r\ndrei\r\nvier\r\n \r\nsechs\r\nx\r\na\tb"
    target = write(tmp_path / "a.de.gz", gzip.compress(targets))
    corpus = read_pairs(source, target_path=target)
    assert corpus.pairs == (Pair("one", "eins", 1), Pair("two", "zwei", 2), Pair("six", "sechs", 6))
    assert corpus.left_out.counts() == {"blank": 2, "not UTF-8": 1, "tab": 2}
    check_message(*corpus.summary())


def test_two_files_of_different_length_are_refused_with_both_counts(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", b"one\ntwo\nthree\n")
    target = write(tmp_path / "a.de", b"eins\nzwei\ndrei\nvier\nf\xc3\xbcnf")
    with pytest.raises(UserError, match=r"a\.en has 3 lines and .*a\.de has 5 lines"):
        read_pairs(source, target_path=target)


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", b"a\tb\nbad\nc\td\ne\tf\nworse\n")
    corpus = read_pairs(path, limit=2)
    assert [pair.line for pair in corpus.pairs] == [1, 3]
    assert [problem.line for problem in corpus.problems] == [2]
    assert len(read_pairs(path, limit=7).pairs) == 3
    with pytest.raises(UserError, match="limit is 0"):
        read_pairs(path, limit=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no pairs in .*x: it is empty"),
        (b"one\ntwo\n", "2 without a tab .*put a tab between"),
        (b"caf\xe9\tKaffee\n", "1 not UTF-8 .*; save it as UTF-8"),
        (b"\xff\xfeH\x00", "UTF-16: save it as UTF-8"),
        (gzip.compress(b"a\tb\n" * 999, mtime=0)[:-9], "cannot read .*x after line"),
        (b"\x1f\x8b not really gzip", "cannot read .*x after line 0"),
    ],
)
def test_a_file_without_pairs_has_a_reason(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        read_pairs(write(tmp_path / "x", content))


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*nothing: no such file"):
        read_pairs(tmp_path / "nothing")
    with pytest.raises(UserError, match="is a directory"):
        read_lines(tmp_path)
    there = write(tmp_path / "there", b"a\n")
    with pytest.raises(UserError, match=r"cannot read .*nothing: no such file"):
        read_pairs(there, target_path=tmp_path / "nothing")


def test_reading_preserves_the_number_of_lines(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfone\r\n\n \nf\xfcnf\nsix\xe2\x80\xa8still six\n\n"
    expected = ["one", "", " ", "f\ufffdnf", "six\u2028still six", ""]
    problems: list[LineProblem] = []
    path = write(tmp_path / "lines", content)
    assert list(read_lines(path, problems.append)) == expected
    assert [(problem.line, problem.kind) for problem in problems] == [(4, "not UTF-8")]
    assert list(read_lines(io.BytesIO(content), problems.append)) == expected
    assert list(read_lines(io.BytesIO(b""))) == []
    assert list(read_lines(io.BytesIO(b"\n\n"))) == ["", ""]


def test_replacements_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        list(read_lines(io.BytesIO(b"a\n\xff\n")))
    assert "line 2 is not UTF-8" in caplog.text


def test_the_standard_input_is_read_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    lines = read_lines("-")
    assert next(lines) == "a"
    assert list(lines) == ["b"]


def test_long_lists_of_lines_are_shortened() -> None:
    assert numbers_of([3]) == "line 3"
    assert numbers_of([3, 5, 7, 11, 13]) == "lines 3, 5, 7, 11, 13"
    assert numbers_of([3, 5, 7, 11, 13, 17, 19]) == "lines 3, 5, 7, 11, 13 and 2 more"
    assert Corpus(()).summary() == ()


def test_reading_needs_neither_torch_nor_tokenizers() -> None:
    code = (
        "import sys, regard.data.text.parallel; "
        "print({'torch', 'tokenizers', 'numpy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_real_files_are_read_completely(real_data: Path) -> None:
    tatoeba = read_pairs(real_data / "tatoeba" / "deu.txt")
    assert (len(tatoeba.pairs), tatoeba.problems) == (50_000, ())
    assert tatoeba.pairs[:2] == (Pair("Hi.", "Hallo!", 1), Pair("Hi.", "Grüß Gott!", 2))
    folder = real_data / "multi30k"
    multi30k = read_pairs(folder / "val.en.gz", target_path=folder / "val.de.gz")
    assert (len(multi30k.pairs), multi30k.problems) == (1014, ())
    assert not any("\r" in pair.source + pair.target for pair in multi30k.pairs + tatoeba.pairs)


WORDS = [("θάλασσα", "thalassa"), ("ήλιος", "ilios"), ("νερό", "nero"), ("λόγος", "logos")] * 5
HEADER = ("Word (Greek)", "Transliteration", "Notes")


def table(delimiter, *, header=True, first=""):
    """Return the words as a table."""
    rows = [HEADER, *((source, target, "") for source, target in WORDS)]
    rows = rows if header else [row[:2] for row in rows[1:]]
    return "".join(f"{first}{delimiter.join(row)}\r\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bom.tsv", table("\t").encode("utf-8-sig")),
        ("unicode.txt", table("\t").encode("utf-16")),
        ("semi.csv", table(";").encode("utf-8-sig")),
        ("comma.csv", table(",").encode()),
        ("win1253.tsv", table("\t", header=False).encode("cp1253")),
        ("plain.tsv", table("\t", header=False).encode()),
    ],
)
def test_every_format_gives_the_same_pairs(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    corpus = read_pairs(path, settings=TableSettings())
    assert [(pair.source, pair.target) for pair in corpus.pairs] == WORDS
    assert not corpus.problems


def test_columns_by_name_and_number(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("number,english,german\n1,one,eins\n2,two,zwei\n3,three\n")
    named = TableSettings(source_columns=("German",), target_columns=("english",))
    corpus = read_pairs(path, settings=named)
    assert corpus.pairs == (Pair("eins", "one", 2), Pair("zwei", "two", 3))
    assert [problem.kind for problem in corpus.problems] == ["few columns"]
    assert corpus.summary() == (f"left out 1 line of {path}: 1 with too few columns (line 4)",)
    numbered = TableSettings(header=True, source_columns=("2",), target_columns=("3",))
    assert read_pairs(path, settings=numbered).pairs[0] == Pair("one", "eins", 2)
    dev = tmp_path / "dev.tsv"
    dev.write_text("vier\tfour\n")
    assert read_pairs(dev, settings=named).pairs == (Pair("vier", "four", 1),)


def test_two_files_of_other_encodings(tmp_path):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes("λόγος\nνερό\n".encode("utf-16"))
    target.write_bytes("Öl\nKäse\n".encode("cp1252"))
    pairs = read_pairs(source, target_path=target, settings=TableSettings()).pairs
    assert pairs == (Pair("λόγος", "Öl", 1), Pair("νερό", "Käse", 2))


def test_white_space_in_cells_ends_no_field(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"two\nlines","a\ttab"\n')
    assert read_pairs(path, settings=TableSettings()).pairs == (Pair("two lines", "a tab", 1),)
