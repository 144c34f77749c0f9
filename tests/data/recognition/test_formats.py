"""Formats of files with columns, recognised from their first bytes."""

from __future__ import annotations

import csv
import gzip
import io
import os

import pytest

from regard.data.files.tables import TableSettings
from regard.data.recognition.formats import read_rows, recognise
from regard.errors import UserError
from tests.messages import raises

ANY = TableSettings()


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(path, settings=ANY):
    form = recognise(path, settings)
    return form, [row.cells for row in read_rows(path, form, settings)]


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("a.tsv", "a b\tc, d\n" * 9, "text with tabs, UTF-8"),
        ("a.csv", "a b,c d\n" * 9 + "e;f,g\n", "CSV with commas, UTF-8"),
        ("a.csv", "a b;c, d\n" * 9, "CSV with semicolons, UTF-8"),
        ("a.csv", "a b\tc, d\n" * 9, "CSV with tabs, UTF-8"),
        ("a.txt", "a b|c d\n" * 9, "text with bars, UTF-8"),
        ("a.txt", "a b,c d\n" * 9, "CSV with commas, UTF-8"),
    ],
)
def test_delimiters(tmp_path, name, content, title):
    form, cells = rows(written(tmp_path / name, content))
    assert form.title == title
    assert form.kind == ("text" if name == "a.tsv" else "csv")
    assert {len(row) for row in cells} == {2}


def test_lines_have_no_columns(tmp_path):
    content = "DESC who, and why?\nNUM how many?\n" * 9
    form = recognise(written(tmp_path / "train.all", content), ANY)
    assert (form.delimiter, form.title) == (None, "lines, UTF-8")


def test_quoted_cells(tmp_path):
    csv = written(tmp_path / "a.csv", '"a, ""b""",c\n"two\nlines",d\n')
    assert rows(csv)[1] == [('a, "b"', "c"), ("two\nlines", "d")]
    excel = written(tmp_path / "b.txt", 'x\t"say ""yes"""\ny\t"no, ""no"""\n')
    assert rows(excel)[1] == [("x", 'say "yes"'), ("y", 'no, "no"')]
    speech = written(tmp_path / "c.tsv", '"Yes."\t"Ja."\n"No.\tNein.\n')
    assert rows(speech)[1] == [('"Yes."', '"Ja."'), ('"No.', "Nein.")]
    assert recognise(speech, ANY).is_plain


@pytest.mark.parametrize("name", ["shop.csv", "shop.txt"])
@pytest.mark.parametrize("end", ["", "\n<ul><li>oak</li></ul>", "\n<ul>\n<li>oak</li>\n</ul>"])
def test_delimiters_inside_quotes_divide_no_columns(tmp_path, name, end):
    cells = [("Description", "Product", "Link", "Price")]
    for number in range(99):
        html = f"<p>A sofa.<br/>In&nbsp;{number}&ndash;12 days.</p>{end}"
        link = f"https://shop.example.com/p?a=x&amp;id={number}"
        cells.append((html, f"Sofa {number}", link, f"1,{number:03d}.50"))
    text = io.StringIO()
    csv.writer(text).writerows(cells)
    form, read = rows(written(tmp_path / name, text.getvalue()))
    assert (form.title, form.first_line) == ("CSV with commas, UTF-8", 0)
    assert read == cells


def test_a_quoted_cell_may_exceed_the_lines_of_recognition(tmp_path):
    long = "\n".join(f"line {number}; more; still more" for number in range(300))
    path = written(tmp_path / "a.csv", f'text,label\n"{long}",a\n"{long}",b\n')
    assert [len(row) for row in rows(path)[1]] == [2, 2, 2]


def test_settings_replace_recognition(tmp_path):
    path = written(tmp_path / "a.csv", "ä#b,c\n".encode("cp1252") * 9)
    settings = TableSettings(encoding="cp1252", delimiter="#")
    assert rows(path, settings)[1][0] == ("ä", "b,c")
    assert rows(path, TableSettings("cp1252", "comma"))[1][0] == ("ä#b", "c")
    with raises(UserError, "data.delimiter"):
        recognise(path, TableSettings(delimiter='x"'))


def test_a_truncated_gzip_file_is_one_line(tmp_path):
    path = written(tmp_path / "a.csv", gzip.compress(os.urandom(99).hex().encode())[:-20])
    with pytest.raises(UserError, match=r"cannot read .*a.csv: "):
        recognise(path, ANY)


@pytest.mark.parametrize("name", ["punycode", "hex", "idna", "a\0"])
def test_a_codec_that_is_no_encoding_of_files_is_rejected(tmp_path, name):
    path = written(tmp_path / "a.csv", "ä,b\n" * 9)
    with pytest.raises(UserError, match=r"data.encoding is .*: expected a name such as"):
        recognise(path, TableSettings(encoding=name))


def test_a_changed_file_is_recognised_again(tmp_path):
    path = written(tmp_path / "a.csv", "a,b\n" * 9)
    assert recognise(path, ANY).delimiter == ","
    written(path, "a;b;c\n" * 9)
    os.utime(path, ns=(0, 1))
    assert recognise(path, ANY).delimiter == ";"


def test_zipped_utf16_is_read(tmp_path):
    path = written(tmp_path / "a.csv.gz", gzip.compress("ä;b\r\nc;d\r\n".encode("utf-16")))
    assert rows(path)[1] == [("ä", "b"), ("c", "d")]


def test_rows_have_the_numbers_and_faults_of_their_lines(tmp_path):
    path = written(tmp_path / "a.csv", b'a,"b\n\xff",c\nd,e,f\n' + b"g,h,i\n" * 99)
    form = recognise(path, ANY)
    first, second, *_ = read_rows(path, form, ANY)
    assert (first.line, first.fault) == (1, "not UTF-8")
    assert (second.line, second.fault, second.cells) == (3, None, ("d", "e", "f"))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_cells_may_be_long(tmp_path, name):
    delimiter = "," if name == "a.csv" else "\t"
    path = written(tmp_path / name, f"{'x' * 200_000}{delimiter}b\nc{delimiter}d\n")
    assert [len(source) for source, _ in rows(path)[1]] == [200_000, 1]
