"""Cells with several labels."""

import random
from collections import Counter
from itertools import product

import pytest

from regard.data.files.cells import cell_text
from regard.data.several_labels import find_several_labels

SINGLE = ["sport", "news", "film"] * 20


@pytest.mark.parametrize(
    "cells",
    [
        ["sport|news", "film|sport"],
        ["sport;news"],
        ["sport, news", "film,news"],
        ["news,sport,film"],
        ["sport/news", "film/news", "news/sport"],
        ["sport news", "film news", "news sport"],
        ["sport & news", "film & news", "news & sport"],
    ],
)
def test_parts_that_are_labels_of_other_rows_are_labels(cells):
    found = find_several_labels(Counter(SINGLE + cells))
    assert found is not None
    assert set(found.cells) == set(cells)
    assert found.names == {"sport", "news", "film"}


@pytest.mark.parametrize("form", ['["{}"]', "['{}']", "[{}]", "<{}>", "('{}',)", "{{'{}'}}"])
def test_lists_are_cells_with_several_labels(form):
    pairs = {'["{}"]': '", "', "['{}']": "', '", "<{}>": "><", "[{}]": ", "}
    several = form.format(f"sport{pairs.get(form, chr(39) + ', ' + chr(39))}news")
    found = find_several_labels(Counter([form.format(label) for label in SINGLE] + [several]))
    assert found is not None
    assert found.cells == {several: ("sport", "news")}


def counts_of(values):
    return Counter(map(cell_text, values))


@pytest.mark.parametrize(
    "values",
    [
        [["sport"], ["news"], ["sport", "news"]],
        [["very good"], ["not so bad", "very good"], []],
        [["sport"], "news", ["film", "news"]],
        [[27], [2], [2, 27]],
        [[[0, 4, "PER"]], [[0, 4, "PER"], [7, 9, "PER"]]],
        [[{"start": 0, "label": "PER"}]],
    ],
)
def test_lists_of_json_are_cells_with_several_labels(values):
    assert find_several_labels(counts_of(values * 20)) is not None


@pytest.mark.parametrize(
    "values",
    [
        [["sport"], ["news"], []],
        [["the", "dog", "saw", "the", "cat"], ["a", "dog"]],
        [[1, 0, 1], [0, 0, 1]],
    ],
)
def test_lists_of_one_label_and_lists_of_words_are_no_several_labels(values):
    assert find_several_labels(counts_of(values * 20)) is None


def test_few_parts_in_many_combinations_are_labels():
    draw, names = random.Random(1), ["Action", "Comedy", "Drama", "Horror", "Sci-Fi"]
    cells = ["|".join(sorted(draw.sample(names, draw.choice([2, 3])))) for _ in range(200)]
    assert find_several_labels(Counter(cells)) is not None


def test_numbers_of_several_labels_have_three_parts_somewhere():
    emotions = ["27", "2", "15", "4", "7"] * 30 + ["2,15", "4,27"] * 5
    assert find_several_labels(Counter(emotions)) is None
    assert find_several_labels(Counter([*emotions, "2,7,15"])) is not None
    assert find_several_labels(Counter(["1", "2", "3"] * 9 + ["1|3", "2|3"])) is not None


@pytest.mark.parametrize(
    "cells",
    [
        ["rock, pop", "jazz"],
        ["rock, pop", "rock, metal", "jazz, blues", "folk"],
        ["rock", "rock, pop", "pop, soul"],
        ["Sports/Football", "Sports/Tennis", "News/World", "News"],
        [f"{aspect}|{mood}" for aspect, mood in product(["food", "staff", "price"], "+-0")],
        ["1,5", "2", "3", "2,5", "5", "1"],
        ["1/2", "1", "2", "3", "3/2", "1/3"],
        ["not sure", "sure", "no"],
        ["red wine", "white wine", "beer", "wine"],
        ["New York", "York", "London"],
        ["C++", "C", "a|", "|"],
        ["[x]", "x", "(y)"],
        ["positive", "very positive", "negative", "very negative"],
        ["[draft]", "[final]"],
        ["e|e", "e"],
    ],
)
def test_labels_with_separators_stay(cells):
    assert find_several_labels(Counter(cells * 20)) is None
