"""Who computes: the kernel for a device and type where there is one, torch in tiles where not."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

import torch

from regard.attention.fused_additive import tiled
from regard.shapes import Tensor


@cache
def _loaded(name: str) -> ModuleType | None:
    try:
        backend = import_module(f"regard.attention.fused_additive.{name}")
    except ModuleNotFoundError:
        return None
    return backend if backend.available() else None


NATIVE = _loaded("native")


NATIVE_TYPES = (torch.float32, torch.bfloat16)


def choose(queries: Tensor, values: Tensor | None = None) -> ModuleType:
    """The module with the functions of `tiled` for these."""
    if queries.dtype not in NATIVE_TYPES:
        return tiled
    if values is not None and values.dtype not in NATIVE_TYPES:
        return tiled
    if queries.is_cuda:
        return _loaded("triton_kernels") or tiled
    return (NATIVE if queries.is_cpu else None) or tiled
