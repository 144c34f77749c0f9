"""Start of the processes of one training on this machine, as torchrun starts them."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterable, Sequence

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from regard.errors import ConnectionLostError, UserError
from regard.runs.folder import RunFolder
from regard.runtime import torchrun
from regard.runtime.signals import INTERRUPTED, TERMINATED
from regard.training.checkpoint import Checkpoints


def launch(
    arguments: Sequence[str],
    num_processes: int,
    max_restarts: int = 0,
    folder: RunFolder | None = None,
) -> int:
    """Run `regard` with these arguments in several processes, and return their exit status. After a
    signal it is that of a shell, 128 plus the number of the signal. `folder` is that of a run that
    `--resume` can continue.

    If a process fails, all are ended, and up to `max_restarts` times all are started again. They
    share the cores of the machine, unless OMP_NUM_THREADS is set. UserError with the first failure
    if the processes fail more often."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (cores or 1) // num_processes)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_processes,
        run_id="regard",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=max_restarts,
    )
    os.environ[torchrun.LAUNCHER] = str(os.getpid())
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # torchrun's own account of a failure is long
    try:
        elastic_launch(config, sys.executable)("-m", "regard", *arguments)
    except SignalException as signalled:
        return 128 + signalled.sigval
    except ChildFailedError as error:
        failure = _cause(error.failures.values())
        if failure.exitcode in (INTERRUPTED, TERMINATED):
            return failure.exitcode
        raise UserError(
            f"process {failure.local_rank} of {num_processes} {_end_of(failure, folder)}"
        ) from error
    finally:
        logging.disable(before)
        del os.environ[torchrun.LAUNCHER]
    return 0


def _cause(failures: Iterable[ProcessFailure]) -> ProcessFailure:
    """Return the failure that led to the others: processes that lost their connection and processes
    that were ended by SIGTERM come last, since torchrun ends the processes that are left."""
    ended = (TERMINATED, -signal.SIGTERM)
    return min(
        failures,
        key=lambda failure: (
            failure.exitcode == ConnectionLostError.STATUS,
            failure.exitcode in ended,
            failure.timestamp,
        ),
    )


def _end_of(failure: ProcessFailure, folder: RunFolder | None) -> str:
    """Return how a process ended, and how to continue the training."""
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        return f"was killed by {name}, so the training ended; {_remedy(folder)}"
    return f"failed with status {failure.exitcode}, so the training ended: see its message above"


def _remedy(folder: RunFolder | None) -> str:
    if folder is None or not folder.config.exists():
        return "nothing was saved: repeat the command"
    if (update := saved_update(folder)) is None:
        return "--resume begins again, as no update was saved"
    return f"--resume continues it from update {update:,}"


def saved_update(folder: RunFolder) -> int | None:
    """Return the update from which a run is resumed; None if it begins again."""
    return Checkpoints(folder.path, {}).saved_update() or None
