"""Rows of workbooks, and limits of their size."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence

import pytest

from regard.data.examples import Pair
from regard.data.files.tables import TableSettings
from regard.data.files.workbooks import default_sheet
from regard.data.recognition.inspection import inspect
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from tests.messages import check_message, raises

ANY = TableSettings()
WORDS = [("λόγος", "logos"), ("νερό", "nero"), ("φως", "fos")]
XLSX_CELL = '<c r="{}{}" t="inlineStr"><is><t>{}</t></is></c>'
NAMESPACE = "http://schemas.openxmlformats.org"


def cells_of(row: Sequence[str], line: int) -> str:
    """Return the cells of a row of a sheet."""
    cells = zip("ABCDEF", row, strict=False)
    return "".join(XLSX_CELL.format(name, line, cell) for name, cell in cells)


def workbook(*sheets: Sequence[Sequence[str]], num_hidden: int = 0, last: str = "") -> bytes:
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
                f'<row r="{line}">{cells_of(row, line)}</row>'
                for line, row in enumerate(rows, start=1)
            )
            archive.writestr(
                f"xl/worksheets/sheet{n}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{cells}{last}</sheetData></worksheet>',
            )
    return file.getvalue()


def test_a_workbook_is_read(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook([("Word", "Form"), *WORDS], [("uno", "dos")]))
    assert [(pair.source, pair.target) for pair in read_pairs(path, settings=ANY).pairs] == WORDS
    second = read_pairs(path, settings=TableSettings(sheet="S2"))
    assert second.pairs == (Pair("uno", "dos", 1),)
    with raises(UserError, "--data.sheet"):
        read_pairs(path, settings=TableSettings(sheet="S3"))
    assert inspect(path).form.title == "workbook"
    assert inspect(path).form.kind == "workbook"


def test_a_hidden_sheet_is_not_read(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook([("key", "value")], WORDS, WORDS, num_hidden=1))
    assert [(pair.source, pair.target) for pair in read_pairs(path, settings=ANY).pairs] == WORDS
    check_message(inspect(path).lines()[-1])


COVER = [("School by the Lake", ""), ("", ""), ("Year 2026", "")]


def test_the_first_sheet_with_a_table_is_read(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook(WORDS, COVER, [*COVER, *WORDS], WORDS[:1], num_hidden=1))
    assert [(pair.source, pair.target) for pair in read_pairs(path, settings=ANY).pairs] == WORDS
    first, *_, last = inspect(path).lines()
    assert first.startswith("words.xlsx: workbook, sheet S3; ")
    check_message(last)
    os.utime(path, ns=(0, 1))
    assert (
        inspect(path, TableSettings(sheet="S1"))
        .lines()[0]
        .startswith("words.xlsx: workbook, sheet S1")
    )


def test_sheets_without_a_table_are_one_line(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook(COVER, WORDS[:1]))
    with raises(UserError, "--data.sheet"):
        inspect(path)
    path.write_bytes(workbook(COVER))
    with pytest.raises(UserError, match=r"and a target; add the column that is missing$"):
        inspect(path)


def test_a_long_list_is_no_cover(tmp_path):
    pytest.importorskip("python_calamine")
    path = tmp_path / "words.xlsx"
    path.write_bytes(workbook([(f"word {number}", "") for number in range(21)], WORDS))
    assert default_sheet(path) == "S1"


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
    with raises(UserError):
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
    with raises(UserError):
        read_pairs(path, settings=ANY)
