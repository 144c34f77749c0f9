"""Scores against values worked out by hand from the papers' formulas."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.metric import MetricScore
from regard.metrics.text import (
    TEXT_METRICS,
    bleu,
    chrf,
    exact_match,
    gleu_words,
    score_texts,
    sentence_gleu,
    ter,
)


def test_bleu_is_the_geometric_mean_of_four_precisions() -> None:
    score = bleu(["a b c d e"], [["a b c d f"]])
    assert score.value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4))
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_bleu_counts_over_the_corpus_and_punishes_brevity() -> None:
    hypotheses, references = ["a b c d e", "v w x y"], [["a b c d f"], ["v w x y z z"]]
    precisions = 8 / 9 * 6 / 7 * 4 / 5 * 2 / 3
    brevity = math.exp(1 - 11 / 9)
    assert bleu(hypotheses, references).value == pytest.approx(
        100 * brevity * precisions ** (1 / 4)
    )


def test_bleu_clips_counts_to_the_largest_reference_count() -> None:
    """Example 2 of Papineni et al. 2002: of seven times "the", two count."""
    from sacrebleu.metrics.bleu import BLEU

    references = ["the cat is on the mat", "there is a cat on the mat"]
    ours = bleu(["the the the the the the the"], [references])
    theirs = BLEU(force=True).corpus_score(
        ["the the the the the the the"], [[r] for r in references]
    )
    assert ours.value == theirs.score
    assert theirs.counts[0] == 2


def test_pairs_may_have_different_numbers_of_references() -> None:
    hypotheses = ["a b c d", "e f g h"]
    score = bleu(hypotheses, [["x", "a b c d", "y"], ["e f g h"]])
    assert score.value == pytest.approx(100)
    assert score.signature.startswith("nrefs:var|")
    assert exact_match(hypotheses, [["x"], ["y", "z"]]).signature.startswith("nrefs:var|")
    assert exact_match(hypotheses, [["x", "a b c d", "y"], ["e f g"]]).value == 50


def test_punctuation_is_split_off_unless_texts_are_tokenized() -> None:
    assert bleu(["a b c d ."], [["a b c d."]]).value == pytest.approx(100)
    tokenized = bleu(["a b c d ."], [["a b c d."]], tokenized=True)
    assert tokenized.value < 90
    assert "|tok:none|" in tokenized.signature


def test_case_counts_unless_lowercase_is_set() -> None:
    for score in score_texts(["A B C D e"], [["a b c d E"]]):
        assert "case:mixed" in score.signature
        assert (score.value == 0) == (score.name != "TER")
    for score in score_texts(["A B C D e"], [["a b c d E"]], lowercase=True):
        assert "case:lc" in score.signature
        assert score.value == pytest.approx(0 if score.name == "TER" else 100)


def test_chrf_is_the_mean_over_existing_orders() -> None:
    """ "ab" and "ac": half of the single characters agree and none of the pairs."""
    assert chrf(["ab"], [["ac"]]).value == pytest.approx((50 + 0) / 2)


def test_ter_counts_edits_and_a_moved_phrase_once() -> None:
    assert ter(["a b x d"], [["a b c d"]]).value == pytest.approx(25)
    assert ter(["b c d a"], [["a b c d"]]).value == pytest.approx(25)
    assert ter(["a b c d e f"], [["x"]]).value == pytest.approx(600)


def test_exact_match_ignores_spacing_only() -> None:
    score = exact_match([" a  b", "a b.", "ab"], [["a b"]] * 3)
    assert score == MetricScore("exact match", 100 / 3, "nrefs:1|case:mixed|space:one")


def test_scores_have_a_fixed_order() -> None:
    scores = score_texts(["a"], [["a"]])
    assert scores == tuple(metric.compute(["a"], [["a"]]) for metric in TEXT_METRICS)
    assert scores[0].name == "BLEU"


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "at least one text"),
        (["a", "b"], [["a"]], "each of the 2 hypotheses, got 1"),
        (["a", "b"], [["a"], []], r"references\[1\]: .* got \[\]"),
    ],
)
def test_inconsistent_hypotheses_and_references_are_rejected(
    hypotheses: list[str], references: list[list[str]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        score_texts(hypotheses, references)
    for metric in (bleu, chrf, ter, exact_match):
        with pytest.raises(ValueError, match=message):
            metric(hypotheses, references)


def gleu_by_loops(hypothesis, reference):
    """Section 5 of Wu et al. (2016): precision and recall of lists of n-grams, matched one by
    one."""
    sides = [
        [tuple(side[i : i + n]) for n in (1, 2, 3, 4) for i in range(len(side) - n + 1)]
        for side in (hypothesis, reference)
    ]
    outputs, targets = sides
    rest, matches = list(targets), 0
    for gram in outputs:
        if gram in rest:
            rest.remove(gram)
            matches += 1
    return min(matches / len(outputs), matches / len(targets))


def test_gleu_by_hand():
    """2 of the 22 n-grams of the output are matched: 0.0909, as printed in NLTK's manual."""
    hypothesis, reference = ["the"] * 7, ["the", "cat", "is", "on", "the", "mat"]
    assert sentence_gleu(hypothesis, reference) == pytest.approx(2 / 22)
    assert sentence_gleu(reference, reference) == 1
    assert sentence_gleu(["a"], ["b"]) == sentence_gleu([], ["b"]) == sentence_gleu(["a"], []) == 0
    assert sentence_gleu([], []) == 1


@given(words=st.lists(st.sampled_from("abc"), min_size=1, max_size=9), size=st.integers(1, 8))
def test_gleu_is_that_of_loops(words, size):
    hypothesis, reference = words, (words[::-1] + ["a", "b", "c"] * 3)[:size]
    expected = gleu_by_loops(hypothesis, reference)
    assert sentence_gleu(hypothesis, reference) == pytest.approx(expected)
    assert sentence_gleu(reference, hypothesis) == pytest.approx(expected)


def test_words_of_gleu_are_those_of_13a():
    assert gleu_words("Don't, 3.5 cats!") == ["Don't", ",", "3.5", "cats", "!"]
