"""Times, memory and figures of the measurements on a GPU."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

PRODUCT, SMALL_PRODUCT = 8192, 512
"""Number of rows and columns of the product that states the speed of the device."""
KERNELS = 15
"""Number of kernels in a profile."""


@dataclass
class Figures:
    """Figures of a part, written to a file after each of them, so that none is lost."""

    path: Path
    small: bool
    """Whether this is the small form, on a CPU."""
    seconds: float
    values: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of_command(cls, description: str) -> Figures:
        """Return empty figures with the options of the command line."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--output", type=Path, required=True, help="JSON file of the figures")
        parser.add_argument("--seconds", type=float, default=60, help="time for all measurements")
        parser.add_argument("--small", action="store_true", help="small sizes, for a CPU")
        options = parser.parse_args()
        return cls(options.output, options.small or not torch.cuda.is_available(), options.seconds)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu" if self.small else "cuda")

    def measure(self, name: str, function: Callable[[], dict[str, Any]]) -> None:
        """Add the figures of a function, or its error, and write all of them."""
        began = time.monotonic()
        if began - self.began > self.seconds:
            figures: dict[str, Any] = {"left out": "no time was left"}
        else:
            try:
                figures = function()
            except Exception as error:  # noqa: BLE001 - the other measurements follow
                text = " ".join(f"{type(error).__name__}: {error}".split())
                figures = {"error": text[:500]}
        figures["seconds"] = round(time.monotonic() - began, 1)
        self.values[name] = figures
        self.path.write_text(json.dumps(self.values, indent=1), encoding="utf8")
        print(f"{name}: {json.dumps(figures)[:300]}", flush=True)
        if not self.small:
            torch.cuda.empty_cache()


def wait(device: torch.device) -> None:
    """Wait until the device has computed everything."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def milliseconds(function: Callable[[], Any], device: torch.device, repeats: int = 20) -> float:
    """Return the median time of a call, on a GPU by its own clock."""
    function()
    wait(device)
    times = []
    for _ in range(repeats):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            function()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        else:
            began = time.perf_counter()
            function()
            times.append(1000 * (time.perf_counter() - began))
    return median(times)


def peak_megabytes(device: torch.device) -> float | None:
    """Return the largest memory of the GPU since `forget_peak`."""
    return torch.cuda.max_memory_allocated() / 1e6 if device.type == "cuda" else None


def forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def speed_of_product(device: torch.device) -> float:
    """Return the FLOP/s of a product of square matrices in bfloat16, on random numbers."""
    size = PRODUCT if device.type == "cuda" else SMALL_PRODUCT
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / (milliseconds(lambda: left @ right, device) / 1000)


def profile(function: Callable[[], Any], device: torch.device) -> list[dict[str, Any]]:
    """Return the kernels that take most of the time of a call."""
    function()
    wait(device)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as profiler:
        function()
        wait(device)
    name = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    events = sorted(profiler.key_averages(), key=lambda event: -getattr(event, name))
    return [
        {"kernel": each.key[:100], "calls": each.count, "ms": round(getattr(each, name) / 1000, 3)}
        for each in events[:KERNELS]
    ]


def numbers(*shape: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return normally distributed numbers."""
    return torch.randn(*shape, device=device, dtype=dtype)
