"""Numbers written as text."""

from __future__ import annotations

import pytest

from regard.config import ClassificationDataConfig
from regard.corpora.sources import read_sources
from regard.data.labels.numeric import parse_items, parse_series
from regard.errors import UserError


def test_series_have_equal_features_at_every_position():
    result = parse_series(" 0.5,1  -2e-1,0 ")
    assert result.pieces == ("0.5,1", "-2e-1,0")
    assert result.values.ravel().tolist() == pytest.approx([0.5, 1, -0.2, 0])
    assert parse_series("3 4").values.tolist() == [[3], [4]]


def test_items_have_names_of_several_words_and_numbers():
    result = parse_items("orange  juice 1.20; bread 0.8;")
    assert result.names == ("orange juice", "bread")
    assert result.series.pieces == ("orange juice 1.20", "bread 0.8")
    assert result.series.values.ravel().tolist() == pytest.approx([1.2, 0.8])
    assert parse_items("route 66 1.5", features=1).names == ("route 66",)
    assert parse_items("house 3 120", features=2).series.values.tolist() == [[3, 120]]


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_series, "1 x", "'x': expected finite numbers"),
        (parse_series, "1 nan", "'nan': expected finite"),
        (parse_series, "1 -1e300", r"'-1e300': expected numbers from -1e\+18 to 1e\+18"),
        (parse_items, "tea 1; cola 1e39", "'cola 1e39': expected numbers from"),
        (parse_series, "1,2 3", "'3' has 1 numbers: expected 2, as at the first position"),
        (parse_series, " ", "has no numbers"),
        (parse_items, "bread", "'bread' is not an item"),
        (parse_items, "1.20", "'1.20' is not an item"),
        (parse_items, "a 1 2; b 3", "'b 3' has 1 numbers: expected 2"),
    ],
)
def test_invalid_items_and_series_are_named(parse, text, said):
    with pytest.raises(UserError, match=said):
        parse(text)


def test_numbers_of_items_may_have_a_unit_and_decimal_commas():
    expected = parse_items("Pepsi 0.69; Coke 1.20").series.values.tolist()
    for text in (
        "Pepsi 0.69$; Coke 1.20$",
        "Pepsi $0.69; Coke $1.20",
        "Pepsi 0,69 €; Coke 1,20 €",
        "Pepsi EUR 0,69; Coke 1,20€",
    ):
        items = parse_items(text, 1)
        assert items.names == ("Pepsi", "Coke")
        assert items.series.values.tolist() == expected
    assert parse_items("route 66 1.5€", features=1).names == ("route 66",)
    for text in ("Pepsi 0.69$; Coke 1.20€", "Pepsi 1,234; Coke 2"):
        with pytest.raises(UserError):
            parse_items(text, 1)


def test_a_few_sources_of_another_form_are_left_out(tmp_path):
    path = tmp_path / "series.tsv"
    rows = [f"0.{n} 0.5\t{n}\n" for n in range(10, 70)]
    path.write_text("".join([*rows[:7], "0.1 x\t3\n", "0.1,3 0.2,4\t3\n", *rows[7:]]))
    config = ClassificationDataConfig(path=path, source="series", target="number")
    train = read_sources(config).train
    assert [(problem.line, problem.kind) for problem in train.problems] == [
        (8, "no source"),
        (9, "no source"),
    ]
    assert len(train.pairs) == 60
