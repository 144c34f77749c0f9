"""Significance tests: sacrebleu's own, loops over samples, and all permutations of a few items."""

from itertools import product

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from regard.metrics.significance import SEED, compare_texts, compare_values

RANDOM = np.random.default_rng(3)
REFERENCES = [f"das ist der satz mit der nummer {number}" for number in range(40)]
FIRST = [text if RANDOM.random() < 0.8 else "falsch" for text in REFERENCES]
SECOND = [text if RANDOM.random() < 0.5 else "ganz falsch" for text in REFERENCES]


def test_texts_have_the_results_of_sacrebleu():
    references = [[text] for text in REFERENCES]
    bleu, chrf, ter = compare_texts({"a": FIRST, "b": SECOND}, references, 100)
    named = [("a", FIRST), ("b", SECOND)]
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF(), "TER": TER(case_sensitive=True)}
    for kind, p_value in (("bs", "p_bootstrap"), ("ar", "p_randomisation")):
        test = PairedTest(named, metrics, [REFERENCES], test_type=kind, n_samples=100)
        for ours, name in ((bleu, "BLEU"), (chrf, "chrF2"), (ter, "TER")):
            baseline, system = test()[1][name]
            assert getattr(ours, p_value) == pytest.approx(system.p_value)
            assert (ours.baseline_score, ours.score) == (baseline.score, system.score)
            if kind == "bs":
                assert ours.margin == pytest.approx(system.ci, rel=1e-5)
    assert (bleu.system, bleu.metric, chrf.metric) == ("b", "BLEU", "chrF")
    assert bleu.difference < 0
    assert bleu.p_randomisation < 0.05


def test_several_references_may_differ_in_number():
    references = [
        [text, "falsch"] if place % 2 else [text] for place, text in enumerate(REFERENCES)
    ]
    bleu, *_ = compare_texts({"a": REFERENCES, "b": REFERENCES}, references, 20)
    assert (bleu.baseline_score, bleu.score) == (pytest.approx(100), pytest.approx(100))
    assert bleu.p_bootstrap > 0.04


def test_values_agree_with_a_loop_over_samples():
    first, second = RANDOM.random(23), RANDOM.random(23) + 0.2
    (result,) = compare_values("error", {"a": first, "b": second}, 200)
    drawn = np.random.default_rng(SEED).choice(23, size=(200, 23), replace=True)
    observed = abs(second.mean() - first.mean())
    differences = [abs(second[row].mean() - first[row].mean()) for row in drawn]
    above = sum(d - np.mean(differences) > observed for d in differences)
    assert result.p_bootstrap == pytest.approx((above + 1) / 201)
    assert result.difference == pytest.approx(second.mean() - first.mean())
    ordered = np.sort([second[row].mean() for row in drawn])
    assert result.margin == pytest.approx((ordered[-5] - ordered[4]) / 2, rel=0.1)


def test_randomisation_agrees_with_all_permutations():
    first, second = np.array([3.0, 1, 4, 1, 5, 9, 2, 6]), np.array([2.0, 1, 1, 0, 5, 7, 3, 3])
    observed = abs((second - first).mean())
    differences = [
        abs((np.array(signs) * (second - first)).mean()) for signs in product((1, -1), repeat=8)
    ]
    exact = np.mean([difference >= observed - 1e-9 for difference in differences])
    (result,) = compare_values("x", {"a": first, "b": second}, 20_000)
    assert result.p_randomisation == pytest.approx(exact, abs=0.01)


def test_equal_systems_do_not_differ_significantly():
    texts = compare_texts({"a": FIRST, "b": FIRST}, [[text] for text in REFERENCES], 100)
    (match,) = compare_values("x", {"a": np.ones(9), "b": np.ones(9)}, 100)
    first, second = np.array([1.0, 0, 0, 1, 1]), np.array([0.0, 1, 1, 1, 0])
    (balanced,) = compare_values("x", {"a": first, "b": second}, 100)
    for test in (*texts, match, balanced):
        assert test.p_randomisation == test.p_bootstrap == 1


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_few_different_outputs_have_the_p_value_of_the_exact_test(number):
    """All differences have one sign, so 2 of 2^k exchanges reach the observed difference."""
    worse = ["falsch"] * number + REFERENCES[number:]
    texts = compare_texts({"a": REFERENCES, "b": worse}, [[text] for text in REFERENCES], 1000)
    right = np.array([text == reference for text, reference in zip(worse, REFERENCES, strict=True)])
    (match,) = compare_values("x", {"a": np.ones(40), "b": right.astype(float)}, 1000)
    for test in texts:
        assert test.p_randomisation == 2 / 2**number
    assert match.p_randomisation == pytest.approx(2 / 2**number, abs=0.05)
    assert match.p_bootstrap > 0.01


@pytest.mark.parametrize("values", [{"a": [], "b": []}, {"a": [1.0], "b": [1.0, 2.0]}])
def test_other_numbers_of_items_are_rejected(values):
    with pytest.raises(ValueError, match="expected equal numbers of items"):
        compare_values("x", {name: np.array(each) for name, each in values.items()})
