"""Tables as input and output of `regard translate`."""

from dataclasses import replace

import pytest

from regard.pipeline.train import train
from tests.cli.test_commands import regard
from tests.data.files.test_workbooks import workbook
from tests.messages import check_message
from tests.small_runs import smaller


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rows = [f"{n},{n % 7} {n % 19} a,{n % 7} b" for n in range(130)]
    (folder / "pairs.csv").write_text("\n".join(["n,English,Deutsch", *rows]))
    experiment = smaller(epochs=1)
    columns = dict(source_column="English", target_column="Deutsch", dev_size=4, test_size=0)
    data = replace(experiment.data, path=folder / "pairs.csv", synthetic=None, **columns)
    train(replace(experiment, data=data), folder / "small")
    return folder / "small"


def translations(capsys, run, path, *sources):
    path.write_text("".join(f"{source}\n" for source in sources))
    return regard(capsys, "translate", run, path)[1].splitlines()


TABLE = """n;English;remark
1;1 2 a;"a; b"
2; ;c
3;3 1 a
4;6 4 a;d;e
"""


def test_a_table_is_written_with_translations(run, tmp_path, capsys):
    expected = translations(capsys, run, tmp_path / "in.txt", "1 2 a", "", "3 1 a", "6 4 a")
    table, output, links, traces = (
        tmp_path / name for name in ("table.csv", "out.csv", "links", "traces")
    )
    table.write_text(TABLE)
    files = ("-o", output, "--alignments", links, "--trace", traces)
    status, out, err = regard(capsys, "translate", run, table, *files)
    assert (status, out) == (1, "")
    assert output.read_text().splitlines() == [
        "n;English;remark;Deutsch",
        f'1;1 2 a;"a; b";{expected[0]}',
        "2; ;c;".replace(" ", ""),
        f"3;3 1 a;;{expected[2]}",
        "4;6 4 a;d;e;",
    ]
    assert [len(file.read_text().splitlines()) for file in (links, traces)] == [4, 4]
    check_message(err)
    assert f"{table}: 1 row has no source" in err
    assert regard(capsys, "translate", run, table)[1].splitlines() == [*expected[:3], ""]


def test_the_column_of_translations_has_an_own_name(run, tmp_path, capsys):
    (tmp_path / "table.tsv").write_text("Deutsch\tEnglish\nx\t1 2 a\n")
    output = tmp_path / "out.csv"
    assert regard(capsys, "translate", run, tmp_path / "table.tsv", "-o", output)[0] == 0
    assert output.read_text().splitlines()[0] == "Deutsch,English,prediction"
    (tmp_path / "table.jsonl").write_text('{"English": "1 2 a"}\n')
    assert regard(capsys, "translate", run, tmp_path / "table.jsonl", "-o", output)[0] == 0
    assert output.read_text().splitlines()[0] == "English,Deutsch"


def test_lines_with_tabs_are_a_table_if_a_column_is_named(run, tmp_path, capsys):
    path = tmp_path / "pairs.tsv"
    path.write_text("x\t1 2 a\ny\t3 1 a\n")
    status, lines, err = regard(capsys, "translate", run, path)
    assert (status, lines) == (1, "\n\n")
    check_message(err)
    named = ("--source-column", 2, "--no-header")
    _, rows, err = regard(capsys, "translate", run, path, *named)
    assert err == ""
    assert rows.splitlines() == translations(capsys, run, tmp_path / "in.txt", "1 2 a", "3 1 a")


def test_rows_of_too_many_tokens_have_no_translation(run, tmp_path, capsys):
    (tmp_path / "table.csv").write_text("n,English\n1,1 2 a\n2,1 2 3 4 5 6\n")
    status, out, err = regard(capsys, "translate", run, tmp_path / "table.csv", "--max-source", 4)
    assert (status, out.splitlines()[1:]) == (1, [""])
    assert "1 line of more than 4 tokens (line 3)" in err


def test_the_delimiter_and_the_sheet_may_be_named(run, tmp_path, capsys):
    expected = translations(capsys, run, tmp_path / "in.txt", "1 2 a", "3 1 a")
    table, book = tmp_path / "table.csv", tmp_path / "book.xlsx"
    table.write_text("n!English\n1, 2, 3!1 2 a\n2, 3, 4!3 1 a\n")
    assert regard(capsys, "translate", run, table)[1].splitlines() != expected
    assert regard(capsys, "translate", run, table, "--delimiter", "!")[1].splitlines() == expected
    book.write_bytes(workbook([("English", "n"), ("5", "5")], [("n", "English"), ("1", "1 2 a")]))
    status, out, err = regard(capsys, "translate", run, book, "--sheet", "S2")
    assert (status, out.splitlines()) == (0, expected[:1])
    check_message(err)
    status, _, err = regard(capsys, "translate", run, book, "--sheet", "S3")
    assert status == 1
    check_message(err)


def test_lines_that_are_no_json_objects_are_listed(run, tmp_path, capsys):
    table = tmp_path / "a.jsonl"
    rows = ['{"English": "1 2 a"}'] * 30
    rows[3], rows[7] = '{"English": ', "[1]"
    table.write_text("\n".join(rows))
    status, out, err = regard(capsys, "translate", run, table)
    assert (status, len(out.splitlines())) == (1, 30)
    check_message(err)


def test_an_output_named_as_a_stream_is_the_standard_output(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("1 2 a\n3 1 a\n")
    expected = regard(capsys, "translate", run, "a.txt")[1]
    for option in (["-o", "-"], ["--output", "-"], ["--output=-"]):
        status, out, _ = regard(capsys, "translate", run, "a.txt", *option)
        assert (status, out) == (0, expected)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
