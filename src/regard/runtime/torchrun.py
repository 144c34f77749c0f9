"""Environment variables of a process that torchrun started, or `regard train --processes`."""

from __future__ import annotations

import os
import signal
import threading
import time

LAUNCHER = "REGARD_LAUNCHER"
"""Environment variable with the number of the process of `--processes` that started this one."""
SECONDS = 1.0
"""Seconds between two checks of the parent process."""


def is_used() -> bool:
    """Return whether torchrun started this process."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()


def rank() -> int:
    """Return the number of this process, from 0; 0 without torchrun."""
    return int(os.environ["RANK"]) if is_used() else 0


def local_rank() -> int:
    """Return the number of this process on its machine, which is the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def local_number() -> int:
    """Return the number of processes on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def has_launcher() -> bool:
    """Return whether `regard train --processes` started this process."""
    return is_used() and LAUNCHER in os.environ


def num_restarts() -> int:
    """Return how often the processes were started again because one of them failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) if is_used() else 0


def max_restarts() -> int:
    """Return how often the processes are started again at most."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) if is_used() else 0


def end_with_launcher() -> None:
    """Send SIGTERM to this process, which saves the training, as soon as the process that started
    it has ended. SIGKILL of that process would otherwise leave a training without a terminal."""
    launcher = os.environ.get(LAUNCHER)
    if launcher is None or os.name != "posix":
        return

    def watch() -> None:
        while os.getppid() == int(launcher):
            time.sleep(SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
