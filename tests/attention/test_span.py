"""Attention spans compared with drawings."""

from __future__ import annotations

import pytest
import torch

from regard.attention import CAUSAL, FullSpan, SlidingWindow, padding
from tests.attention.test_masks import drawn

LIKE = torch.zeros(1, 4, 3)
SHOWN = padding(torch.tensor([[True, True, True, False]]))


def test_the_full_span_is_that_of_the_mask():
    assert FullSpan().bidirectional_mask(SHOWN, LIKE) is SHOWN
    assert FullSpan().bidirectional_mask(None, LIKE) is None
    assert FullSpan().causal_mask(LIKE) is CAUSAL
    places = torch.tensor([[[0, 2, 3]]])
    assert FullSpan().visible_slots(places) is places


def test_a_window_covers_its_width_on_each_side():
    assert drawn(SlidingWindow(1).bidirectional_mask(None, LIKE)[0]) == [
        "xx--",
        "xxx-",
        "-xxx",
        "--xx",
    ]
    assert drawn(SlidingWindow(1).bidirectional_mask(SHOWN, LIKE)[0]) == [
        "xx--",
        "xxx-",
        "-xx-",
        "--x-",
    ]
    assert drawn(SlidingWindow(2).causal_mask(LIKE)[0]) == ["x---", "xx--", "xxx-", "-xxx"]


def test_a_window_over_decoded_tokens_ends_at_the_last():
    places = torch.tensor([[[0, 2, 3], [0, 1, 4]]])
    assert SlidingWindow(1).visible_slots(places).tolist() == [[[2, 3], [1, 4]]]
    assert SlidingWindow(5).visible_slots(places).tolist() == places.tolist()


def test_a_window_of_zero_is_rejected():
    with pytest.raises(ValueError, match="width is 0"):
        SlidingWindow(0)
