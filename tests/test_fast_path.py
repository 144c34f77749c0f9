"""Conditions under which a kernel may replace a module or formula."""

import torch

from regard.fast_path import is_cast


def test_autocast_is_checked_per_device():
    numbers = torch.ones(2)
    assert not is_cast(numbers)
    with torch.autocast("cpu"):
        assert is_cast(numbers)
        assert not is_cast(numbers.to("meta"))
        with torch.autocast("cpu", enabled=False):
            assert not is_cast(numbers)
