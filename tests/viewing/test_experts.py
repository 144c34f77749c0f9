"""Load and pieces of experts, counted by hand."""

from itertools import combinations

import numpy as np
import pytest

from regard.errors import UserError
from regard.trace import AttentionMap, TokenSequence, Trace
from regard.viewing import experts
from regard.viewing.experts import MIN_COUNT, assignments

GATES = {"a": (0.7, 0.3, 0.0), "b": (0.0, 0.4, 0.6), "c": (0.0, 0.0, 1.0)}
"""Gate values of each piece in the first layer; in the second all are at the first expert."""


def trace(text, kind="encoder_experts"):
    pieces = tuple(text.split())
    sequence = TokenSequence(text, pieces, tuple(range(len(pieces))), "de")
    first = np.array([GATES[piece] for piece in pieces])
    second = np.zeros_like(first)
    second[:, 0] = 1
    return Trace(sequence, sequence, (AttentionMap(kind, np.stack([first, second])[:, None]),))


@pytest.mark.parametrize("kind", ["encoder_experts", "decoder_experts"])
def test_loads_and_pieces_of_two_texts(kind):
    first, second = assignments([trace("a b a", kind), trace("b c", kind)], kind)
    assert (first.layer, second.layer, first.language) == (1, 2, "de")
    np.testing.assert_allclose(first.load, np.array([2, 4, 3]) / 3)
    np.testing.assert_allclose(first.importance, np.array([1.4, 1.4, 2.2]) * 3 / 5, rtol=1e-6)
    np.testing.assert_allclose(second.load, [3, 0, 0])
    rounded = [[(piece, round(mean, 3)) for piece, mean in pieces] for pieces in first.pieces]
    assert rounded == [[("a", 0.7)], [("b", 0.4), ("a", 0.3)], [("b", 0.6)]]  # c is rarer
    assert second.pieces[1:] == ((), ())


def test_rare_pieces_are_not_listed():
    (layer, _) = assignments([trace("a " * MIN_COUNT + "c")], "encoder_experts")
    assert [[piece for piece, _ in pieces] for pieces in layer.pieces] == [["a"], ["a"], []]


def test_pieces_whose_gate_value_rounds_to_zero_are_not_listed():
    sequence = TokenSequence("a", ("a",), (0,), "de")
    gates = np.array([[[[0.99, 0.006, 0.004]]]])
    trace_of_gates = Trace(sequence, sequence, (AttentionMap("encoder_experts", gates),))
    (layer,) = assignments([trace_of_gates], "encoder_experts")
    assert [[piece for piece, _ in pieces] for pieces in layer.pieces] == [["a"], ["a"], []]


def test_the_figure_has_bars_and_pieces():
    layers = assignments([trace("a b a b c c")], "encoder_experts")
    figure = experts.draw(layers)
    heights = [[bar.get_height() for bar in axes.patches] for axes in figure.axes]
    np.testing.assert_allclose(heights, [layer.load for layer in layers])
    texts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    first = ["a 0.70", "b 0.40", "a 0.30", "c 1.00", "b 0.60"]
    assert texts == [[" mean", *first], [" mean", "a 1.00", "b 1.00", "c 1.00"]]
    assert {axes.get_ylabel() for axes in figure.axes} == {"load / mean"}
    titles = [axes.get_title(loc="left") for axes in experts.draw(layers[1:]).axes]
    assert titles == ["layer 2: load of each expert"]


def test_no_texts_of_the_figure_overlap():
    figure = experts.draw(assignments([trace("a b a b c c")], "encoder_experts"))
    boxes = [
        text.get_window_extent()
        for axes in figure.axes
        for text in (
            *axes.texts,
            *axes.get_xticklabels(),
            *axes.get_yticklabels(),
            axes.yaxis.label,
        )
    ]
    num_ticks = sum(len(axes.get_yticklabels()) for axes in figure.axes)
    assert len(boxes) == 5 + 3 + 2 * (1 + 3 + 1) + num_ticks
    for left, right in combinations(boxes, 2):
        assert not left.overlaps(right)


def test_models_without_experts_and_blank_files_are_one_line():
    with pytest.raises(UserError, match="no decoder experts: train with"):
        assignments([trace("a")], "decoder_experts")
    with pytest.raises(UserError, match="no positions"):
        assignments([], "encoder_experts")
