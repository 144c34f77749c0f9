"""A job in chunks on the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cluster.chunk_folder import ChunkFolder
from regard.cluster.settings import Settings
from regard.errors import UserError, counted, install_command
from regard.inference.faults import Faults
from regard.inference.loop import Input, Job
from regard.inference.parts import Part
from regard.runtime.progress import OnProgress
from regard.runtime.signals import TerminatedError

if TYPE_CHECKING:
    from regard.cluster.bulk_workers import RayWorkers

CHUNKS = "finished chunks"
"""Label of the progress."""


def ray_workers(address: str, num_workers: int | None, num_gpus: float) -> RayWorkers:
    """Return workers on the cluster at an address. UserError if Ray Data is not installed."""
    try:
        from regard.cluster.bulk_workers import RayWorkers
    except ImportError as error:
        raise UserError(
            f"--cluster needs Ray Data, which is not installed: {install_command('ray[data]')}"
        ) from error
    return RayWorkers(address, num_workers, num_gpus)


def run_in_chunks(
    job: Job,
    source: Input,
    workers: RayWorkers,
    settings: Callable[[], Settings],
    warn: Callable[[str], None],
    on_progress: OnProgress,
) -> Faults:
    """Process the input of a job in chunks, join the outputs and return the faults of all. The
    finished chunks of an earlier run with equal settings are not repeated. `warn` takes lines about
    the progress."""
    folder = ChunkFolder(job.outputs)
    with folder.locked():
        folder, chunks = folder.prepare(
            settings(), lambda: source.plan(on_progress) or [Part(0, 0, 0)]
        )
        rest = [part for part in chunks if not folder.is_finished(part)]
        num_finished = len(chunks) - len(rest)
        if num_finished:
            warn(f"{num_finished} of {len(chunks)} chunks are finished: continuing")

        def started(num_workers: int) -> None:
            number = counted(num_workers, "worker")
            warn(f"Ray has started: {number}, {num_finished} of {len(chunks)} chunks finished")
            on_progress(CHUNKS, num_finished, len(chunks))

        def progress() -> None:
            nonlocal num_finished
            num_finished += 1
            on_progress(CHUNKS, num_finished, len(chunks))

        try:
            if rest:
                workers.run(job, folder, rest, started, progress)
        except (KeyboardInterrupt, TerminatedError):
            # also counts chunks of workers that ended before their report
            warn(_stop_line(sum(map(folder.is_finished, chunks)), len(chunks), folder.path))
            raise
        return folder.join(chunks)


def _stop_line(num_finished: int, number: int, folder: Path) -> str:
    """Return the line of a stopped command about the chunks that its repetition does not repeat."""
    if not num_finished:
        return f"no chunk of {number} is finished: the repeated command begins with the first"
    return f"saved {num_finished} of {number} chunks in {folder}: repeat the command to continue"
