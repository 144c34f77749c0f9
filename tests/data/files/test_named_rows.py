"""JSON lines, workbooks and Parquet."""

from __future__ import annotations

import datetime
import io
import sys
import zipfile

import pytest

from regard.data.examples import Pair
from regard.data.files.formats import read_rows, recognise
from regard.data.files.inspection import inspect
from regard.data.files.tables import TableSettings
from regard.data.labels.readers import read_labelled
from regard.data.text.parallel import read_pairs
from regard.errors import UserError

ANY = TableSettings()
WORDS = [("λόγος", "logos"), ("νερό", "nero"), ("φως", "fos")]
CELLS = (
    '<c r="A{0}" t="inlineStr"><is><t>{1}</t></is></c>'
    '<c r="B{0}" t="inlineStr"><is><t>{2}</t></is></c>'
)
NAMESPACE = "http://schemas.openxmlformats.org"


def workbook(*sheets: list[tuple[str, str]], num_hidden: int = 0, last: str = "") -> bytes:
    """Return a small .xlsx file with these sheets, named S1, S2 and so on, of which the first are
    hidden. `last` is a cell at the end of each sheet."""
    file = io.BytesIO()
    main = f"{NAMESPACE}/spreadsheetml/2006/main"
    office = f"{NAMESPACE}/officeDocument/2006/relationships"
    package = f"{NAMESPACE}/package/2006"
    names = list(enumerate(sheets, start=1))
    with zipfile.ZipFile(file, "w") as archive:
        parts = "".join(
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="application/vnd.'
            'openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
            for n, _ in names
        )
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName='
            '"/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            f'spreadsheetml.sheet.main+xml"/>{parts}</Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        links = "".join(
            f'<Relationship Id="r{n}" Type="{office}/worksheet" Target="worksheets/sheet{n}.xml"/>'
            for n, _ in names
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{links}</Relationships>',
        )
        hidden = ' state="hidden"'
        listed = "".join(
            f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}"{hidden if n <= num_hidden else ""}/>'
            for n, _ in names
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>',
        )
        for n, rows in names:
            cells = "".join(
                f'<row r="{line}">{CELLS.format(line, *row)}</row>'
                for line, row in enumerate(rows, start=1)
            )
            archive.writestr(
                f"xl/worksheets/sheet{n}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{cells}{last}</sheetData></worksheet>',
            )
    return file.getvalue()


def test_json_lines_are_read_by_names(tmp_path):
    path = tmp_path / "words.jsonl"
    path.write_text(
        '{"id": 1, "word": "λόγος", "form": "logos"}\n\n'
        '{"form": "nero", "id": 2, "word": "νερό"}\n{"word": "φως", "form": null}\n',
        encoding="utf8",
    )
    corpus = read_pairs(path, settings=ANY)
    assert corpus.pairs == (Pair("λόγος", "logos", 1), Pair("νερό", "nero", 3))
    assert [problem.line for problem in corpus.problems] == [4]
    assert inspect(path).form.title == "JSON lines"
    assert inspect(path).form.kind == "jsonl"


@pytest.mark.parametrize("line", ['{"a": ', "[1, 2]", "3", "[" * 100_000])
def test_wrong_json_is_one_line(tmp_path, line):
    path = tmp_path / "words.jsonl"
    path.write_text(f'{{"a": "b", "c": "d"}}\n{line}\n')
    with pytest.raises(UserError, match=r"words.jsonl, line 2"):
        read_pairs(path, settings=ANY)


def test_a_workbook_is_read(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook([("Word", "Form"), *WORDS], [("uno", "dos")]))
    assert [(pair.source, pair.target) for pair in read_pairs(path, settings=ANY).pairs] == WORDS
    second = read_pairs(path, settings=TableSettings(sheet="S2"))
    assert second.pairs == (Pair("uno", "dos", 1),)
    with pytest.raises(UserError, match=r"no sheet 'S3' \(--data.sheet\): its sheets are S1, S2"):
        read_pairs(path, settings=TableSettings(sheet="S3"))
    assert inspect(path).form.title == "workbook"
    assert inspect(path).form.kind == "workbook"


def test_a_hidden_sheet_is_not_read(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook([("key", "value")], WORDS, WORDS, num_hidden=1))
    assert [(pair.source, pair.target) for pair in read_pairs(path, settings=ANY).pairs] == WORDS
    assert (
        inspect(path).lines()[-1] == "words.xlsx: sheets that are not read: S3 (--data.sheet NAME)"
    )


def test_a_far_cell_is_one_line(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook(WORDS, last='<row r="99999"><c r="ZZZ99999"><v>1</v></c></row>'))
    with pytest.raises(UserError, match=r"a sheet of 1,827,\d+,\d+ cells"):
        inspect(path)
    path.write_bytes(workbook(WORDS, last='<row r="99999"><c r="ZZZ99999"/></row>'))
    assert inspect(path).num_rows == 3


FAR = '<row r="9"><c r={}><v>1</v></c></row>'


@pytest.mark.parametrize(
    "last",
    [
        FAR.format('"XFD1048576"'),
        FAR.format("'XFD1048576'"),
        FAR.format('"&#88;FD1048576"'),
        FAR.format(f'"ABCD{"9" * 5000}"'),
        '<row r="1048576"><c><v>1</v></c></row><row r="3"><c r="XFD3"><v>1</v></c></row>',
    ],
)
def test_far_cells_are_found_in_any_spelling(tmp_path, last):
    """The library stops the process for want of memory."""
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook(WORDS, last=last))
    with pytest.raises(UserError, match=r"a sheet of [\d,]+ cells from the first to the last one"):
        read_pairs(path, settings=ANY)


CELL = '<table:table-cell office:value-type="string"{}><text:p>{}</text:p></table:table-cell>'


def open_document(rows: str) -> bytes:
    """Return an .ods file with these rows."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", '<m:manifest xmlns:m="m"/>')
        archive.writestr(
            "content.xml",
            '<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x">'
            f'<office:body><office:spreadsheet><table:table table:name="S">{rows}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return file.getvalue()


def test_repeated_cells_of_open_documents_are_limited(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.ods"
    pair = CELL.format("", "a") + CELL.format("", "b")
    repeated = ' table:number-columns-repeated="4000000000"'
    row = '<table:table-row table:number-rows-repeated="1048574">{}</table:table-row>'
    blank = row.format("<table:table-cell/>")
    path.write_bytes(open_document(f"<table:table-row>{pair}</table:table-row>{blank}"))
    assert read_pairs(path, settings=ANY).pairs == (Pair("a", "b", 1),)
    for rows in (
        f'<table:table-row table:number-rows-repeated="4000000000">{pair}</table:table-row>',
        f"<table:table-row>{CELL.format(repeated, 'a')}{pair}</table:table-row>",
        f"{blank * 99}<table:table-row>{pair}</table:table-row>",
    ):
        path.write_bytes(open_document(rows))
        with pytest.raises(UserError, match=r"a sheet of [\d,]+ cells from the first"):
            read_pairs(path, settings=ANY)


def test_panics_of_the_library_are_one_line(tmp_path, monkeypatch):
    calamine = pytest.importorskip("python_calamine")

    class PanicException(BaseException):
        pass

    class Panicking:
        @staticmethod
        def from_filelike(file):
            raise PanicException("attempt to subtract\nwith overflow")

    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook(WORDS))
    monkeypatch.setattr(calamine, "CalamineWorkbook", Panicking)
    with pytest.raises(UserError, match=r"words\.xlsx: attempt to subtract with overflow"):
        read_pairs(path, settings=ANY)


def test_names_of_all_first_objects_are_columns(tmp_path):
    path = tmp_path / "words.jsonl"
    path.write_text('{"id": 1, "word": "a"}\n' + '{"id": 2, "word": "b", "form": "c"}\n' * 3)
    corpus = read_pairs(path, settings=TableSettings(source_columns=("word",)))
    assert [problem.line for problem in corpus.problems] == []
    named = TableSettings(source_columns=("word",), target_columns=("form",))
    corpus = read_pairs(path, settings=named)
    assert (len(corpus.pairs), [problem.line for problem in corpus.problems]) == (3, [1])


def test_names_inside_objects_are_columns(tmp_path):
    path = tmp_path / "words.jsonl"
    path.write_text('{"id": 7, "pair": {"en": "a b", "de": "c"}}\n' * 3)
    columns = TableSettings(source_columns=("pair.en",), target_columns=("pair.de",))
    assert read_pairs(path, settings=columns).pairs[0] == Pair("a b", "c", 1)
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "words.parquet"
    structs = [{"en": b"a b", "de": {"x": "c"}}, {"en": b"\xff", "de": {"x": "c"}}, None]
    parquet.write_table(arrow.table({"pair": structs}), path)
    corpus = read_pairs(path, settings=ANY)
    assert corpus.pairs == (Pair("a b", "c", 1),)
    assert [problem.line for problem in corpus.problems] == [2, 3]


def test_a_parquet_file_is_read(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    day = datetime.datetime(2024, 5, 3)
    columns = {"text": ["a b", "c", "d"], "label": [1.0, 2.5, None], "day": [day] * 3}
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table(columns), path)
    form = recognise(path, ANY)
    assert form.kind == "parquet"
    rows = [row.cells for row in read_rows(path, form, ANY)]
    assert rows[:2] == [("text", "label", "day"), ("a b", "1", "2024-05-03")]
    assert rows[2] == ("c", "2.5", "2024-05-03")
    corpus = read_labelled(path)
    assert [(pair.source, pair.target) for pair in corpus.pairs] == [("a b", "1"), ("c", "2.5")]


@pytest.mark.parametrize("name", ["a.xlsx", "a.xls", "a.ods", "a.parquet"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"PAR1" * 9, workbook([("a", "b")])[:-30]])
def test_damaged_files_are_one_line(tmp_path, name, content):
    pytest.importorskip("python_calamine")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"cannot read .*{name}: ") as caught:
        read_pairs(path, settings=ANY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "package"), [("a.xlsx", "python_calamine"), ("a.parquet", "pyarrow")]
)
def test_a_missing_library_is_named(tmp_path, monkeypatch, name, package):
    (tmp_path / name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"{name} needs .*: .* -m pip install"):
        read_pairs(tmp_path / name, settings=ANY)
