"""Word and character error rates, against counting by hand and against all ways of editing."""

from __future__ import annotations

import itertools

import pytest

from regard.metrics.error_rates import character_error_rate, distance, word_error_rate


def every_way(first, second):
    """Levenshtein's distance as its recursion says it, without a table."""
    if not first or not second:
        return len(first) + len(second)
    substituted = every_way(first[1:], second[1:]) + (first[0] != second[0])
    return min(substituted, every_way(first[1:], second) + 1, every_way(first, second[1:]) + 1)


def test_the_edit_distance_is_minimal():
    words = ["", *map("".join, itertools.product("ab", repeat=3)), "abba", "babab"]
    for one, other in itertools.product(words, words):
        assert distance(one, other) == every_way(one, other)


def test_rates_are_over_the_whole_corpus():
    hypotheses, references = ["a b c", "x"], [["a c"], ["x y z"]]
    assert word_error_rate(hypotheses, references).value == pytest.approx(100 * 3 / 5)
    assert character_error_rate(["ab  c"], [["ab d"]]).value == 25
    assert word_error_rate(["A b"], [["a b"]], lowercase=True).value == 0


def test_the_nearest_reference_counts():
    assert word_error_rate(["a b"], [["x y z w", "a c"]]).value == 50
    assert word_error_rate(["a b c d"], [["b"]]).value == 300


def test_the_reference_with_the_lowest_rate_counts():
    """1 edit for 1 word is 100, 4 edits for 6 words are 67: the second reference counts."""
    score = word_error_rate(["a b"], [["a", "a b c d e f"]])
    assert score.value == pytest.approx(100 * 4 / 6)
    score = character_error_rate(["ab"], [["a", "abcdef"]])
    assert score.value == pytest.approx(100 * 4 / 6)
    both = word_error_rate(["a b", "x"], [["a", "a b c d e f"], ["x"]])
    assert both.value == pytest.approx(100 * 4 / 7)  # edits and words of the same reference
