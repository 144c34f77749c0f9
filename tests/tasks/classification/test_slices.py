"""Slices of a classifier: labels and lengths."""

from __future__ import annotations

import pytest

from regard.tasks.classification.evaluation import worse_slices
from regard.tasks.evaluation import ScoredOutput
from tests.messages import check_message


def outputs(is_wrong):
    """Return outputs of a model with three labels and sources of one to eight words."""
    examples = [("word " * (1 + number % 8), "abc"[number % 3]) for number in range(240)]
    return [
        ScoredOutput(source, "x" if is_wrong(source, label) else label, (label,))
        for source, label in examples
    ]


def test_a_label_that_is_often_wrong_is_a_slice():
    (worse,) = worse_slices(outputs(lambda source, label: label == "b"), "text")
    check_message(str(worse))


@pytest.mark.parametrize(("kind", "noun"), [("text", "words"), ("series", "positions")])
def test_long_sources_that_are_often_wrong_are_a_slice(kind, noun):
    (worse,) = worse_slices(outputs(lambda source, label: len(source.split()) > 6), kind)
    assert worse.name == f"sources of 7 to 8 {noun}"


def test_items_have_no_slices_of_length():
    wrong = outputs(lambda source, label: len(source.split()) > 6)
    assert worse_slices(wrong, "items") == ()
