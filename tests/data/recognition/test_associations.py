"""Associations between columns."""

from __future__ import annotations

import random

import pytest

from regard.data.recognition.associations import predictability, translation_score

DRAW = random.Random(5)
WORDS = ["".join(DRAW.choices("abcdefgh", k=DRAW.randint(2, 12))) for _ in range(200)]
TEXTS = [f"the {DRAW.choice(['dog', 'cat'])} and {word}" for word in WORDS]


@pytest.mark.parametrize(
    ("targets", "has_numbers", "low", "high"),
    [
        (["d" if "dog" in text else "c" for text in TEXTS], False, 1, 1),
        ([DRAW.choice("abc") for _ in TEXTS], False, 0, 0.1),
        (["x" if n % 20 else "y" for n, _ in enumerate(TEXTS)], False, 0, 0),
        ([str(9 * ("dog" in text) + DRAW.random()) for text in TEXTS], True, 0.7, 1),
        ([str(DRAW.random()) for _ in TEXTS], True, 0, 0.05),
        ([""] * len(TEXTS), False, 0, 0),
        (["a"] * len(TEXTS), False, 0, 0),
        (["3"] * len(TEXTS), True, 0, 0.05),
    ],
)
def test_words_predict_a_target(targets, has_numbers, low, high):
    assert low <= predictability(TEXTS, targets, has_numbers=has_numbers) <= high


def test_order_and_number_of_rows_do_not_decide():
    labels = ["d" if "dog" in text else "c" for text in TEXTS]
    pairs = sorted(zip(TEXTS, labels, strict=True), key=lambda pair: pair[1]) * 5
    texts, labels = zip(*pairs, strict=True)
    assert predictability(texts, labels, has_numbers=False) == 1


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ([word[::-1] + "en" for word in WORDS], 2),
        ([" ".join(word) for word in WORDS], 2),
        (["π" * DRAW.randint(1, 30) for _ in WORDS], 1),
        (["b" * DRAW.randint(3, 10) for _ in WORDS], 0),
        ([word * 3 for word in WORDS], 0),
        (["π" * 3 * len(word) for word in WORDS], 2),
        (["bbb"] * len(WORDS), 0),
        ([""] * len(WORDS), 0),
    ],
)
def test_translations_have_correlated_lengths_or_another_script(targets, expected):
    assert translation_score(WORDS, targets) == expected
