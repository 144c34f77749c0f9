"""Connection to a Ray cluster, or to Ray started on this machine."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray

from regard.errors import UserError

LOCAL, CLIENT = "local", "ray://"
CONNECT_SECONDS = 10
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Settings of Ray. Values that the user has set take precedence."""


@contextmanager
def connected(address: str, option: str, num_cpus: int | None = None) -> Iterator[None]:
    """Connect to a Ray cluster, or start one, unless this process is connected already. UserError
    if there is no cluster at the address, which this option named. `num_cpus` is the number of
    tasks at a time of Ray that is started (default: the number of cores)."""
    if address.startswith(CLIENT):
        raise UserError(
            f"{option} {address}: expected HOST:PORT, auto or local; run the command on a node of "
            "the cluster"
        )
    if ray.is_initialized():
        yield
        return
    _check_reachable(address, option)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        with _without_stderr(), _own_signals():
            ray.init(
                address=address,
                num_cpus=num_cpus,
                include_dashboard=False if address == LOCAL else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _unreachable(address, option, error) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Drop what Ray's libraries write to the standard error when they start: a line about the level
    of their logs. Errors of Ray are exceptions."""
    stderr = os.dup(2)
    try:
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces by another exit status."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def check_node(num_cpus: int, num_gpus: float, purpose: str, remedy: str) -> None:
    """Raise a UserError unless a node of the connected cluster has these resources. The remedy
    names the options to lower."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= num_cpus and node.get("GPU", 0) >= num_gpus for node in nodes):
        largest = ", ".join(
            f"{node.get('CPU', 0):g} CPUs and {node.get('GPU', 0):g} GPUs" for node in nodes
        )
        raise UserError(
            f"no node of the Ray cluster has {num_cpus} CPUs and {num_gpus:g} GPUs for "
            f"{purpose}; its nodes have: {largest}. Lower {remedy}"
        )


def _check_reachable(address: str, option: str) -> None:
    """Raise a UserError if HOST:PORT accepts no connection. Ray itself would wait for minutes."""
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdecimal()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, option, error) from error


def _unreachable(address: str, option: str, error: Exception) -> UserError:
    reason = " ".join(str(error).split())[:200]
    return UserError(
        f"no Ray cluster at {address}: start one with `ray start --head`, or use {option} local "
        f"({reason})"
    )
