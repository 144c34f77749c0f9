"""Run a function of a test module in several connected processes."""

import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def start(number, function, *arguments):
    """Start the processes, as torchrun does. `function` is module:name, and gets texts."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(number),
        "LOCAL_WORLD_SIZE": str(number),
    }
    return [
        subprocess.Popen(
            [sys.executable, "-m", "tests.ranks", function, *map(str, arguments)],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(number)
    ]


def run(number, function, *arguments, timeout=120):
    """Run a function in several processes; an error of any of them fails the test."""
    running = start(number, function, *arguments)
    try:
        errors = [process.communicate(timeout=timeout)[1] for process in running]
    finally:
        for process in running:
            process.kill()
    assert not any(process.returncode for process in running), "\n".join(errors)


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    getattr(importlib.import_module(module), name)(*sys.argv[2:])
    os._exit(0)  # as `regard` does
