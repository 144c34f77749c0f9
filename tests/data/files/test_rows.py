"""Rows that are left out: more cells than columns, wrong quotes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from regard.data.files.lines import LeftOut, LineProblem
from regard.data.files.tables import Quotes, TableSettings, num_columns
from regard.data.labels.readers import read_labelled
from regard.data.recognition.formats import recognise
from regard.data.text.parallel import read_pairs
from tests.data.files.test_workbooks import workbook
from tests.messages import check_message

SETTINGS = TableSettings()


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def pairs(path: Path) -> tuple[list[tuple[str, str]], str]:
    corpus = read_pairs(path, settings=SETTINGS)
    return [(pair.source, pair.target) for pair in corpus.pairs], "; ".join(corpus.summary())


@pytest.mark.parametrize(
    ("widths", "has_header", "number"),
    [
        ([2, 2, 3, 2, 2, 2], True, 2),
        ([2, *[3, 2] * 4, 2], True, 2),
        ([2, 3, 3, 3, 2, 2, 3, 3], True, 0),  # the header lacks a name, and rows differ
        ([2, *[3] * 12], True, 3),
        ([2] * 19 + [3], False, 2),
        ([3] * 19 + [2], False, 3),
        ([2, 2, 3, 2, 2, 2], False, 2),
        ([3, 2] * 6 + [2], False, 2),
        ([3, 2] * 6, False, 0),
        ([2, 2, 3], False, 0),  # too few
    ],
)
def test_the_header_or_most_rows_have_the_columns(widths, has_header, number):
    rows = [["x"] * width + [" "] * (n % 2) for n, width in enumerate(widths)]
    assert num_columns(rows, has_header=has_header) == number


@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt", "xlsx"])
@pytest.mark.parametrize("header", [["source", "target"], None])
def test_pairs_with_more_cells_are_left_out_and_listed(tmp_path, suffix, header):
    rows = [[f"word {n}", f"Wort {n}"] for n in range(60)]
    rows[7] = ["word 7", " yes", "Wort 7"]
    rows[9] += ["", " "]
    rows = [header, *rows] if header else rows
    path = tmp_path / f"a.{suffix}"
    if suffix == "xlsx":
        path.write_bytes(workbook(rows))
    else:
        mark = "," if suffix == "csv" else "\t"
        write(path, [mark.join(row) for row in rows])
    read, summary = pairs(path)
    assert read == [(f"word {n}", f"Wort {n}") for n in range(60) if n != 7]
    check_message(summary)


@pytest.mark.parametrize("share", [8, 3])
def test_one_comma_without_quotes_in_many_rows_needs_no_header(tmp_path, share):
    rows = [f"word {n}, yes,Wort" if n % share == 0 else f"word {n},Wort {n}" for n in range(60)]
    read, summary = pairs(write(tmp_path / "a.csv", rows))
    assert read == [(f"word {n}", f"Wort {n}") for n in range(60) if n % share]
    assert f"{60 - len(read)} with more cells" in summary


def test_a_blank_cell_beyond_an_optional_column_shows_a_shifted_row(tmp_path):
    rows = [f"word {n},Wort {n},{'seen' if n % 3 else ''}" for n in range(60)]
    rows[7], rows[12] = "word 7, yes,Wort 7,", "word 12,Wort 12,,"
    read, summary = pairs(write(tmp_path / "a.csv", ["source,target,note", *rows]))
    assert read == [(f"word {n}", f"Wort {n}") for n in range(60) if n != 7]
    check_message(summary)
    closed = [f"{row}," for row in rows if row.count(",") == 2]  # all rows end with a comma
    assert len(pairs(write(tmp_path / "b.csv", ["source,target,note,", *closed]))[0]) == 58


def test_a_column_of_the_settings_belongs_to_the_table(tmp_path):
    rows = [f"word {n},Wort {n}{f',note {n}' if n % 4 == 0 else ''}" for n in range(60)]
    settings = TableSettings(source_columns=("1",), target_columns=("3",))
    corpus = read_pairs(write(tmp_path / "a.csv", rows), settings=settings)
    assert [pair.target for pair in corpus.pairs] == [f"note {n}" for n in range(0, 60, 4)]


def test_wrong_quotes_leave_out_their_line_only(tmp_path):
    rows = [f'"word {n}","Wort, {n}"' for n in range(40)]
    rows[5] = '"word 5,"Wort, 5"'
    rows[11] = '"word 11","he said "no" to me"'
    rows[20] = '"word 20,Wort 20'
    rows[-1] = 'word 39,"Wort'
    read, summary = pairs(write(tmp_path / "a.csv", ["source,target", *rows]))
    wrong = (5, 11, 20, 39)
    assert read == [(f"word {n}", f"Wort, {n}") for n in range(40) if n not in wrong]
    check_message(summary)


def test_a_quote_that_swallows_rows_is_wrong(tmp_path):
    rows = [f"word {n},Wort {n}" for n in range(40)]
    rows[5], rows[12] = '"word 5,Wort 5', 'word 12",Wort 12'
    rows[20] = '"a poem,\nin\nfour\nlines",Gedicht'
    read, summary = pairs(write(tmp_path / "a.csv", ["source,target", *rows]))
    assert len(read) == 39
    assert "1 with wrong quotes or line ends (line 7)" in summary
    assert ("a poem, in four lines", "Gedicht") in read


@pytest.mark.parametrize(
    ("line", "quotes", "pair"),
    [
        ("'house {0}, x','Haus ''{0}'''", Quotes("'"), ("house 3, x", "Haus '3'")),
        ('"say \\"hi {0}\\", ok","Haus {0}"', Quotes(escape="\\"), ('say "hi 3", ok', "Haus 3")),
        ("'t is {0},Haus {0}", Quotes(), ("'t is 3", "Haus 3")),
        ('"house {0}, x","Haus ""{0}"""', Quotes(), ("house 3, x", 'Haus "3"')),
    ],
)
def test_quotes_are_recognised(tmp_path, line, quotes, pair):
    path = write(tmp_path / "a.csv", ["source,target", *(line.format(n) for n in range(30))])
    assert recognise(path, SETTINGS).quotes == quotes
    read, summary = pairs(path)
    assert (len(read), summary, read[3]) == (30, "", pair)


def test_a_line_that_is_no_json_object_is_left_out(tmp_path):
    rows = [f'{{"source": "word {n}", "target": "Wort {n}"}}' for n in range(60)]
    rows[7], rows[20] = '{"source": "word 7", ', "[1, 2]"
    read, summary = pairs(write(tmp_path / "a.jsonl", rows))
    assert len(read) == 58
    assert "2 without a JSON object (lines 8, 21)" in summary


FAULTS = {
    "many columns": ("a.csv", [*["a,b"] * 40, "a,b,c"]),
    "quotes": ("a.csv", ["text,other", *['"a, b",c'] * 40, '"a, b" c,d']),
    "not JSON": ("a.jsonl", ['{"source": "a", "target": "b"}'] * 40 + ["{"]),
    "several labels": (
        "a.txt",
        [*["__label__a b", "__label__c d"] * 40, "__label__a __label__c b"],
    ),
    "no label": ("a.txt", [*["__label__a b", "__label__c d"] * 40, "b c d"]),
    "UTF-8": ("a.tsv", [*[b"S\xe4tze mit \xdc\tb"] * 40, "Straße\tb".encode()]),
    "not UTF-8": ("a.tsv", [*["Straße\tb".encode()] * 40, b"S\xe4tze\tb"]),
}


@pytest.mark.parametrize(("fault", "content"), FAULTS.items(), ids=FAULTS)
def test_each_fault_of_a_line_is_counted(tmp_path, fault, content):
    name, lines = content
    text = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    (tmp_path / name).write_bytes(text + b"\n")
    read = read_labelled if fault in ("several labels", "no label") else read_pairs
    assert read(tmp_path / name, settings=SETTINGS).left_out.counts() == {fault: 1}


def test_a_comment_after_an_entry_is_counted(tmp_path):
    path = tmp_path / "a.dict"
    words = ["BABET", "TABLE", "LABEL", "BATTLE", "TEMPLE", "METAL"]
    entries = [f"{word}  {' '.join(word)}" for word in words]
    path.write_text("\n".join([*entries, "MALT  M A L T # foreign"]) + "\n")
    corpus = read_pairs(path, settings=SETTINGS)
    assert (corpus.pairs[-1].source, corpus.pairs[-1].target) == ("malt", "M A L T")
    assert corpus.left_out.counts() == {"end comment": 1}
    assert corpus.summary() == (f"removed the comment at the end of 1 line of {path} (line 7)",)


def test_a_line_of_another_encoding_is_counted():
    left_out = LeftOut()
    left_out.add(LineProblem("a.csv", 7, "other encoding", ""))
    check_message(*left_out.summary())


@pytest.mark.parametrize("mark", ["\t", "|||"])
def test_rows_that_cr_alone_divides_are_listed(tmp_path, mark):
    lines = [f"word {n}{mark}Wort {n}" for n in range(60)]
    lines[7] += f"\r{lines[8]}"
    lines[9] += "\rzwei"
    path = write(tmp_path / "a.txt", lines)
    corpus = read_pairs(path, settings=replace(SETTINGS, delimiter=mark))
    sources = [pair.source for pair in corpus.pairs]
    assert sources == [f"word {n}" for n in range(60) if n != 7]
    assert corpus.pairs[8].target.split() == ["Wort", "9", "zwei"]
    summary = "; ".join(corpus.summary())
    assert "1 with wrong quotes or line ends (line 8)" in summary
    assert summary.endswith("end lines with LF or CR LF")
