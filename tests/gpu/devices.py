"""The device that the tests marked `gpu` compare with the CPU.

REGARD_GPU_TESTS_DEVICE=cuda        the first GPU, by default; without one the tests are skipped
REGARD_GPU_TESTS_DEVICE=emulated    a device that computes on the CPU (emulated.py), for a few
                                    cases of each test
REGARD_GPU_TESTS_DEVICE=cpu         the CPU itself, to see the size of the differences
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from tests.gpu.emulated import emulation

Case = TypeVar("Case")

NAME = os.environ.get("REGARD_GPU_TESTS_DEVICE", "cuda")
FOLDER = Path(__file__).parent
MISSING = "no GPU (REGARD_GPU_TESTS_DEVICE=emulated runs a few cases without one)"
FEW = 41
"""One of this number of cases is tested without a GPU."""


def is_there() -> bool:
    """Whether there is a device to test."""
    return NAME != "cuda" or torch.cuda.is_available()


def is_gpu() -> bool:
    """Whether the device is a GPU."""
    return NAME == "cuda" and torch.cuda.is_available()


@contextmanager
def active() -> Iterator[torch.device]:
    """Yield the device for a block."""
    if NAME == "emulated":
        with emulation() as device:
            yield device
    else:
        yield torch.device(NAME)


def some(cases: Iterable[Case]) -> list[Case]:
    """Return all cases on a GPU, a few elsewhere, and one where all are skipped."""
    cases = list(cases)
    if is_gpu():
        return cases
    return cases[::FEW] if is_there() else cases[:1]
