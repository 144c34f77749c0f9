"""Masks compared with drawings."""

from __future__ import annotations

import pytest
import torch

from regard.attention import CAUSAL, causal, none_if_full, padding, window
from regard.attention.masks import mask_tensor


def drawn(mask: torch.Tensor) -> list[str]:
    return ["".join("x" if seen else "-" for seen in row) for row in mask.tolist()]


def test_a_padding_mask_has_one_row_for_all_queries():
    mask = padding(torch.tensor([[True, True, False], [True, False, False]]))
    assert mask.shape == (2, 1, 3)
    assert [drawn(sentence) for sentence in mask] == [["xx-"], ["x--"]]


def test_a_causal_mask_shows_the_position_and_earlier_ones():
    assert drawn(causal(4)) == ["x---", "xx--", "xxx-", "xxxx"]


def test_a_named_mask_is_created_on_demand():
    assert drawn(mask_tensor(CAUSAL, torch.zeros(2, 3, 5))) == drawn(causal(3))
    mask = padding(torch.tensor([[True, False]]))
    assert mask_tensor(mask, torch.zeros(1, 3, 5)) is mask
    assert mask_tensor(None, torch.zeros(1, 3, 5)) is None


def test_masks_without_hidden_positions_are_dropped():
    mask = torch.tensor([[True, True], [True, False]])
    assert none_if_full(mask) is mask
    assert none_if_full(mask[:1]) is None


@pytest.mark.parametrize(
    ("target", "source", "width", "expected"),
    [
        (3, 4, 1, ["xx--", "xxx-", "-xxx"]),
        (2, 3, 0, ["x--", "-x-"]),
        (5, 2, 2, ["xx", "xx", "xx", "-x", "--"]),
    ],
)
def test_a_window_covers_both_sides(target: int, source: int, width: int, expected: list[str]):
    assert drawn(window(target, source, width)) == expected


def test_masks_are_combined_by_and():
    both = causal(3) & window(3, 3, 1) & padding(torch.tensor([[True, True, False]]))
    assert drawn(both[0]) == ["x--", "xx-", "-x-"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second kind of device")
def test_masks_are_created_on_the_requested_device():
    assert causal(2, device=torch.device("cuda")).is_cuda
    assert window(2, 3, 1, device=torch.device("cuda")).is_cuda
