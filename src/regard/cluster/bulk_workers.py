"""Workers on a Ray cluster: actors of Ray Data, each with its own copy of the model.

Ray Data distributes the numbers of chunks. The actors read the input and write the outputs as
files, so that a chunk is finished once and the order of the results does not matter. Ray Data
starts another actor for one that was killed, and repeats its chunk.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.data

from regard.cluster.chunk_folder import ChunkFolder
from regard.cluster.connection import LOCAL, check_node, connected
from regard.errors import UserError
from regard.inference.loop import Job, Task, run
from regard.inference.parts import Part

PROBLEM = "problem"
"""Name of the column of messages; empty if a chunk is finished."""
ENVIRONMENT = {"RAY_BACKEND_LOG_LEVEL": "fatal"}
"""Ray reports the restart of an actor as an error. Values that the user has set take precedence."""


@dataclass(frozen=True)
class RayWorkers:
    """Workers on the nodes of a Ray cluster, each with one CPU."""

    address: str
    """Address as of `ray.init`: "local" starts Ray on this machine, "auto" finds a running one."""
    num_workers: int | None = None
    """Number of workers; None for as many as the cluster's resources allow."""
    num_gpus: float = 0
    """Number of GPUs of each worker."""

    def run(
        self,
        job: Job,
        folder: ChunkFolder,
        chunks: Sequence[Part],
        on_started: Callable[[int], None],
        on_finished: Callable[[], None],
    ) -> None:
        """Process chunks. `on_started` takes the number of workers before the first chunk, and
        `on_finished` is called after each chunk. UserError if a worker raises one, or ends with
        another error."""
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        num_cpus = None
        if self.address == LOCAL and self.num_workers is not None:
            num_cpus = max(self.num_workers, os.cpu_count() or 1)
        with connected(self.address, "--cluster", num_cpus):
            check_node(1, self.num_gpus, "a worker", "--gpus")
            num_workers = min(self._num_workers(), len(chunks))
            on_started(num_workers)
            self._run(job, folder, chunks, num_workers, on_finished)

    def _run(
        self,
        job: Job,
        folder: ChunkFolder,
        chunks: Sequence[Part],
        num_workers: int,
        on_finished: Callable[[], None],
    ) -> None:
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        parts = ray.data.from_items(
            [asdict(part) for part in chunks], override_num_blocks=len(chunks)
        )
        results = parts.map_batches(
            ChunkActor,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=num_workers),
            fn_constructor_args=(job, folder, Path.cwd()),
            num_cpus=1,
            num_gpus=self.num_gpus,
        )
        try:
            for result in results.iter_rows():
                if result[PROBLEM]:
                    raise UserError(result[PROBLEM])
                on_finished()
        except ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(
                f"a worker failed: {lines[-1]}; finished chunks are kept in {folder.path}: repeat "
                "the command to continue"
            ) from error

    def _num_workers(self) -> int:
        """Return the number of workers that the resources of the cluster allow."""
        resources = ray.cluster_resources()
        number = int(resources.get("CPU", 1))
        if self.num_gpus:
            number = min(number, int(resources.get("GPU", 0) / self.num_gpus))
        return max(1, number if self.num_workers is None else min(number, self.num_workers))


class ChunkActor:
    """A process that holds a model and processes chunks."""

    def __init__(self, job: Job, folder: ChunkFolder, directory: Path) -> None:
        """`directory` is the folder in which the command was started."""
        self._job = job
        self._folder = folder
        self._directory = directory
        self._task: Task | None = None

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        """Process the chunks of a batch and return a message for each, empty if it succeeded."""
        columns = [batch[name].tolist() for name in Part.__dataclass_fields__]
        return {PROBLEM: [self._problem(Part(*row)) for row in zip(*columns, strict=True)]}

    def _problem(self, part: Part) -> str:
        try:
            if self._task is None:
                self._task = self._open()
            self._folder.run(partial(run, self._task), part)
        except UserError as error:
            return str(error)
        return ""

    def _open(self) -> Task:
        try:
            os.chdir(self._directory)
            has_manifest = self._folder.has_manifest
        except OSError:
            has_manifest = False
        if not has_manifest:
            raise UserError(
                f"node {socket.gethostname()} does not have {self._directory / self._folder.path}: "
                "all nodes need the same folders, as on a shared file system"
            )
        return self._job.open(lambda _: None)
