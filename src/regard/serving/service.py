"""Service: the runs that are served, their worker, and the state that requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from regard.config import SearchConfig
from regard.errors import UserError
from regard.runs.ensemble import all_members
from regard.runs.folder import RunFolder
from regard.serving.api.errors import RETRY, RequestError
from regard.serving.api.limits import Limits
from regard.serving.api.verbs import VERBS, VERBS_OF_TASKS, Verb
from regard.serving.batches.operations import Operation
from regard.serving.batches.worker import Operations, Worker
from regard.serving.logs import log_event
from regard.serving.metrics import Metrics
from regard.storage.files import resolved


@dataclass(frozen=True)
class ServedRun:
    """A run, or an ensemble, with the name of its paths."""

    name: str
    verbs: tuple[Verb, ...]
    search: SearchConfig
    load: Callable[[], Mapping[str, Operation]] = field(compare=False)
    """Function that loads the model and returns its operations by the names of their verbs."""


@dataclass(frozen=True)
class Access:
    """Clients that the service answers."""

    token: str | None = None
    """Token that requests must have in their header Authorization; None for no token."""
    hosts: tuple[str, ...] = ()
    """Names of this service in the header Host, besides localhost and IP addresses."""


def served_runs(
    paths: Sequence[str | Path],
    device: str = "auto",
    limits: Limits | None = None,
    exceptions: Path | None = None,
) -> tuple[ServedRun, ...]:
    """Return runs with the names of their folders, before their models are loaded. UserError if a
    folder has no run, for two folders of one name, and for a file of exceptions of several runs or
    of a run with captions."""
    limits = limits or Limits()
    runs: dict[str, ServedRun] = {}
    for path in map(Path, paths):
        name = resolved(path).name
        if name in runs:
            raise UserError(
                f"two runs have the name {name}, which is part of their paths: rename a folder"
            )
        experiment = RunFolder(all_members((path,))[0]).experiment()
        names = VERBS_OF_TASKS[experiment.data.task]
        runs[name] = ServedRun(
            name,
            tuple(VERBS[verb] for verb in names),
            experiment.search,
            partial(_load, path, device, limits.trace_numbers, exceptions),
        )
        if exceptions is not None and (len(paths) > 1 or "translate" not in names):
            raise UserError(
                "--exceptions is for one run that translates: serve that run alone, or leave the "
                "option out"
            )
    return tuple(runs.values())


def _load(
    path: Path, device: str, max_numbers: int, exceptions: Path | None
) -> Mapping[str, Operation]:
    from regard.pipeline.load import load
    from regard.serving.batches.operations import operations_of

    return operations_of(load(path, device=device), max_numbers, exceptions)


class Service:
    """State of a service: its runs, its worker, its bounds and its metrics."""

    def __init__(
        self, runs: Sequence[ServedRun], limits: Limits | None = None, access: Access | None = None
    ) -> None:
        self.runs = {run.name: run for run in runs}
        self.limits = limits or Limits()
        self.access = access or Access()
        self.held_bytes = 0
        """Size of the bodies of all requests that are not answered yet."""
        self.is_stopping = False
        self.end_server: Callable[[], None] = lambda: None
        """Function that ends the server. It is called if a model cannot be loaded."""
        self.when_loaded: Callable[[], None] = lambda: None
        """Function that is called when all models are loaded."""
        self.num_unread = 0
        """Number of bytes of responses that are not sent yet."""
        self.loaded = asyncio.Event()
        """Event of the end of loading, also if that failed."""
        self.metrics = Metrics(lambda: self.worker.num_texts, lambda: self.held_bytes)
        self.worker = Worker(self._load_all, self.limits, self._report, self.metrics.add_batch)
        self.worker.num_unread = lambda: self.num_unread

    def _load_all(self) -> Operations:
        return {name: run.load() for name, run in self.runs.items()}

    def _report(self) -> None:
        """Report that the models are loaded, or that loading failed."""
        self.loaded.set()
        if self.worker.error is None:
            self.when_loaded()
            log_event("ready", runs=list(self.runs))
        else:
            self.end_server()

    @property
    def problem(self) -> str:
        """Reason why the service is not ready; empty if it is ready."""
        if self.is_stopping:
            return "the service is shutting down"
        return "" if self.worker.is_loaded else "the models are being loaded"

    def check_loaded(self) -> None:
        """Raise a RequestError (503) unless the models are loaded."""
        if not self.worker.is_loaded:
            raise RequestError(503, self.problem, RETRY)

    @contextmanager
    def held(self) -> Iterator[HeldBytes]:
        """Count the bytes of a body until the block ends."""
        held = HeldBytes(self)
        try:
            yield held
        finally:
            self.held_bytes -= held.num_bytes

    def stop(self) -> None:
        """Report from now on that the service is not ready."""
        self.is_stopping = True

    def abort(self) -> None:
        """Answer all open requests with status 503."""
        self.worker.abort(RequestError(503, "the service is shutting down", RETRY))


@dataclass
class HeldBytes:
    """Bytes of one body."""

    service: Service
    num_bytes: int = 0

    def add(self, number: int) -> None:
        """Count bytes. RequestError (429) if all bodies together have too many."""
        self.num_bytes += number
        self.service.held_bytes += number
        if self.service.held_bytes > self.service.limits.held_bytes:
            raise RequestError(
                429, "the service holds too many bytes of open requests: try again later", RETRY
            )
