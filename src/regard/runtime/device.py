"""The device that a model is trained or run on, and PyTorch's default type and device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from regard.errors import UserError


def device_named(name: str | torch.device, field: str = "device") -> torch.device:
    """Return the device of this name: cpu, cuda, cuda:1, or auto for a GPU if torch sees one, else
    the CPU. UserError for any other device, and for a GPU that is not there."""
    text = str(name)
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, colon, number = text.partition(":")
    is_known = kind == "cuda" if colon else kind in ("cpu", "cuda")
    if not is_known or (colon and not (number.isdecimal() and number.isascii())):
        raise UserError(f"{field} is {text}: expected auto, cpu, cuda, or a GPU such as cuda:1")
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError(f"{field} is {text}, but torch sees no GPU here: use cpu or auto")
    count = torch.cuda.device_count()
    if colon and int(number) >= count:
        raise UserError(f"{field} is {text}, but torch sees {count} GPUs here, numbered from 0")
    return torch.device(text)


@contextmanager
def cpu_by_default() -> Iterator[None]:
    """Create tensors on the CPU unless a device is named, whatever PyTorch's default device is."""
    if torch.empty(0).is_cpu:  # get_default_device takes longer
        yield
        return
    with torch.device("cpu"):
        yield


@contextmanager
def float32_by_default() -> Iterator[None]:
    """Create tensors in float32 unless a type is named, whatever PyTorch's default type is. The
    default type is that of the whole process."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(default)
