"""JSON lines and Parquet."""

from __future__ import annotations

import datetime
import json
import sys

import pytest

from regard.data.examples import Pair
from regard.data.files.named_rows import has_json_records
from regard.data.files.tables import TableSettings
from regard.data.images.annotations import read_captions
from regard.data.labels.readers import read_labelled
from regard.data.recognition.formats import read_rows, recognise
from regard.data.recognition.inspection import inspect
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from tests.data.files.test_workbooks import workbook
from tests.messages import check_message

ANY = TableSettings()
WORDS = [("λόγος", "logos"), ("νερό", "nero"), ("φως", "fos")]


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


def test_an_array_of_objects_is_read_like_json_lines(tmp_path):
    path = tmp_path / "words.json"
    path.write_text(
        '\ufeff[\n  {"id": 1, "word": "λόγος", "form": "logos"},\n  {"word": "νερό",\n'
        '   "form": "nero"}, {"word": "φως", "form": null}\n]\n',
        encoding="utf8",
    )
    corpus = read_pairs(path, settings=ANY)
    assert corpus.pairs == (Pair("λόγος", "logos", 2), Pair("νερό", "nero", 3))
    assert [problem.line for problem in corpus.problems] == [4]
    assert (inspect(path).form.kind, inspect(path).form.title) == ("json", "JSON array")
    assert inspect(path).columns() == {"data.source_column": "word", "data.target_column": "form"}
    labelled = tmp_path / "labels.json"
    labelled.write_text('[{"label": "a", "text": "b c"}, {"label": "d", "text": "e"}]')
    labels = [(pair.source, pair.target) for pair in read_labelled(labelled).pairs]
    assert labels == [("b c", "a"), ("e", "d")]


RECORDS = '[{"word": "λόγος",\n"form": "logos"},\n {"word": "νερό", "form": "nero"}]'


@pytest.mark.parametrize(
    "text",
    [
        f'{{"3166-1": {RECORDS}}}',
        f'\ufeff{{\n "project": {{"year": 1}}, "tags": ["a"], "none": [],\n"rows" : {RECORDS} }}\n',
        f'{{"rows": {RECORDS}, "version": 2}}',
    ],
)
def test_an_object_with_one_list_of_objects_is_read(tmp_path, text):
    path = tmp_path / "words.json"
    path.write_text(text, encoding="utf8")
    line = 1 + text[: text.index('{"word')].count("\n")
    corpus = read_pairs(path, settings=ANY)
    assert corpus.pairs == (Pair("λόγος", "logos", line), Pair("νερό", "nero", line + 2))
    assert inspect(path).form.kind == "json"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"train": {RECORDS}, "test": {RECORDS}}}',
        f'{{"images": {RECORDS}}}',
        f'{{"rows": {RECORDS}; "a": 3}}',
        f'{{"rows": {RECORDS}}} 3',
        f'{{"rows": {RECORDS}',
        '{"rows": [{"a": 1}, 3]}',
        '{"a": ' + "[" * 100_000,
    ],
)
def test_other_objects_have_no_records(tmp_path, text):
    path = tmp_path / "words.json"
    path.write_text(text, encoding="utf8")
    assert not has_json_records(path)


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ("\n3]", "line 2: expected an object such as .* got '3'"),
        ("{}]", "line 1: expected an object"),
        ('{"a": ', "line 1 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ('{"a": "b"}', "line 1 is not JSON: expected , or ], got ''"),
        ('{"a": "b"}] 3', "line 1 is not JSON: text after the array"),
    ],
)
def test_a_wrong_array_is_one_line(tmp_path, rest, problem):
    path = tmp_path / "words.json"
    path.write_text(f'[{{"a": "b", "c": "d"}}, {rest}')
    with pytest.raises(UserError, match=rf"words.json, {problem}"):
        read_pairs(path, settings=ANY)


def test_names_of_all_first_objects_are_columns(tmp_path):
    path = tmp_path / "words.jsonl"
    path.write_text('{"id": 1, "word": "a"}\n' + '{"id": 2, "word": "b", "form": "c"}\n' * 3)
    corpus = read_pairs(path, settings=TableSettings(source_columns=("word",)))
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


LISTS = {
    "labels": ([["good", "very bad"], ["good"]], "several labels", "good"),
    "one label at most": ([["good"], "bad", []], None, "good bad"),
    "ids": ([[27, 3], [27]], "several labels", "27"),
    "several of each": ([[0, 1, 1], [1, 0, 0]], "several labels", ""),
    "spans": ([[[0, 4, "PER"]], []], "several labels", ""),
    "objects": ([[{"start": 0, "label": "PER"}], "PER"], "several labels", "PER"),
}


@pytest.mark.parametrize(("values", "fault", "labels"), LISTS.values(), ids=LISTS)
def test_lists_of_labels_are_left_out_and_listed(tmp_path, values, fault, labels):
    path = tmp_path / "a.jsonl"
    rows = [{"text": "a dog", "label": value} for value in values]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if not labels:
        with pytest.raises(UserError, match=f"{fault} .line"):
            read_labelled(path)
        return
    corpus = read_labelled(path)
    assert " ".join(pair.target for pair in corpus.pairs) == labels
    problems = {problem.kind for problem in corpus.problems} - {"blank"}
    assert problems == ({fault} if fault else set())


def test_lists_of_numbers_are_the_numbers_of_one_target(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a dog", "label": [0.5, 2]}\n')
    assert [pair.target for pair in read_labelled(path, known=None).pairs] == ["0.5 2"]


def test_lists_of_words_are_texts_and_lists_of_texts_are_left_out(tmp_path):
    path = tmp_path / "a.jsonl"
    values = [["a", "dog", "runs"], ["a dog runs", "the dog is running"], ["a dog runs"], "a dog"]
    rows = [{"source": value, "target": "a"} for value in values]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for corpus in (read_pairs(path, settings=ANY), read_labelled(path)):
        assert [pair.source for pair in corpus.pairs][:2] == ["a dog runs"] * 2
        problems = [(problem.line, problem.kind) for problem in corpus.problems]
        assert problems == [(2, "several texts")]
    check_message(*read_pairs(path, settings=ANY).left_out.summary())


def test_each_text_of_a_list_of_captions_is_a_caption(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"image": "a.png", "caption": ["a dog runs", "the dog is running"]}\n')
    captions = read_captions(path)
    assert [pair.target for pair in captions.pairs] == ["a dog runs", "the dog is running"]
