"""Additive attention on a GPU: Triton's kernels beside PyTorch's dot-product attention (SDPA), the
tiles that Regard uses by default, and the plain formula.

    python benchmarks/gpu/attention.py --output FILE [--seconds N] [--small]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from timing import Figures, forget_peak, milliseconds, numbers, peak_megabytes, profile
from torch import Tensor
from torch.nn import functional as F

import regard
from regard.compiled.attention import fused_additive
from regard.compiled.attention.fused_additive import backends
from regard.compiled.attention.fused_additive.memory import AdditiveMemory

SIZES = {30: (64, 30, 256), 100: (64, 100, 512), 1000: (8, 1000, 256)}
"""Batch, number of queries, and size, for each number of keys."""
SMALL = {30: (2, 8, 16), 100: (1, 4, 16)}
GOAL = 3
"""Largest time of Triton over that of SDPA."""

Attend = Callable[..., Tensor]


def by_backend(name: str, queries: Tensor, keys: Tensor, values: Tensor, vector: Tensor) -> Tensor:
    """Attend as `regard.attention.Additive` does, by a backend of its choice."""
    backends._triton = lambda: kernels_of(name)  # type: ignore[assignment]
    return fused_additive.attend(queries, AdditiveMemory(keys, vector, values, None, 1.0))[0]


def kernels_of(name: str) -> Any:
    if name != "Triton":
        return None
    from regard.compiled.attention.fused_additive import triton_kernels

    return triton_kernels


def by_formula(queries: Tensor, keys: Tensor, values: Tensor, vector: Tensor) -> Tensor:
    with regard.plain():
        return fused_additive.attend(queries, AdditiveMemory(keys, vector, values, None, 1.0))[0]


def by_dot_product(queries: Tensor, keys: Tensor, values: Tensor, vector: Tensor) -> Tensor:
    del vector
    heads = (x.unsqueeze(1) for x in (queries, keys, values))
    return F.scaled_dot_product_attention(*heads).squeeze(1)


def ways(device: torch.device) -> dict[str, Attend]:
    """Return the ways of attending; Triton's kernels need a GPU."""
    result = {"Triton": partial(by_backend, "Triton")} if device.type == "cuda" else {}
    default = "tiles" if device.type == "cuda" else "C++"
    result[default] = partial(by_backend, default)
    return {**result, "formula": by_formula, "SDPA": by_dot_product}


def measured(
    attend: Attend, num_keys: int, dtype: torch.dtype, figures: Figures, *, profiled: bool = False
) -> dict[str, Any]:
    """Return the times of a way, and its kernels on request."""
    batch, num_queries, size = (SMALL if figures.small else SIZES)[num_keys]
    torch.manual_seed(1)
    device = figures.device
    lengths = (num_queries, num_keys, num_keys)
    tensors = [numbers(batch, length, size, device=device, dtype=dtype) for length in lengths]
    vector = numbers(size, device=device, dtype=dtype)
    forget_peak(device)

    def forward() -> None:
        with torch.no_grad():
            attend(*tensors, vector)

    leaves = [tensor.clone().requires_grad_() for tensor in (*tensors, vector)]
    gradient = torch.ones_like(tensors[0])

    def both() -> None:
        torch.autograd.grad(attend(*leaves), leaves, gradient, allow_unused=True)

    if profiled:
        return {"kernels": profile(both, device)}
    repeats = 3 if figures.small else 20
    return {
        "forward ms": round(milliseconds(forward, device, repeats), 4),
        "forward and backward ms": round(milliseconds(both, device, repeats), 4),
        "peak MB": peak_megabytes(device),
    }


def main() -> None:
    figures = Figures.of_command(__doc__.splitlines()[0])
    for dtype in (torch.float32, torch.bfloat16):
        for num_keys in SMALL if figures.small else SIZES:
            for name, attend in ways(figures.device).items():
                row = f"{num_keys} keys, {str(dtype).removeprefix('torch.')}, {name}"
                figures.measure(row, partial(measured, attend, num_keys, dtype, figures))
    for row, values in list(figures.values.items()):
        keys, dtype_name, name = row.split(", ")
        peer = figures.values[f"{keys}, {dtype_name}, SDPA"]
        time = "forward and backward ms"
        if name == "Triton" and time in values and values[time] > GOAL * peer.get(time, torch.inf):
            dtype, number = getattr(torch, dtype_name), int(keys.split()[0])
            attend = ways(figures.device)[name]
            call = partial(measured, attend, number, dtype, figures, profiled=True)
            figures.measure(f"profile of {row}", call)


if __name__ == "__main__":
    main()
