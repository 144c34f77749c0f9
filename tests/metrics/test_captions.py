"""Scores of captions, against their formulas counted by hand."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.captions import CiderD, bleu, cider_d, rouge_l, score_captions, words
from tests.messages import raises

HYPOTHESES = ["A dog runs.", "two cats", "the red car is here"]
REFERENCES = [
    ["a dog runs fast", "the dog is running"],
    ["two cats sleep", "cats"],
    ["a red car", "the red car is parked here"],
]


def test_words_are_lower_cased_and_without_punctuation():
    assert words("A dog's  Ball, 2 (big)!") == ["a", "dog's", "ball", "2", "big"]
    assert words("a T-shirt that won't_fit") == ["a", "t", "shirt", "that", "won't_fit"]


@pytest.mark.parametrize(
    "word",
    [
        "\u0939\u093f\u0928\u094d\u0926\u0940",  # Hindi: hindi, with vowel signs and a virama
        "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48",  # Thai: here, with vowels and tones
        "\u0643\u064e\u0644\u0652\u0628\u064c",  # Arabic: dog, with vowel marks
        "cafe\u0301s",  # French: cafés, with a decomposed é
        "\u0645\u06cc\u200c\u0631\u0648\u062f",  # Persian: goes, with a zero-width non-joiner
        "\u0d36\u0d4d\u0d30\u0d40",  # Malayalam: a conjunct with a vowel sign
        "\u0dc1\u0dca\u200d\u0dbb\u0dd3",  # Sinhala: a conjunct with a zero-width joiner
        "\u09b0\u200d\u09cd\u09af\u09be\u09ac",  # Bengali: a mark after a zero-width joiner
    ],
)
def test_a_word_contains_its_combining_marks(word):
    assert words(word) == [word]
    assert words(f"a {word}, ({word})!") == ["a", word, word]


def test_captions_that_differ_in_vowel_signs_have_different_words():
    heart, lentils = "\u0926\u093f\u0932", "\u0926\u093e\u0932"
    assert words(heart) != words(lentils)
    assert bleu([heart], [[lentils]], 1).value == 0
    assert rouge_l([heart], [[lentils]]).value == 0
    assert bleu([heart], [[heart]], 1).value == pytest.approx(100)


def test_marks_and_joiners_are_no_words():
    """A combining mark alone, the selector of an emoji and the joiners between emoji."""
    assert words("a \u0301 b \u200d c\u200c") == ["a", "b", "c"]
    assert words("2\ufe0f\u20e3 dogs \u2764\ufe0f \U0001f469\u200d\U0001f680") == ["2", "dogs"]
    assert words("\u2139\ufe0f info") == ["\u2139", "info"]


LETTERS = st.characters(exclude_categories=["Mn", "Mc", "Cs"], exclude_characters="\u200c\u200dİ")
"""Characters but marks and joiners; lower case adds a mark to the last one."""


@given(st.text(LETTERS | st.sampled_from("aé1_'’ -")))
def test_words_without_marks_are_runs_of_letters_digits_and_underscores(text):
    assert words(text) == re.findall(r"\w+(?:['’]\w+)*", text.lower())


def test_bleu_of_each_order():
    """Modified precisions and the brevity penalty of Papineni et al. 2002, counted out."""

    def grams(text, size):
        result = words(text)
        return Counter(tuple(result[n : n + size]) for n in range(len(result) - size + 1))

    for order in (1, 2):
        logs = 0.0
        for size in range(1, order + 1):
            right = total = 0
            for hypothesis, several in zip(HYPOTHESES, REFERENCES, strict=True):
                ours = grams(hypothesis, size)
                most = Counter()
                for each in several:
                    most |= grams(each, size)
                right += sum((ours & most).values())
                total += sum(ours.values())
            logs += math.log(right / total) / order
        length = sum(len(words(each)) for each in HYPOTHESES)
        nearest = 4 + 1 + 6  # of equally near ones the shorter
        brevity = min(0.0, 1 - nearest / length)
        assert bleu(HYPOTHESES, REFERENCES, order).value == pytest.approx(
            100 * math.exp(logs + brevity)
        )


def longest_common(one, other):
    """By trying every subsequence."""
    for size in range(len(one), 0, -1):
        wanted = set(combinations(one, size))
        if wanted & set(combinations(other, size)):
            return size
    return 0


def test_rouge_l_takes_the_best_precision_and_recall():
    expected = 0.0
    for hypothesis, several in zip(HYPOTHESES, REFERENCES, strict=True):
        ours = words(hypothesis)
        common = [longest_common(ours, words(each)) for each in several]
        precision = max(count / len(ours) for count in common)
        recall = max(count / len(words(each)) for count, each in zip(common, several, strict=True))
        expected += (1 + 1.44) * precision * recall / (recall + 1.44 * precision)
    assert rouge_l(HYPOTHESES, REFERENCES).value == pytest.approx(100 * expected / 3)


def test_cider_d_by_hand():
    """Two pictures, one reference each, of one word: all else than unigrams is zero."""
    value = cider_d(["dog dog", "cat"], [["dog"], ["cat"]]).value
    telling = math.log(2)
    clipped = min(2 * telling, telling) * telling / (2 * telling * telling)
    first = clipped * math.exp(-1 / (2 * 36)) / 4
    assert value == pytest.approx(1000 * (first + 1 / 4) / 2)


def cut(text, size):
    """Every n-gram of this size, repeated ones repeated."""
    result = text.split()
    return [tuple(result[n : n + size]) for n in range(len(result) - size + 1)]


def telling(gram, references):
    """The logarithm of how many pictures there are for each that has this n-gram."""
    having = 0
    for several in references:
        having += any(gram in cut(each, len(gram)) for each in several)
    return math.log(len(references)) - math.log(max(having, 1))


def plain_cider_d(hypotheses, references):
    """Equations 1 to 4 of Vedantam et al. 2015, and of section 6 the clipping, the Gaussian and the
    factor of ten, one loop a sum."""
    total = 0.0
    for hypothesis, several in zip(hypotheses, references, strict=True):
        for size in (1, 2, 3, 4):
            for reference in several:
                ours, theirs = cut(hypothesis, size), cut(reference, size)
                dot = our_square = their_square = 0.0
                for gram in sorted({*ours, *theirs}):
                    weight = telling(gram, references)
                    one, other = ours.count(gram) * weight, theirs.count(gram) * weight
                    dot += min(one, other) * other
                    our_square += one * one
                    their_square += other * other
                if our_square and their_square:
                    longer = len(hypothesis.split()) - len(reference.split())
                    near = math.exp(-(longer**2) / (2 * 6**2))
                    alike = near * dot / math.sqrt(our_square * their_square)
                    total += 10 * alike / (4 * len(several) * len(hypotheses))
    return total


def test_cider_d_equals_plain_loops():
    """Captions that repeat words, share n-grams of up to four and differ in length, one to three
    references each, and one that has nothing right."""
    hypotheses = [
        "a dog dog dog runs on the long sandy beach",
        "two cats sleep on the sofa",
        "the red car is parked here and there and here",
        "nobody",
        "a man on the beach with a dog on the beach",
    ]
    references = [
        ["a dog runs on the long sandy beach today", "the dog is running", "a dog"],
        ["two cats sleep on the sofa"],
        ["the red car is parked here", "a red car and a blue car"],
        ["two men play a game of chess on the grass"],
        ["a man with a dog on the beach", "on the beach a man", "a man on the beach"],
    ]
    result = cider_d(hypotheses, references)
    assert result.value == pytest.approx(100 * plain_cider_d(hypotheses, references))
    assert 50 < result.value < 1000
    assert result.signature == "nrefs:var|words:lc,nopunct"


def test_a_perfect_caption_scores_ten_and_words_of_every_image_score_zero():
    texts = ["one two three four five", "six seven eight nine ten"]
    assert cider_d(texts, [[each] for each in texts]).value == pytest.approx(1000)
    same = ["one two three four five"] * 2
    assert cider_d(same, [[each] for each in same]).value == 0


def test_all_caption_scores_are_returned():
    names = [score.name for score in score_captions(HYPOTHESES, REFERENCES)]
    assert names == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr-D"]


@pytest.mark.parametrize("score", [score_captions, bleu, rouge_l, cider_d])
def test_captions_without_a_list_of_references_are_rejected(score):
    for references in (["a dog"], [[]]):
        with raises(ValueError, "references[0]"):
            score(["a dog"], references)
    with raises(ValueError, "references"):
        score(["a dog"], [])
    with pytest.raises(ValueError, match=r"^hypotheses: expected at least one text"):
        score([], [])


@pytest.mark.parametrize("references", [[], "a dog"])
def test_one_caption_without_a_list_of_references_is_rejected(references):
    scorer = CiderD([["a dog"], ["a cat"]])
    with raises(ValueError, "references"):
        scorer.score("a dog", references)


def test_one_caption_is_scored_with_the_frequencies_of_all():
    references = [["a red circle", "the red circle"], ["a blue square"], ["a dog runs"]]
    hypotheses = ["a red circle", "a red square", "a dog"]
    scorer = CiderD(references)
    scores = [scorer.score(text, own) for text, own in zip(hypotheses, references, strict=True)]
    assert 100 * sum(scores) / 3 == pytest.approx(cider_d(hypotheses, references).value)
    longer = [["a dog runs fast"], ["two red cats sit"]]
    assert CiderD(longer).score("a dog runs fast", ["a dog runs fast"]) == pytest.approx(10)
