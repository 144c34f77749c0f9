"""Slices: planted weaknesses are found, random ones are not, and p values equal exact ones."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from regard.metrics import slices
from regard.metrics.slices import Feature, crossing_links, find_slices, holm, text_scores

NUM = 240


def planted(weak: np.ndarray) -> list[float]:
    """Return scores of a fake model that is wrong on the weak outputs only, with some noise."""
    noise = np.random.default_rng(3).normal(0, 10, len(weak))
    return (80 - 30 * weak + noise).tolist()


def features() -> dict[str, Feature]:
    generator = np.random.default_rng(5)
    return {
        "length": Feature("sources of {} tokens", generator.integers(1, 40, NUM).tolist()),
        "rank": Feature("words of rank {}", generator.integers(0, 9000, NUM).tolist()),
        "crossing": Feature("outputs with {} % of links", generator.uniform(0, 60, NUM).tolist()),
        "shapes": Feature("scenes of {} shapes", generator.integers(1, 4, NUM).tolist()),
        "label": Feature("label {}", generator.choice(["a", "b", "c"], NUM).tolist()),
    }


@pytest.mark.parametrize(
    ("name", "is_weak", "expected"),
    [
        ("length", lambda value: value > 27, "sources of 28 to 39 tokens"),
        ("rank", lambda value: value > 6000, "words of rank "),
        ("crossing", lambda value: value > 40, "outputs with "),
        ("shapes", lambda value: value == 3, "scenes of 3 shapes"),
        ("label", lambda value: value == "b", "label b"),
    ],
)
def test_planted_weaknesses_are_found(name, is_weak, expected):
    every = features()
    weak = np.array([is_weak(value) for value in every[name].values])
    result = find_slices(planted(weak), list(every.values()), "chrF")
    assert result[0].name.startswith(expected)
    assert result[0].score < result[0].others - 20
    assert result[0].p < 0.01
    assert str(result[0]).startswith(f"worse on {expected}")
    assert all(each.name.startswith(expected.split(" ")[0]) for each in result)


def test_random_features_are_rarely_reported():
    generator = np.random.default_rng(11)
    num_reported = 0
    for seed in range(200):
        scores = generator.normal(size=90).tolist()
        random = [
            Feature("a {}", generator.integers(0, 2, 90).tolist()),
            Feature("b {}", generator.uniform(size=90).tolist()),
        ]
        num_reported += bool(find_slices(scores, random, "score", num_permutations=500, seed=seed))
    assert num_reported <= 2


def test_p_values_equal_those_of_all_choices_of_outputs(monkeypatch):
    monkeypatch.setattr(slices, "MIN_OUTPUTS", 1)
    monkeypatch.setattr(slices, "MAX_P", 1.1)
    scores = [3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0, 5.0]
    inside = (1, 3, 6)
    feature = Feature("{}", ["in" if place in inside else "out" for place in range(8)])
    (result,) = find_slices(scores, [feature], "score")
    sums = [sum(scores[place] for place in chosen) for chosen in combinations(range(8), 3)]
    exact = np.mean([total <= sum(scores[place] for place in inside) for total in sums])
    # the slice "out" is better; of two slices, the p value of the worse one is doubled
    assert result.p == pytest.approx(min(2 * exact, 1), abs=0.03)
    assert (result.name, result.num) == ("in", 3)


def test_p_values_are_corrected_for_their_number():
    corrected = holm(np.array([0.01, 0.04, 0.03, 0.005]))
    assert corrected.tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1, 1]


def test_small_slices_and_unknown_values_are_left_out():
    weak = np.arange(100) < 29
    feature = Feature("{}", weak.astype(int).tolist())
    assert find_slices(planted(weak), [feature], "chrF") == ()
    weak = np.arange(100) < 40
    values = [None if place >= 80 else float(weak[place]) for place in range(100)]
    (result,) = find_slices(planted(weak), [Feature("{}", values)], "chrF")
    others = planted(weak)[40:80]
    assert (result.num, result.others) == (40, pytest.approx(np.mean(others)))
    assert find_slices([1.0] * 5, [Feature("{}", [float("nan")] * 5)], "chrF") == ()
    with pytest.raises(ValueError, match="expected 3, got 2"):
        find_slices([1.0, 2.0, 3.0], [Feature("{}", [1, 2])], "chrF")


@pytest.mark.parametrize("num", [0, 1, 2])
@pytest.mark.parametrize("value", [3, 2.5, "a", None, float("nan")])
def test_few_outputs_have_no_slices(num, value):
    assert find_slices([50.0] * num, [Feature("outputs of {}", [value] * num)], "chrF") == ()


def test_equal_scores_have_no_slices():
    assert find_slices([50.0] * NUM, list(features().values()), "chrF") == ()


@pytest.mark.parametrize(
    ("positions", "percentage"),
    [([0, 1, 2, 3], 0), ([3, 2, 1, 0], 100), ([1, 0, 2], 100 / 3), ([2, 2, 2], 0)],
)
def test_crossing_links_are_inversions(positions, percentage):
    assert crossing_links(positions) == pytest.approx(percentage)


def test_one_piece_has_no_links_that_cross():
    assert np.isnan(crossing_links([4]))


def test_texts_are_scored_one_by_one():
    texts, references = ["a b", "c d", ""], [["x", " a  b"], ["c e"], ["e"]]
    assert text_scores(texts, references, exact=True) == [100, 0, 0]
    first, second, third = text_scores(texts, references, exact=False)
    assert first == 100 > second > third == 0
