"""Check that training a model fits into the RAM of the machine, before the model is built."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from torch import nn

from regard.errors import UserError
from regard.numerics.linear import meta_device
from regard.storage.weights import TRAINED

CGROUPS = Path("/sys/fs/cgroup")
GIB = 1 << 30
UNLIMITED = 1 << 62


def check_ram(build: Callable[[], nn.Module]) -> None:
    """Raise a UserError if training the parameters of a model takes more RAM than the machine has.

    The model is built on the meta device, which allocates nothing. Activations and batches are not
    counted."""
    try:
        with meta_device():
            model = build()
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise UserError(
            "a single matrix of this model has more than 2^63 bytes: choose smaller sizes in model"
        ) from error
    tensors = list(chain(model.parameters(), model.buffers()))
    needed = TRAINED * sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    limit = ram_limit()
    if needed <= limit:
        return
    raise UserError(
        f"the model has {sum(tensor.numel() for tensor in tensors):,} parameters; training "
        f"them (weights, gradients, Adam's moments) takes {needed / GIB:,.1f} GiB of memory, but "
        f"this machine has {limit / GIB:,.1f} GiB: choose smaller sizes in model, or a smaller "
        "vocabulary"
    )


def ram_limit() -> int:
    """Maximum number of bytes of this process: the RAM of the machine, or the limit of a control
    group. 2^62 on a system without POSIX, which reports neither."""
    physical = UNLIMITED
    if hasattr(os, "sysconf"):
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(physical, *_cgroup_limits(CGROUPS), UNLIMITED)


def free_ram() -> int:
    """Return the number of bytes that this process can still allocate: those that the system counts
    as available, and not more than the limit of a control group leaves. 2^62 if neither is
    known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        (available,) = (int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError):
        return UNLIMITED
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return min(available * 1024, ram_limit() - pages * os.sysconf("SC_PAGE_SIZE"))


def _cgroup_limits(root: Path) -> Iterator[int]:
    """Limits of the process's control group and of those above it, of version 2 or 1."""
    names = [root / "memory.max", root / "memory" / "memory.limit_in_bytes"]
    for group in _groups():
        for above in (group, *group.parents):
            names += [root / above / "memory.max"]
            names += [root / "memory" / above / "memory.limit_in_bytes"]
    for name in names:
        try:
            yield int(name.read_text())
        except (OSError, ValueError):  # no such file, or "max"
            continue


def _groups() -> list[Path]:
    """Return the control groups of this process, relative to the root of each hierarchy."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    return [Path(line.split(":", 2)[2].lstrip("/")) for line in lines if line.count(":") >= 2]
