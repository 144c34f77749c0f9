"""Processes that train one model together, connected by torch.distributed.

torchrun, or `regard train --processes N`, starts every process with the same command. Process 0
(rank 0) writes the run folder and prints. Each update, every process computes the loss of its share
of the batch, and the gradients are added up.

In any other program there is one process, with rank 0, and the functions of this module return
their arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from regard.errors import ConnectionLostError
from regard.runtime import signals, torchrun
from regard.shapes import Shaped, Tensor

Value = TypeVar("Value")
Number = TypeVar("Number", int, float)

TIMEOUT = timedelta(days=1)
"""Longest time that a process waits for another one. The first process may prepare a large corpus
while the others wait, and torchrun ends all processes when one has failed."""


def rank() -> int:
    """Return the number of this process, from 0."""
    return torch.distributed.get_rank() if _is_connected() else 0


def number() -> int:
    """Return the number of processes."""
    return torch.distributed.get_world_size() if _is_connected() else 1


def is_first() -> bool:
    """Return whether this process has rank 0."""
    return rank() == 0


@contextmanager
def connected() -> Iterator[None]:
    """Connect the processes that torchrun started, until the block ends: by NCCL for GPUs, and by
    gloo for CPUs and for processes that share a GPU. Without torchrun the block has one process.

    ConnectionLostError if another process ends before the block does."""
    if not torchrun.is_used() or _is_connected():
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(_gpu())
    try:
        _connect()
        signals.connected()
        yield
    except RuntimeError as error:
        if not _is_lost(error):
            raise
        raise ConnectionLostError(
            "the connection to another process of this training is lost: see the message of the "
            "process that failed"
        ) from error
    finally:
        if _is_connected():
            torch.distributed.destroy_process_group()


def _connect() -> None:
    """Connect the processes by the store of torchrun. Processes that were started again may get the
    store of those before them, so each start has its own names in it."""
    store, place, size = next(rendezvous("env://", timeout=TIMEOUT))
    store = PrefixStore(f"start {torchrun.num_restarts()}", store)
    share_gpus = 0 < torch.cuda.device_count() < torchrun.local_number()
    torch.distributed.init_process_group(
        "gloo" if share_gpus else None,  # NCCL takes one process for each GPU
        store=store,
        rank=place,
        world_size=size,
        timeout=TIMEOUT,
    )


def _gpu() -> int:
    """Return the number of the GPU of this process. Processes share GPUs if there are too few."""
    return torchrun.local_rank() % torch.cuda.device_count()


def own_device(device: torch.device) -> torch.device:
    """Return the device of this process: each of several processes has a GPU of its own, if there
    are enough."""
    if number() == 1 or device.type != "cuda":
        return device
    return torch.device("cuda", _gpu())


@contextmanager
def first_before_others() -> Iterator[None]:
    """Run the block in process 0 first, and then in all other processes, which find the files that
    it has written."""
    if not is_first():
        _wait_for_all()
    yield
    if is_first():
        _wait_for_all()


def from_first(value: Value) -> Value:
    """Return the value of process 0, in every process."""
    if number() == 1:
        return value
    values: list[Any] = [value]
    torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


def all_equal(value: object) -> bool:
    """Return whether the values of all processes are equal."""
    return all(other == value for other in _values(value))


def largest(value: int) -> int:
    """Return the largest value of all processes."""
    if number() == 1:
        return value
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    values = torch.tensor(value, device=device)
    torch.distributed.all_reduce(values, torch.distributed.ReduceOp.MAX)
    return int(values)


def sum_of(value: Number) -> Number:
    """Return the sum of a number over all processes."""
    return sum(_values(value))


def share(values: Sequence[Value]) -> Sequence[Value]:
    """Return the share of this process: every Nth value of a sequence that all N processes have."""
    return values[rank() :: number()]


def gathered(values: Sequence[Value]) -> list[Value]:
    """Return the values of the shares of all processes, in the order before `share`."""
    parts = _values(list(values))
    result: list[Value] = [parts[0][0]] * sum(map(len, parts)) if parts[0] else []
    for place, part in enumerate(parts):
        result[place :: len(parts)] = part
    return result


def add_up(values: Shaped[Tensor, "*any"]) -> Shaped[Tensor, "*any"]:
    """Replace the values by their sums over all processes, and return them."""
    if number() > 1:
        torch.distributed.all_reduce(values)
    return values


def copy_from_first(values: Shaped[Tensor, "*any"]) -> None:
    """Replace the values by those of process 0."""
    if number() > 1:
        torch.distributed.broadcast(values, src=0)


def _values(value: Value) -> list[Value]:
    """Return the values of all processes, in the order of their ranks."""
    if number() == 1:
        return [value]
    values: list[Any] = [None] * number()
    torch.distributed.all_gather_object(values, value)
    return values


def _wait_for_all() -> None:
    if number() > 1:
        torch.distributed.barrier()


def _is_connected() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _is_lost(error: RuntimeError) -> bool:
    """Return whether an error says that another process has closed its connection."""
    signs = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Gloo")
    is_of_group = isinstance(error, torch.distributed.DistError)
    return is_of_group or any(sign in str(error) for sign in signs)
