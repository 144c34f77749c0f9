"""Which numbers a machine is fast with."""

from __future__ import annotations

from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]


def has_fast_bfloat16(device: torch.device | str) -> bool:
    """Whether bfloat16 has instructions of its own here, instead of being imitated."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        able = torch.cpu.get_capabilities()
        return any(able.get(name, False) for name in ("amx_bf16", "avx512_bf16", "sve_bf16"))
    return False
