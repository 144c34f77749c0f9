"""Modes of PyTorch in which operations are recorded, transformed or cast, and this package's mode
of formulas only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch
from torch.autograd import forward_ad

from regard.shapes import Tensor


def is_exported() -> bool:
    """Whether PyTorch records operations for another program: by export, for ONNX, or by a
    trace."""
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    return torch._C._get_tracing_state() is not None


_num_plain = int(os.environ.get("REGARD_PLAIN") not in (None, "", "0"))
"""Number of open `plain` blocks of all threads, plus one for the environment variable."""
_lock = Lock()


@contextmanager
def plain() -> Iterator[None]:
    """Run the formulas instead of all accelerated classes and kernels, in all threads. The
    environment variable REGARD_PLAIN=1 does the same for a whole process.

    Breakpoints and hooks in `Additive.forward` or `BahdanauDecoder.step` are then reached in
    training, translation and scores, also for models that were loaded before."""
    global _num_plain
    with _lock:
        _num_plain += 1
    try:
        yield
    finally:
        with _lock:
            _num_plain -= 1


def is_plain() -> bool:
    """Whether `plain` or REGARD_PLAIN asks for the formulas."""
    return _num_plain > 0


def needs_formula() -> bool:
    """Whether only operations of PyTorch may run: with `plain`, and if they are recorded."""
    return _num_plain > 0 or is_recorded()


def is_recorded() -> bool:
    """Whether operations are recorded for another program or transformed: during an export, because
    the program that reads it has no kernels, and under transforms of `torch.func`, which have no
    rules for kernels."""
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    return (
        torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


def is_cast(tensor: Tensor) -> bool:
    """Whether autocast is enabled for the device of this tensor."""
    if tensor.is_cpu:
        return torch.is_autocast_enabled("cpu")
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def is_free_to_read(tensor: Tensor) -> bool:
    """Whether Python may read a number of the tensor at no cost. It would wait for a GPU, and a
    compiler or an export records one path for all inputs."""
    return tensor.is_cpu and not torch.compiler.is_compiling() and not is_recorded()
