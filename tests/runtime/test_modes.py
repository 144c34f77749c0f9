"""Modes of PyTorch and of this package."""

import os
import subprocess
import sys

import pytest
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


def test_blocks_of_two_threads_may_overlap():
    first, second = regard.plain(), regard.plain()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert is_plain()
    second.__exit__(None, None, None)
    assert not is_plain()


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("0", False), ("", False)])
def test_the_environment_variable_may_be_off(value, expected):
    code = "from regard.runtime.modes import is_plain; print(is_plain())"
    environment = {**os.environ, "REGARD_PLAIN": value}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"{expected}\n"
