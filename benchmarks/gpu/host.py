"""Print the facts about a host and its GPU as JSON."""

from __future__ import annotations

import json
import platform
import subprocess
from typing import Any

import numpy
import torch


def facts() -> dict[str, Any]:
    """Return the device and the versions of the driver and the libraries."""
    there = torch.cuda.is_available()
    properties = torch.cuda.get_device_properties(0) if there else None
    return {
        "device": properties.name if properties else f"a CPU ({platform.machine()})",
        "is a GPU": there,
        "memory GB": round(properties.total_memory / 1e9, 1) if properties else None,
        "driver": driver() if there else None,
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "CUDA": torch.version.cuda,
        "cuDNN": torch.backends.cudnn.version() if there else None,
        "Triton": triton_version(),
        "NumPy": numpy.__version__,
    }


def driver() -> str:
    """Return the version of the GPU's driver."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


def triton_version() -> str:
    try:
        import triton
    except ImportError:
        return "not installed"
    return triton.__version__


if __name__ == "__main__":
    print(json.dumps(facts()))
