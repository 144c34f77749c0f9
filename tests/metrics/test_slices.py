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


def unknown(values: np.ndarray, num: int) -> list[float]:
    """Return values of the first outputs, and NaN for further `num` outputs."""
    return [*values.astype(float), *[float("nan")] * num]


def reports_random_features(kind: str, generator: np.random.Generator) -> bool:
    """Return whether a slice is reported for random features. Of the kind "unknown", most outputs
    have better scores and no features."""
    groups, numbers = generator.integers(0, 2, 90), generator.uniform(size=90)
    scores = generator.normal(size=90)
    if kind != "continuous":
        scores = 100.0 * (scores > 0)
    num = 360 if kind == "unknown" else 0
    better = 100.0 * (generator.uniform(size=num) < 0.99)
    features = [Feature("a {}", unknown(groups, num)), Feature("b {}", unknown(numbers, num))]
    return bool(find_slices([*scores, *better], features, "score"))


@pytest.mark.parametrize("kind", ["continuous", "right or wrong", "unknown"])
def test_random_features_are_rarely_reported(kind):
    generator = np.random.default_rng(11)
    assert sum(reports_random_features(kind, generator) for _ in range(400)) <= 8


@pytest.mark.parametrize(
    "scores", [[3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0, 5.0], [9.0, 0.0, 9.0, 0.0, 0.0, 9.0, 0.0, 9.0]]
)
@pytest.mark.parametrize("num_unknown", [0, 5])
def test_p_values_equal_those_of_all_choices_of_outputs(monkeypatch, scores, num_unknown):
    monkeypatch.setattr(slices, "MIN_OUTPUTS", 1)
    monkeypatch.setattr(slices, "MAX_P", 1.1)
    monkeypatch.setattr(slices, "NUM_AS_LOW", 3000)
    inside = (1, 3, 6)
    values = ["in" if place in inside else "out" for place in range(8)]
    feature = Feature("{}", [*values, *[None] * num_unknown])
    (result,) = find_slices([*scores, *[1000.0] * num_unknown], [feature], "score")
    sums = [sum(scores[place] for place in chosen) for chosen in combinations(range(8), 3)]
    exact = np.mean([total <= sum(scores[place] for place in inside) for total in sums])
    # the slice "out" is better; of two slices, the p value of the worse one is doubled
    assert result.p == pytest.approx(min(2 * exact, 1), rel=0.1)
    assert (result.name, result.num) == ("in", 3)


def test_scores_of_outputs_with_an_unknown_value_do_not_change_p():
    is_right = np.random.default_rng(2).uniform(size=1000) < 0.5
    values = np.tile([0, 1], 500) | ~is_right & (np.arange(1000) < 350)  # slice 1 is worse
    (alone,) = find_slices(
        (100.0 * is_right).tolist(), [Feature("{}", values.tolist())], "exact match"
    )
    scores = [*100.0 * is_right, *[100.0] * 4000]
    (result,) = find_slices(scores, [Feature("{}", unknown(values, 4000))], "exact match")
    assert (result.num, result.score, result.p) == (alone.num, alone.score, alone.p)


@pytest.mark.parametrize("is_exact", [True, False])
def test_one_of_150_labels_is_reported(is_exact):
    labels = np.repeat(np.arange(150), 30)
    scores = 100.0 * (labels != 7)
    if not is_exact:
        scores += np.random.default_rng(4).uniform(0, 10, len(labels))
    feature = Feature("label {}", [f"{n}" for n in labels])
    (worse,) = find_slices(scores.tolist(), [feature], "accuracy")
    assert (worse.name, worse.num) == ("label 7", 30)
    assert worse.p < 0.001


def test_many_outputs_take_no_more_draws_than_few(monkeypatch):
    sizes, draw = [], slices._random_p_value

    def watched(inside, known, *arguments):
        sizes.append(len(known))
        return draw(inside, known, *arguments)

    monkeypatch.setattr(slices, "_random_p_value", watched)
    generator = np.random.default_rng(6)
    lengths = generator.integers(1, 60, 25_000)
    scores = (70 - lengths / 2 + generator.normal(0, 20, len(lengths))).tolist()
    values = [lengths + generator.integers(0, spread, len(lengths)) for spread in (1, 20, 60, 500)]
    every = [Feature(f"{n}: {{}}", column.tolist()) for n, column in enumerate(values)]
    calls = []
    result = find_slices(scores, every, "chrF", on_progress=lambda *call: calls.append(call))
    assert max(sizes) <= slices.MAX_LEVELS < len(scores)
    assert len(result) == 4
    assert calls == [("testing slices", number, 12) for number in range(12)]
    assert result == find_slices(scores, every, "chrF")


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
