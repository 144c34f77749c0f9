"""Environment variables of a process that torchrun started."""

from __future__ import annotations

import os


def is_used() -> bool:
    """Return whether torchrun started this process."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()


def rank() -> int:
    """Return the number of this process, from 0; 0 without torchrun."""
    return int(os.environ["RANK"]) if is_used() else 0


def local_rank() -> int:
    """Return the number of this process on its machine, which is the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def num_restarts() -> int:
    """Return how often the processes were started again because one of them failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) if is_used() else 0
