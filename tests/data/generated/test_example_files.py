"""Example files: rules of their targets, and the recipe and columns that inspection finds."""

from collections import Counter
from typing import get_args

import pytest

from regard.cli.data import EXAMPLES
from regard.data.files.tables import TableSettings
from regard.data.generated.dates import ordinal, spoken_dates, time, year
from regard.data.generated.example_files import example_file
from regard.data.generated.inflection import CASES, IRREGULAR, NUMBERS, forms, inflected
from regard.data.generated.intents import REQUESTS, requests
from regard.data.generated.readings import readings
from regard.data.generated.transliteration import (
    greek_words,
    transliterated,
    transliterations,
    with_prefix,
)
from regard.data.recognition.inspection import inspect
from regard.errors import UserError
from regard.names import Dataset, Example, ExampleTable


@pytest.mark.parametrize(
    ("greek", "latin"),
    [
        ("παύω", "pavo"),
        ("ευτυχία", "eftychia"),
        ("μπαίνει", "bainei"),
        ("λάμπω", "lampo"),
        ("συγγράφω", "syngrafo"),
        ("σφίγξ", "sfinx"),
        ("συγχύζω", "synchyzo"),
        ("γκρινιάζουν", "gkriniazoun"),
        ("ψάχνουμε", "psachnoume"),
        ("γάιδαρος", "gaidaros"),
        ("word", None),
    ],
)
def test_greek_in_latin_letters(greek, latin):
    if latin is None:
        with pytest.raises(ValueError, match="'w' is not a small Greek letter"):
            transliterated(greek)
    else:
        assert transliterated(greek) == latin


def test_a_prefix_adapts_to_the_stem():
    stems = ("γράφ", "μέν", "λάμπ", "ζήλ", "τάσσ")
    words = [with_prefix("συν", stem) for stem in stems]
    assert words == ["συγγράφ", "συμμέν", "συλλάμπ", "συζήλ", "συντάσσ"]
    assert with_prefix("υπο", "γράφ") == "υπογράφ"


def test_words_of_dates():
    assert [ordinal(number) for number in (1, 3, 12, 20, 22, 30)] == [
        *("first", "third", "twelfth", "twentieth", "twenty-second", "thirtieth")
    ]
    assert [year(number) for number in (1900, 1905, 1995, 2000, 2005, 2024)] == [
        *("nineteen hundred", "nineteen oh five", "nineteen ninety-five", "two thousand"),
        *("two thousand and five", "twenty twenty-four"),
    ]
    assert [time(*each) for each in ((0, 0), (14, 30), (23, 45), (9, 15), (12, 55), (7, 5))] == [
        *("twelve o'clock", "half past two", "a quarter to twelve", "a quarter past nine"),
        *("five to one", "five past seven"),
    ]


@pytest.mark.parametrize("make", [transliterations, spoken_dates, requests, readings, forms])
def test_examples_are_distinct_and_depend_on_the_seed_only(make):
    pairs = make(300, 7)
    assert len({pair.source for pair in pairs}) == 300
    assert pairs == make(300, 7) != make(300, 8)
    with pytest.raises(UserError, match=r"^0 "):
        make(0, 7)


@pytest.mark.parametrize(
    ("noun", "singular", "plural"),
    [
        ("bazon", "bazon bazonam bazonun bazonna", "bazonok bazonogam bazonogun bazonost"),
        ("pevit", "pevit pevidem pevidin pevitne", "pevidek pevidegem pevidegin pevidest"),
        ("rat", "rat radam radun ratna", "reus reusam reusun reusna"),
    ],
)
def test_forms_depend_on_the_noun_and_its_features(noun, singular, plural):
    for number, expected in (("singular", singular), ("plural", plural)):
        assert [inflected(noun, case, number) for case in CASES] == expected.split()


def test_forms_need_their_features_and_most_nouns_are_copied():
    pairs = forms(2000)
    nouns = Counter(pair.source.split("\t")[0] for pair in pairs)
    unseen = [noun for noun, count in nouns.items() if count == 1]
    assert len(unseen) > 0.85 * len(pairs)
    assert all(nouns[noun] > 3 for noun in IRREGULAR)
    for noun in [*unseen[:50], *IRREGULAR]:
        assert len({inflected(noun, case, number) for case in CASES for number in NUMBERS}) == 8
    for pair in pairs:
        noun, case, number = pair.source.split("\t")
        assert pair.target == inflected(noun, case, number)
        assert noun in IRREGULAR or pair.target.startswith(noun[:-1])
    counts = Counter(pair.source.split("\t", 1)[1] for pair in pairs)
    assert len(counts) == 8
    assert min(counts.values()) > 200


def test_impossible_sizes_are_errors():
    with pytest.raises(UserError, match="100,001 forms: expected 1 to 100,000"):
        forms(100_001)
    with pytest.raises(UserError, match=f"expected 1 to {len(greek_words()):,}"):
        transliterations(100_000)
    with pytest.raises(UserError, match="expected 1 to 4,344"):
        requests(5000)


def test_intents_are_equally_frequent():
    counts = Counter(pair.target for pair in requests(600))
    assert counts == dict.fromkeys(REQUESTS, 100)


def test_the_target_of_readings_is_the_highest():
    for pair in readings(50):
        assert float(pair.target) == max(map(float, pair.source.split()))


COLUMNS = {
    "letters": ("word", "transliteration"),
    "words": ("1", "2"),
    "labels": ("text", "intent"),
    "values": ("readings", "highest"),
    "inflection": ("lemma", "form"),
}
FEATURES = {"inflection": TableSettings(feature_columns=("case", "number"))}
RECIPES = {"inflection": "letters"}


@pytest.mark.parametrize("name", get_args(ExampleTable))
def test_an_example_file_is_recognised_as_data_of_its_recipe(tmp_path, name):
    file = example_file(name, 200, 1)
    assert file.num_examples == 200
    path = tmp_path / f"{name}{file.suffix}"
    path.write_text(file.text(), encoding="utf8")
    inspection = inspect(path, FEATURES.get(name))
    roles, recipe = inspection.roles, RECIPES.get(name, name)
    assert roles.recipe == recipe
    assert (inspection.column(roles.source), inspection.column(roles.target)) == COLUMNS[name]
    path = tmp_path / f"{name}.tsv"
    path.write_text(file.text("\t"), encoding="utf8")
    assert inspect(path, FEATURES.get(name)).roles.recipe == recipe


def test_every_example_is_listed_and_can_be_written():
    assert {*EXAMPLES} == {*get_args(Example)} <= {*get_args(Dataset)}
