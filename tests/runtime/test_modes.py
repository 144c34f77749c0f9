"""Modes of PyTorch and of this package."""

import torch

import regard
from regard.runtime.modes import is_cast, is_plain, needs_formula


def test_autocast_is_checked_per_device():
    numbers = torch.ones(2)
    assert not is_cast(numbers)
    with torch.autocast("cpu"):
        assert is_cast(numbers)
        assert not is_cast(numbers.to("meta"))
        with torch.autocast("cpu", enabled=False):
            assert not is_cast(numbers)


def test_plain_is_left_as_it_was_entered():
    assert not is_plain()
    with regard.plain():
        with regard.plain():
            assert is_plain()
        assert needs_formula()
    assert not is_plain()
