"""Who computes: the kernel for a device and type where there is one, torch in tiles where not."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import torch

from regard.attention.fused_additive import tiled
from regard.shapes import Tensor


def _loaded() -> ModuleType | None:
    try:
        native = import_module("regard.attention.fused_additive.native")
    except ModuleNotFoundError:
        return None
    return native if native.available() else None


NATIVE = _loaded()


NATIVE_TYPES = (torch.float32, torch.bfloat16)


def choose(queries: Tensor, values: Tensor | None = None) -> ModuleType:
    """The module with the functions of `tiled` for these."""
    if NATIVE is None or not queries.is_cpu or queries.dtype not in NATIVE_TYPES:
        return tiled
    if values is not None and values.dtype not in NATIVE_TYPES:
        return tiled
    return NATIVE
