"""Choice of the backend: the kernel for a device and type if there is one, else PyTorch in
tiles."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

import torch

from regard import kernels
from regard.compiled.attention.fused_additive import native, tiled
from regard.shapes import Tensor

NATIVE_TYPES = (torch.float32, torch.bfloat16)


def choose(queries: Tensor, values: Tensor | None = None) -> ModuleType:
    """Return the module that implements the functions of `tiled` for these tensors."""
    if queries.dtype not in NATIVE_TYPES:
        return tiled
    if values is not None and values.dtype not in NATIVE_TYPES:
        return tiled
    if queries.is_cuda:
        return _triton() or tiled
    return native if queries.is_cpu and kernels.usable() else tiled


@cache
def _triton() -> ModuleType | None:
    try:
        backend = import_module("regard.compiled.attention.fused_additive.triton_kernels")
    except (ImportError, AttributeError):  # no Triton, or a version before 3.4, without knobs
        return None
    return backend if backend.available() else None
