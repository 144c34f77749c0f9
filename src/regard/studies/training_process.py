"""Command of Regard in a process that is interrupted, as by Ctrl-C, when its parent ends.

A sweep that is killed, or a node's worker that fails, therefore leaves no training running. Only
Linux notifies a process that its parent has ended."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

SET_PARENT_DEATH_SIGNAL = 1
"""Number of the function in prctl(2)."""


def follow_parent(parent: int) -> None:
    """Accept SIGINT, and let the kernel send it when the parent ends. SystemExit if the parent has
    ended already."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Ray's workers block it
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGINT)
        if os.getppid() != parent:
            raise SystemExit("the parent process ended")


if __name__ == "__main__":
    follow_parent(int(sys.argv[1]))
    sys.argv[:2] = ["regard"]
    runpy.run_module("regard", run_name="__main__")
