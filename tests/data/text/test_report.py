"""Counts and warnings of the report, on pairs small enough to count by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.data.examples import Corpus, Pair
from regard.data.files.lines import LineProblem
from regard.data.text.parallel import read_pairs
from regard.data.text.report import CheckSettings, Overlap, Report, check
from regard.data.text.tokenizer import TokenizerSettings
from regard.names import TokenizerKind
from tests.messages import check_message


def corpus_of(*sides: tuple[str, str], problems: tuple[LineProblem, ...] = ()) -> Corpus:
    pairs = tuple(Pair(*side, line) for line, side in enumerate(sides, start=1))
    return Corpus(pairs, problems)


def as_words(kind: TokenizerKind, **options: object) -> CheckSettings:
    settings = TokenizerSettings(kind=kind, **options)
    return CheckSettings(settings, settings)


def warned(report: Report, words: str) -> list[str]:
    return [warning for warning in report.warnings if words in warning]


SMALL = corpus_of(("a a b", "x"), ("a a b", "x"), ("a a b", "y"), ("c", "x y z z z"), ("b d", "x"))


def test_lengths_and_repetitions_are_counted() -> None:
    report = check(SMALL)
    assert (report.pairs, report.duplicates, report.sources_with_several_targets) == (5, 1, 1)
    assert (report.source.tokens, report.target.tokens) == (12, 9)
    assert report.source.lengths == (1, 2, 3, 3, 3, 3)
    assert report.target.lengths == (1, 1, 1, 1, 5, 5)


def test_cut_offs_are_counted() -> None:
    """The 12 source tokens are 6 a, 4 b, 1 c and 1 d."""
    cutoffs = {each.min_count: each for each in check(SMALL).source.cutoffs}
    assert {count: each.vocabulary for count, each in cutoffs.items()} == {
        1: 4,
        2: 2,
        3: 2,
        5: 1,
        10: 0,
    }
    assert [cutoffs[count].unknown for count in (1, 2, 5, 10)] == pytest.approx([0, 2 / 12, 0.5, 1])
    assert [cutoffs[count].unknown_in_new for count in (1, 3, 5)] == pytest.approx(
        [2 / 12, 2 / 12, 6 / 12]
    )
    assert cutoffs[1].unknown_in_dev is None


def test_dev_texts_are_compared_with_the_training_vocabulary() -> None:
    dev = corpus_of(("a c e", "x"), ("B", "q"))
    cutoffs = check(SMALL, dev=dev).source.cutoffs
    assert [cutoffs[i].unknown_in_dev for i in (0, 1)] == pytest.approx([2 / 4, 3 / 4])


def test_the_estimate_for_new_texts_holds_on_new_texts() -> None:
    """Words drawn by Zipf's law; the estimate has to be near what other draws show."""
    words = [f"w{i}" for i in range(2000)]
    weights = [1 / (i + 1) for i in range(2000)]
    drawing = random.Random(5)

    def draw(count: int) -> Corpus:
        return corpus_of(
            *((" ".join(drawing.choices(words, weights, k=7)), "x") for _ in range(count))
        )

    for cutoff in check(draw(997), dev=draw(997)).source.cutoffs:
        assert cutoff.unknown_in_dev == pytest.approx(cutoff.unknown_in_new, abs=0.02)


def test_training_sources_in_dev_and_test_are_reported() -> None:
    report = check(SMALL, dev=corpus_of(("C", "x"), ("e", "x")), test=corpus_of(("e", "x")))
    assert report.overlaps == (Overlap("dev", 2, 1), Overlap("test", 1, 0))
    assert warned(report, "1 of 2 dev pairs have a source of the training data")
    assert not warned(report, "test pairs")


def good_pairs(count: int) -> list[tuple[str, str]]:
    drawing = random.Random(3)
    words = [f"{a}{b}" for a in "bdgklm" for b in "aeiou"]
    return [
        (
            " ".join(drawing.choices(words, k=length)),
            " ".join(drawing.choices(words, k=length)).upper(),
        )
        for length in (drawing.randint(1, 19) for _ in range(count))
    ]


def test_good_pairs_give_no_warning() -> None:
    assert check(corpus_of(*good_pairs(1009))).warnings == ()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("same", "same"),
        ("ba " * 201, "DE " * 190),
        ("ba de", "DE" * 70),
        ("ba", "Ã¼ber"),
        ("b\ufffd", "DE"),
    ],
)
def test_bad_pairs_among_good_ones_are_reported(source: str, target: str) -> None:
    report = check(corpus_of(*good_pairs(1009), (source.strip(), target.strip())))
    check_message(*report.warnings)


@pytest.mark.parametrize("text", ["über", "São", "Ça va", "Âge", "naïve Ãrt", "ÄÖÜ", "猫"])
def test_correct_characters_give_no_encoding_warning(text: str) -> None:
    assert not warned(check(corpus_of((text, "x"))), "wrong encoding")


def test_a_side_shifted_by_a_line_is_reported() -> None:
    pairs = good_pairs(1009)
    slipped = [
        (pair[0], other[1]) for pair, other in zip(pairs, pairs[1:] + pairs[:1], strict=True)
    ]
    assert warned(check(corpus_of(*slipped)), "is one side shifted by a line?")


def test_unknown_words_warn_and_subwords_do_not() -> None:
    pairs = [(f"n{line}", f"m{line}") for line in range(1009)]
    assert len(warned(check(corpus_of(*pairs)), "100% of the")) == 2
    assert not warned(check(corpus_of(*pairs), settings=as_words("bpe")), "unknown")
    twice = corpus_of(*pairs, *pairs)
    assert not warned(check(twice), "unknown")
    assert len(warned(check(twice, settings=as_words("words", min_count=2)), "100% of the")) == 2


def test_text_without_spaces_warns() -> None:
    pairs = [("我" * 29 + str(line), "we two") for line in range(13)]
    assert warned(check(corpus_of(*pairs)), "source words have 30 letters on average")
    assert not warned(check(corpus_of(*pairs), settings=as_words("characters")), "letters in")


def test_lines_left_out_and_few_pairs_warn() -> None:
    report = check(corpus_of(("a", "b"), problems=(LineProblem("x.tsv", 2, "blank", ""),)))
    check_message(*report.warnings[:2])
    assert report.left_out == report.warnings[:1]


def test_the_report_prints_as_text() -> None:
    lines = check(SMALL, dev=corpus_of(("c", "x"))).lines()
    check_message(*lines)


def test_no_pairs_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="got no pairs"):
        check(Corpus(()))


def test_counts_of_real_pairs_equal_plain_python(real_data: Path) -> None:
    corpus = read_pairs(real_data / "tatoeba" / "deu.txt", limit=3001)
    settings = as_words("spaces")
    report = check(replace(corpus), settings=settings)
    words = [pair.source.split() for pair in corpus.pairs]
    assert report.source.tokens == sum(map(len, words))
    assert report.source.cutoffs[0].vocabulary == len({word for each in words for word in each})
    assert report.source.lengths[-1] == max(map(len, words))
    assert report.source.lengths[2] == np.median([len(each) for each in words])
