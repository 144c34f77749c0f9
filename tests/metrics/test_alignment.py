"""Links and their error rate, on examples small enough to count."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import UserError
from regard.metrics.alignment import (
    AlignmentScore,
    GoldLinks,
    links,
    pharaoh,
    read_pharaoh,
    score_alignments,
    trace_links,
    word_links,
)
from regard.trace import AttentionMap, TokenSequence, Trace

WEIGHTS = np.array([[0.1, 0.7, 0.2], [0.0, 0.0, 0.0], [0.45, 0.0, 0.55], [0.0, 1.0, 0.0]])


def test_each_target_is_linked_to_its_largest_weight() -> None:
    assert links(WEIGHTS) == [(1, 0), (1, 3), (2, 2)]
    assert links(WEIGHTS[:0]) == links(WEIGHTS[:, :0]) == []


def test_a_threshold_only_adds_links() -> None:
    assert links(WEIGHTS, threshold=0.4) == [(0, 2), (1, 0), (1, 3), (2, 2)]
    assert links(WEIGHTS, threshold=2.0) == links(WEIGHTS)


def test_piece_links_become_distinct_word_links() -> None:
    assert word_links([(0, 0), (1, 0), (1, 1), (2, 3)], [0, 0, 1], [0, 1, 1, 2]) == [
        (0, 0),
        (0, 1),
        (1, 2),
    ]


def test_trace_links_connect_words_without_end_tokens() -> None:
    heads = np.zeros((1, 2, 3, 4))
    heads[0, 0] = np.eye(4)[[2, 0, 3]]
    heads[0, 1] = np.eye(4)[[2, 1, 1]] * 0.9
    trace = Trace(
        source=TokenSequence("ab c", ("a", "b", "c", "<eos>"), (0, 0, 1, 2)),
        target=TokenSequence("x y", ("x", "y", "<eos>"), (0, 1, 2)),
        attention=(
            AttentionMap("cross", heads),
            AttentionMap("image", np.ones((1, 1, 3, 5))),
            AttentionMap("decoder", np.eye(3)[None, None]),
        ),
    )
    assert pharaoh(trace_links(trace)) == pharaoh(trace_links(trace, unit="words")) == "0-1 1-0"
    assert pharaoh(trace_links(trace, unit="pieces")) == "0-1 2-0"
    assert pharaoh(trace_links(trace, "decoder")) == "0-1"  # y attends to x
    with pytest.raises(ValueError, match="columns of 'image' maps"):
        trace_links(trace, "image")


def test_writing_and_reading_preserves_links() -> None:
    assert pharaoh([(0, 0), (1, 2)]) == "0-0 1-2"
    assert pharaoh([]) == ""
    assert read_pharaoh("0-0 1p2 3?4\n") == GoldLinks(
        frozenset({(0, 0)}), frozenset({(0, 0), (1, 2), (3, 4)})
    )
    assert read_pharaoh("1-2", first=1).sure == {(0, 1)}
    for bad in ("0-", "a-b", "1--2", "0:1"):
        with pytest.raises(UserError, match=f"'{bad}' is not a link"):
            read_pharaoh(f"0-0 {bad}")
    with pytest.raises(UserError, match="numbered from 1"):
        read_pharaoh("0-1", first=1)


def test_the_error_rate_is_counted_over_the_corpus() -> None:
    """A has 3 + 2 links, S 2 + 1; 1 + 1 of A are sure and 2 + 1 possible: 1 - (2 + 3) / (5 + 3)."""
    gold = [read_pharaoh("0-0 1-1 2p1"), read_pharaoh("0-1")]
    result = [{(0, 0), (2, 1), (2, 2)}, {(0, 1), (1, 0)}]
    score = score_alignments(result, gold)
    assert score.error_rate == pytest.approx(3 / 8)
    assert score.precision == pytest.approx(3 / 5)
    assert score.recall == pytest.approx(2 / 3)


def test_error_rates_range_from_zero_to_one() -> None:
    gold = [read_pharaoh("0-0 1p1")]
    assert score_alignments([{(0, 0), (1, 1)}], gold) == AlignmentScore(1.0, 1.0, 0.0)
    assert score_alignments([{(0, 1)}], gold) == AlignmentScore(0.0, 0.0, 1.0)
    assert score_alignments([set()], [read_pharaoh("")]) == AlignmentScore(1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="got 1 for 2 pairs"):
        score_alignments([set(), set()], gold)
