"""Fixtures of the tests of compiled models."""

import pytest
import torch


@pytest.fixture
def two_threads():
    """Run with two threads, and restore the number of threads after the test."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(num_threads)
