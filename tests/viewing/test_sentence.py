"""A sentence that is tinted by what an answer took of it."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

from regard.trace import AttentionMap, TokenSequence, Trace
from regard.viewing.colours import hexadecimal, ink
from regard.viewing.sentence import LINE, WIDTH, ShadedSentence, draw, save, text

PIECES = ("who", "is", "she", "$")
WEIGHTS = np.array([0.62, 0.0, 0.3, 0.08])
TINTED = ShadedSentence(PIECES, WEIGHTS, "person")


def trace(*maps):
    source = TokenSequence("who is she $", PIECES, (0, 1, 2, 3))
    target = TokenSequence("person", ("person",), (0,))
    return Trace(source, target, tuple(AttentionMap("cross", each) for each in maps))


def test_weights_are_the_mean_over_heads_and_models():
    first = np.stack([WEIGHTS, WEIGHTS[::-1]])[None, :, None]
    tinted = ShadedSentence.of(trace(first, WEIGHTS[None, None, None]))
    np.testing.assert_allclose(tinted.weights, ((WEIGHTS + WEIGHTS[::-1]) / 2 + WEIGHTS) / 2)
    assert (tinted.pieces, tinted.output) == (PIECES, "person")
    with pytest.raises(ValueError, match="position is 1, but the target has 1"):
        ShadedSentence.of(trace(first), position=1)


def test_without_colours_the_largest_weights_have_per_cents():
    assert text(TINTED, coloured=False).plain == "who[62%] is she[30%] $[8%]"


def test_colours_are_those_of_other_figures():
    result = text(TINTED, coloured=True)
    assert result.plain == "who is she $"
    styles = [str(span.style) for span in result.spans]
    assert styles == [f"{ink(each)} on {hexadecimal(each)}" for each in WEIGHTS]
    Console(width=9, file=io.StringIO()).print(result)


def boxes(figure):
    return [(patch.get_x(), patch.get_y(), patch.get_width()) for patch in figure.axes[0].patches]


def test_boxes_are_in_lines_without_overlap():
    many = ShadedSentence(PIECES * 12, np.tile(WEIGHTS, 12), "person")
    figure = draw(many)
    result = boxes(figure)
    lines = sorted({round(y, 3) for _, y, _ in result})
    assert len(lines) > 1
    assert np.allclose(np.diff(lines), LINE)
    for line in lines:
        row = sorted((x, width) for x, y, width in result if round(y, 3) == line)
        for (x, width), (following, _) in pairwise(row):
            assert x + width < following
        assert row[-1][0] + row[-1][1] <= WIDTH
    labels = [each.get_text() for each in figure.axes[0].texts]
    assert labels[:4] == list(PIECES)
    assert "→ person" in labels


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_sentences_are_saved(tmp_path, suffix):
    path = tmp_path / f"sentence.{suffix}"
    save(TINTED, path)
    first = path.read_bytes()
    save(TINTED, path)
    assert path.read_bytes() == first
    assert len(first) > 1000
