"""Options of commands that process a part of their input, or all of it on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.output import warn
from regard.cli.progress import PreparationView
from regard.errors import UserError, install_command
from regard.runtime.signals import TerminatedError

if TYPE_CHECKING:
    from regard.cluster.job import Job
    from regard.inference.parts import Items, Part
    from regard.runtime.progress import OnProgress

LOCAL = "local"
"""Value of --cluster that starts Ray on this machine."""
CHUNKS = "finished chunks"
"""Label of the progress."""
COUNTED_AT_A_TIME = 10_000
"""Number of items between two reports of progress while items are counted."""


@dataclass(frozen=True)
class BulkOptions:
    """Division of the input, and workers."""

    shard: str | None = None
    """Part of the input to process, as I/N: 2/4 is the second of four. The outputs of all parts,
    joined in order, are the output of the whole input. Default: the whole input."""
    cluster: str | None = None
    """Process the input in chunks on the Ray cluster at HOST:PORT, on the cluster that this machine
    belongs to (auto), or on Ray started on this machine (local). Repeat the command to continue it.
    Needs ray[data]. Default: this process."""
    workers: int | None = None
    """With --cluster: number of workers. Default: one for each CPU."""
    gpus: float | None = None
    """With --cluster: number of GPUs of each worker, such as 1 or 0.5. Default: none."""


def check_bulk(
    bulk: BulkOptions, inputs: Sequence[str], output: Path | None, *, follow: bool = False
) -> None:
    """Raise a UserError for options that cannot be combined."""
    if bulk.cluster is None:
        for name in ("workers", "gpus"):
            if getattr(bulk, name) is not None:
                raise UserError(f"--{name} is for a Ray cluster: name one with --cluster")
        if bulk.shard is None:
            return
    elif bulk.shard is not None:
        raise UserError("--cluster processes the whole input: leave out --shard")
    option = "--shard" if bulk.cluster is None else "--cluster"
    if follow:
        raise UserError(f"--follow reads a file as it grows: leave out {option}")
    if "-" in inputs:
        raise UserError(
            f"{option} divides a file, but the input is the standard input: name a file"
        )
    if bulk.workers is not None and bulk.workers < 1:
        raise UserError(f"--workers is {bulk.workers}: expected a whole number from 1")
    gpus = bulk.gpus or 0
    if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
        raise UserError(f"--gpus is {gpus:g}: expected a whole number, or a fraction below 1")
    if bulk.cluster is not None and (output is None or (output.exists() and not output.is_file())):
        raise UserError("--cluster writes a file when all chunks are finished: name it with -o")


def part_of(
    bulk: BulkOptions, file: str, encoding: str | None, items: Items[Any] | None
) -> Part | None:
    """Return the part of the input that --shard names: of the items, or of a file of lines; None
    for the whole input."""
    if bulk.shard is None:
        return None
    from regard.data.recognition.formats import encoding_of_lines
    from regard.inference.parts import Shard, check_divisible, count

    shard = Shard.parse(bulk.shard)
    if items is not None:
        return shard.of_items(count(items.of(None)))
    check_divisible(Path(file), encoding_of_lines(Path(file), encoding).name)
    return shard.of_lines(Path(file))


@dataclass(frozen=True)
class ClusterRun:
    """A command on a Ray cluster."""

    command: str
    options: Any
    """Options of the command, with `bulk`."""
    runs: Sequence[Path]
    inputs: Sequence[str | Path | None]
    outputs: tuple[Path | None, ...]
    are_many: bool = False
    """Whether inputs are compared by their sizes and times, because they may be thousands."""

    def of_lines(self, job: Job, file: str, encoding: str) -> dict[str, Any]:
        """Process a file of lines, and return the faults of all lines."""
        from regard.inference.parts import check_divisible, line_chunks

        check_divisible(Path(file), encoding)
        return self._run(job, lambda _: line_chunks(Path(file)))

    def of_items(self, job: Job, items: Items[Any], unit: int) -> dict[str, Any]:
        """Process items, of which `unit` are processed together, and return the faults of all."""
        from regard.inference.parts import item_chunks

        def plan(on_progress: OnProgress) -> list[Part]:
            number = 0
            for number, _ in enumerate(items.of(None), 1):
                if number % COUNTED_AT_A_TIME == 0:
                    on_progress("counting", number, None)
            return item_chunks(number, unit)

        return self._run(job, plan)

    def _inputs(self) -> list[Any]:
        """Return facts by which a change of the inputs shows."""
        from regard.cluster.settings import contents_of, states_of

        names = [str(name) for name in self.inputs if name is not None]
        return states_of(names) if self.are_many else contents_of(names)

    def _run(self, job: Job, plan: Callable[[OnProgress], list[Part]]) -> dict[str, Any]:
        bulk = self.options.bulk
        warn(_start_line(bulk.cluster))
        try:
            from regard.cluster.bulk_workers import RayWorkers
        except ImportError as error:
            raise UserError(
                f"--cluster needs Ray Data, which is not installed: {install_command('ray[data]')}"
            ) from error
        from regard.cluster.chunk_folder import ChunkFolder
        from regard.cluster.settings import settings_of
        from regard.inference.parts import Part

        folder = ChunkFolder(self.outputs)
        with folder.locked(), PreparationView() as on_progress:
            settings = settings_of(self.command, self.options, self.runs, self._inputs())
            folder, chunks = folder.prepare(settings, lambda: plan(on_progress) or [Part(0, 0, 0)])
            rest = [part for part in chunks if not folder.is_finished(part)]
            num_finished = len(chunks) - len(rest)
            if num_finished:
                warn(f"{num_finished} of {len(chunks)} chunks are finished: continuing")

            def started(num_workers: int) -> None:
                workers = "1 worker" if num_workers == 1 else f"{num_workers} workers"
                warn(f"Ray has started: {workers}, {num_finished} of {len(chunks)} chunks finished")
                on_progress(CHUNKS, num_finished, len(chunks))

            def progress() -> None:
                nonlocal num_finished
                num_finished += 1
                on_progress(CHUNKS, num_finished, len(chunks))

            try:
                if rest:
                    workers = RayWorkers(bulk.cluster, bulk.workers, bulk.gpus or 0.0)
                    workers.run(job, folder, rest, started, progress)
            except (KeyboardInterrupt, TerminatedError):
                # also counts chunks of workers that ended before their report
                warn(_stop_line(sum(map(folder.is_finished, chunks)), len(chunks), folder.path))
                raise
            return folder.join(chunks)


def _start_line(address: str) -> str:
    """Return the line before the imports and the start of Ray, which take seconds."""
    if address == LOCAL:
        return "starting Ray on this machine: ten seconds or more"
    return f"connecting to the Ray cluster ({address})"


def _stop_line(num_finished: int, number: int, folder: Path) -> str:
    """Return the line of a stopped command about the chunks that its repetition does not repeat."""
    if not num_finished:
        return f"no chunk of {number} is finished: the repeated command begins with the first"
    return f"saved {num_finished} of {number} chunks in {folder}: repeat the command to continue"
