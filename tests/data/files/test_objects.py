"""Data in memory: each library's table gives the pairs of the list with the same content."""

from decimal import Decimal
from fractions import Fraction

import datasets
import numpy as np
import pandas
import polars
import pytest

from regard.data.examples import Pair
from regard.data.files.objects import NAME, corpus_of, table_of
from regard.data.files.tables import TableSettings
from regard.errors import UserError
from tests.messages import check_message, raises

COLUMNS = {
    "id": [1, 2, 3],
    "Text": ["a b", "c\td", "e"],
    "label": ["x", None, "y"],
    "number": [1.0, 2.5, float("nan")],
}


def read(table, source=(), target=(), features=(), **options):
    """Return the pairs of a table of labels."""
    settings = TableSettings(source_columns=source, target_columns=target, feature_columns=features)
    return corpus_of(table, settings, "classify", **options)


MAKERS = {
    "pandas": pandas.DataFrame,
    "polars": lambda columns: polars.DataFrame(columns, strict=False),
    "datasets": datasets.Dataset.from_dict,
    "dictionaries": lambda columns: [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ],
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_tables_of_every_library_have_the_same_rows(make):
    table = table_of(make(COLUMNS))
    assert (table.header, table.form.kind) == (("id", "Text", "label", "number"), "memory")
    assert table.rows == (("1", "a b", "x", "1"), ("2", "c d", "", "2.5"), ("3", "e", "y", ""))
    corpus = read(table)
    assert corpus.pairs == (Pair("a b", "x", 1), Pair("e", "y", 3))
    assert corpus.summary() == (f"left out 1 line of {NAME}: 1 with a blank side (line 2)",)


def test_pairs_are_read_in_order():
    pairs = [("a", 1), ["b", np.int64(2)], ("c\nd", "e")]
    corpus = read(table_of(iter(pairs)))
    assert corpus.pairs == (Pair("a", "1", 1), Pair("b", "2", 2), Pair("c d", "e", 3))


def test_columns_without_names_have_numbers():
    rows = [("x", 1), ("y", 2)]
    frame, array = pandas.DataFrame(rows), np.array(rows)
    assert table_of(frame) == table_of(array) == table_of(rows)
    assert (table_of(rows).header, table_of(rows).rows) == (None, (("x", "1"), ("y", "2")))
    assert read(table_of(frame), ("2",), ("1",)).pairs[0] == Pair("1", "x", 1)
    with raises(UserError, "data.source"):
        read(table_of(pandas.DataFrame([("x", "y", "z")])))


def test_missing_values_of_pandas_are_empty():
    frame = pandas.DataFrame({"word": ["a", pandas.NA], "n": pandas.array([None, 3], "Int64")})
    assert table_of(frame).rows == (("a", ""), ("", "3"))


def test_texts_are_not_missing_values():
    frame = pandas.DataFrame({"word": ["NaT", "<NA>"], "n": np.array([float("nan"), 3], "f4")})
    assert table_of(frame).rows == (("NaT", ""), ("<NA>", "3"))
    assert table_of([(np.float32("nan"), np.float32(2)), ("a", "b")]).rows[0] == ("", "2")


@pytest.mark.parametrize("make", [list, datasets.Dataset.from_list, polars.DataFrame])
def test_fields_inside_a_field_are_columns(make):
    rows = [{"translation": {"en": "a b", "de": "c"}}, {"translation": {"en": "d", "de": "e"}}]
    table = table_of(make(rows))
    assert table.header == ("translation.en", "translation.de")
    assert table.rows == (("a b", "c"), ("d", "e"))


def test_equal_or_missing_columns_are_named():
    frame = pandas.DataFrame([["a", "b"]] * 2, columns=["x", "x"])
    with pytest.raises(UserError, match="the data has 2 columns 'x': rename them"):
        table_of(frame)
    for data in (frame.iloc[:, :1], [{"x": "a"}], datasets.Dataset.from_dict({"x": ["a"]})):
        with pytest.raises(UserError, match="one column, x: expected a source and a target"):
            table_of(data)
    with pytest.raises(UserError, match="has no columns"):
        table_of(pandas.DataFrame())


def test_columns_are_chosen_by_name_or_by_number():
    table = table_of(pandas.DataFrame(COLUMNS))
    assert read(table, ("2",), ("id", "NUMBER")).pairs == (
        Pair("a b", "1 1", 1),
        Pair("c d", "2 2.5", 2),
    )


def test_features_follow_the_source_after_tabs():
    table, features = table_of(pandas.DataFrame(COLUMNS)), ("number", "1")
    pairs = read(table, features=features).pairs
    assert pairs == (Pair("a b\t1\t1", "x", 1), Pair("e\t\t3", "y", 3))
    bare = table_of(pandas.DataFrame([["a", "b", "c"]]))
    assert read(bare, ("1",), ("3",), ("2",)).pairs == (Pair("a\tb", "c", 1),)


@pytest.mark.parametrize(
    "data",
    [
        *("ab", b"ab", 3, {"a": 1}, None, ["ab"], [("a",)], [("a", "b", "c")], [1]),
        *({("a", "b")}, polars.LazyFrame({"a": ["b"]}), datasets.DatasetDict()),
    ],
)
def test_other_objects_are_refused_with_the_accepted_kinds(data):
    with pytest.raises(TypeError, match="expected a pandas or polars data frame"):
        table_of(data)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": [""], "label": ["y"]}, "has no pairs: left out 1 line"),
        ({"text": [], "label": []}, "has no rows"),
    ],
)
def test_missing_pairs_are_named(columns, message):
    with pytest.raises(UserError, match=message):
        read(table_of(pandas.DataFrame(columns)))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_rows_that_are_no_examples_are_left_out_as_in_files(make):
    texts = [f"a text {number}" for number in range(40)]
    columns = {
        "text": [*texts, "text", "b", "Total"],
        "label": [*map(str, range(40)), "label", "3", "780"],
    }
    corpus = read(table_of(make(columns)), has_numbers=True)
    assert [pair.source for pair in corpus.pairs] == [*texts, "b"]
    check_message(*corpus.summary())


def test_a_row_of_missing_values_ends_no_data_frame():
    rows = [(f"text {number}", str(number)) for number in range(40)]
    rows[20:22] = [("", ""), ("another text", "see below")]
    frame = pandas.DataFrame(rows, columns=["text", "label"])
    corpus = read(table_of(frame), has_numbers=True)
    assert len(corpus.pairs) == 38
    check_message(*corpus.summary())


def test_bytes_are_texts():
    table = table_of([("ä".encode(), "x"), (b"\xe4", "y"), (b"b", b"z")])
    corpus = read(table)
    assert corpus.pairs == (Pair("ä", "x", 1), Pair("b", "z", 3))
    assert "(line 2)" in corpus.summary()[0]


def test_numbers_of_all_types_are_finite_or_left_out():
    values = [0.5, float("inf"), Fraction(1, 4), 10**5000, Decimal("NaN"), Fraction(10**400, 3), 7]
    table = table_of([("a", value) for value in values])
    corpus = read(table, has_numbers=True)
    assert [pair.target for pair in corpus.pairs] == ["0.5", "0.25", "7"]
    check_message(*corpus.summary())
