"""Options of commands that process a part of their input, or all of it on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.output import warn
from regard.cli.progress import PreparationView, counting_outputs
from regard.config.checks import Count, Gpus
from regard.errors import UserError
from regard.inference.faults import Faults, Limits, sentences
from regard.inference.loop import Input, Job, Output, View, run
from regard.inference.parts import Shard
from regard.inference.tables import SourceFile

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable

LOCAL = "local"
"""Value of --cluster that starts Ray on this machine."""
LABELS = {
    "translate": "translated",
    "classify": "classified",
    "caption": "captioned",
    "score": "scored",
}
"""Label of the progress of each command."""


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
    workers: Count | None = None
    """With --cluster: number of workers. Default: one for each CPU."""
    gpus: Gpus | None = None
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
    if bulk.cluster is not None and (output is None or (output.exists() and not output.is_file())):
        raise UserError("--cluster writes a file when all chunks are finished: name it with -o")


def source_file(options: Any) -> SourceFile:
    """Return the file of sources that the options of a command name, with its format."""
    return SourceFile(
        options.file,
        options.source_column,
        options.encoding,
        options.delimiter,
        options.header,
        options.sheet,
        options.follow,
    )


def run_job(
    command: str,
    job: Job,
    options: Any,
    inputs: Iterable[str | Path | None],
    on_output: Callable[[Output], None] | None = None,
) -> Faults:
    """Process the whole input of a job, or the part that the options name, report the faults and
    return them. `inputs` are the files that are read. Progress is not shown if `on_output` prints
    each output."""
    bulk: BulkOptions = options.bulk
    limits = cache(job.limits)
    if bulk.cluster is not None:
        source = job.input(warn)
        source.check_divisible()
        faults = _on_cluster(command, job, source, options, [str(name) for name in inputs if name])
    else:
        shard = Shard.parse(bulk.shard) if bulk.shard else None
        task = job.open(warn)
        source = task.source
        part = source.part_of(shard) if shard else None
        counted = None if on_output else options.output
        with counting_outputs(LABELS[command], counted) as on_finished:

            def finished(number: int, faults: Faults) -> None:
                on_finished(number)
                if source.follow:
                    _warn(faults, limits, None)
                    faults.clear()

            view = View(on_output or (lambda _: None), finished)
            faults = run(task, part, job.outputs, view)
    _warn(faults, limits, source.table)
    return faults


def _warn(faults: Faults, limits: Callable[[], Limits], table: SourceTable | None) -> None:
    for sentence in sentences(faults, limits() if faults.needs_limits else Limits(), table):
        warn(sentence)


def _on_cluster(
    command: str, job: Job, source: Input, options: Any, inputs: Sequence[str]
) -> Faults:
    from regard.cluster.bulk import ray_workers, run_in_chunks
    from regard.cluster.settings import Settings, contents_of, settings_of, states_of

    def settings() -> Settings:
        facts = states_of(inputs) if command == "caption" else contents_of(inputs)
        return settings_of(command, options, job.runs, facts)

    bulk: BulkOptions = options.bulk
    address = bulk.cluster or LOCAL
    warn(_start_line(address))
    workers = ray_workers(address, bulk.workers, bulk.gpus or 0.0)
    with PreparationView() as on_progress:
        return run_in_chunks(job, source, workers, settings, warn, on_progress)


def _start_line(address: str) -> str:
    """Return the line before the imports and the start of Ray, which take seconds."""
    if address == LOCAL:
        return "starting Ray on this machine: ten seconds or more"
    return f"connecting to the Ray cluster ({address})"
