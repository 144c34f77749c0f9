"""Tables by the names of their columns."""

from pathlib import Path

from regard.data.files.tables import find_column, suffix_of


def test_a_column_is_found_by_the_first_of_its_names():
    head = ["id", " Review", "TEXT"]
    assert find_column(head, ["text", "review"]) == 2
    assert find_column(head, ["Review", "text"]) == 1
    assert find_column(head, ["label"]) is None
    assert find_column(["Text", "text", "TEXT"], ["text"]) == 1
    assert find_column(["Text", "TEXT"], ["text"]) == 0


def test_a_zipped_table_is_a_table():
    assert [suffix_of(Path(name)) for name in ("a.CSV", "a.tsv.gz", "a.b", "a")] == [
        ".csv",
        ".tsv",
        ".b",
        "",
    ]
