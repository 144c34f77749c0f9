"""How far a sequence sees of itself, against drawings."""

from __future__ import annotations

import pytest
import torch

from regard.attention import CAUSAL, Everything, Window, padding
from tests.attention.test_masks import drawn

LIKE = torch.zeros(1, 4, 3)
SHOWN = padding(torch.tensor([[True, True, True, False]]))


def test_everything_is_what_the_mask_shows():
    assert Everything().around(SHOWN, LIKE) is SHOWN
    assert Everything().around(None, LIKE) is None
    assert Everything().before(LIKE) is CAUSAL
    places = torch.tensor([[[0, 2, 3]]])
    assert Everything().last(places) is places


def test_a_window_sees_so_many_to_each_side():
    assert drawn(Window(1).around(None, LIKE)[0]) == ["xx--", "xxx-", "-xxx", "--xx"]
    assert drawn(Window(1).around(SHOWN, LIKE)[0]) == ["xx--", "xxx-", "-xx-", "--x-"]
    assert drawn(Window(2).before(LIKE)[0]) == ["x---", "xx--", "xxx-", "-xxx"]


def test_what_is_written_is_seen_from_its_end():
    places = torch.tensor([[[0, 2, 3], [0, 1, 4]]])
    assert Window(1).last(places).tolist() == [[[2, 3], [1, 4]]]
    assert Window(5).last(places).tolist() == places.tolist()


def test_a_window_of_nothing_is_refused():
    with pytest.raises(ValueError, match="a window of 0 positions"):
        Window(0)
