"""Worker: one thread that runs the models, with the waiting texts of all requests in batches.

    requests --submit--> queue --gather--> texts of one run, verb and setting
                                              |  sorted by length
                                              v
    responses <--finish-- results <--run--- batches

The thread takes the oldest job, and all waiting jobs with its run, verb and settings. So a busy
model never waits for requests, and its batches grow with the load.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any

from regard.errors import UserError, is_out_of_memory
from regard.runtime.wanted import UnwantedError, while_wanted
from regard.serving.api.errors import RETRY, RequestError
from regard.serving.api.limits import Limits
from regard.serving.api.verbs import Settings
from regard.serving.batches.jobs import Job
from regard.serving.batches.operations import Need, Operation

Operations = Mapping[str, Mapping[str, Operation]]
"""Operations by the names of runs and verbs."""
MIB = 1 << 20
BATCHES_AT_A_TIME = 8
"""Number of full batches whose texts are sorted by length together."""


@dataclass(frozen=True)
class Batch:
    """Counts of one batch, for metrics."""

    run: str
    verb: str
    num_texts: int
    num_tokens: int
    """Number of source tokens, without padding."""
    seconds: float


@dataclass(frozen=True)
class _Entry:
    """An item of a job, with its length in tokens."""

    job: Job
    index: int
    length: int
    need: Need


class Worker:
    """Thread that runs the models, and the queue of its jobs. The methods are called in the thread
    of the event loop, and `on_batch` in the worker's thread."""

    def __init__(
        self,
        load: Callable[[], Operations],
        limits: Limits,
        on_loaded: Callable[[], None],
        on_batch: Callable[[Batch], None],
    ) -> None:
        """`load` loads the models in the worker's thread. Then the event loop calls `on_loaded`,
        also if loading failed."""
        self._load = load
        self._limits = limits
        self._on_loaded = on_loaded
        self._on_batch = on_batch
        self._operations: Operations = {}
        self._waiting: deque[Job] = deque()
        self._changed = Condition()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs: set[Job] = set()
        self._thread = Thread(target=self._work, name="regard-worker", daemon=True)
        self.num_texts = 0
        """Number of texts of all jobs that are not finished."""
        self.max_jobs = limits.queue
        """Largest number of jobs that are not finished."""
        self.num_unread: Callable[[], int] = lambda: 0
        """Function that counts the bytes of responses that clients have not read."""
        self.error: Exception | None = None
        """Error of loading the models."""
        self._end: Exception | None = None
        """Error of all further jobs."""

    @property
    def is_loaded(self) -> bool:
        """Whether all models are loaded."""
        return bool(self._operations)

    def start(self) -> None:
        """Start the thread. Results go to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Put a job into the queue. RequestError (429) if the queue is full; after `abort`, its
        error."""
        if self._end is not None:
            raise self._end
        if len(self._jobs) >= self.max_jobs:
            raise RequestError(
                429, f"the queue has {len(self._jobs):,} requests: try again later", RETRY
            )
        if self.num_texts + len(job.items) > self._limits.queue:
            raise RequestError(
                429,
                f"the queue has {self.num_texts:,} texts, and its limit is "
                f"{self._limits.queue:,}: try again later",
                RETRY,
            )
        self.num_texts += len(job.items)
        self._jobs.add(job)
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        """Drop a job. A text of it in a running batch is completed without a use."""
        job.is_cancelled = True
        job.future.cancel()
        with self._changed:
            if job not in self._waiting:
                return  # the thread has it, and returns it
            self._waiting.remove(job)
        self._forget([job])

    def abort(self, error: Exception) -> None:
        """End all jobs, and all further ones, with an error."""
        self._end = error
        for job in list(self._jobs):
            job.fail(error)
            job.finish()
            self.cancel(job)

    def close(self, seconds: float) -> bool:
        """End the thread after its present jobs. Return whether it ended within this time."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _forget(self, jobs: Iterable[Job]) -> None:
        for job in self._jobs.intersection(jobs):
            self._jobs.remove(job)
            self.num_texts -= len(job.items)

    def _finish(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            job.finish()
            self._forget([job])

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the thread of the event loop, unless the loop has ended."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function, *arguments)

    def _work(self) -> None:
        """Load the models and run jobs until the worker is closed."""
        try:
            self._operations = self._load()
        except Exception as error:  # noqa: BLE001 - the event loop's thread raises it
            self.error = error
        self._call(self._on_loaded)
        while jobs := self._gather():
            try:
                self._run(jobs)
            except Exception as error:  # noqa: BLE001 - the responses report it
                for job in jobs:
                    job.fail(error)
                self._call(self._finish, jobs)

    def _gather(self) -> list[Job]:
        """Wait for jobs, and take those with the key of the oldest job out of the queue. Empty if
        the worker is closed."""
        with self._changed:
            while not (self._waiting or self._is_closed):
                self._changed.wait()
                if self._limits.window:
                    self._changed.wait_for(self._is_full, self._limits.window / 1000)
            if self._is_closed:
                return []
            limit = BATCHES_AT_A_TIME * self._limits.batch_texts
            jobs, rest, num_texts = list[Job](), deque[Job](), 0
            for job in self._waiting:
                if job.key == self._waiting[0].key and (not jobs or num_texts < limit):
                    jobs.append(job)
                    num_texts += len(job.items)
                else:
                    rest.append(job)
            self._waiting = rest
        return jobs

    def _is_full(self) -> bool:
        """Whether the queue has a full batch."""
        num_texts = sum(len(job.items) for job in self._waiting)
        return self._is_closed or num_texts >= self._limits.batch_texts

    def _run(self, jobs: Sequence[Job]) -> None:
        """Run jobs of one key, batch by batch."""
        run, verb, _ = jobs[0].key
        operation = self._operations[run][verb]
        of_jobs = [
            _entries(job, operation, self._limits.request_bytes) for job in jobs if job.is_wanted
        ]
        for entries in _groups(of_jobs, self._limits.request_bytes):
            if self.num_unread() > self._limits.request_bytes:
                for job in {entry.job for entry in entries}:
                    job.fail(
                        RequestError(503, "too many responses are not read: try again later", RETRY)
                    )
            self._run_entries(entries, operation, jobs[0].key)
        self._call(self._finish, [job for job in jobs if job.is_done])
        self._call(self._forget, jobs)

    def _run_entries(
        self, entries: Sequence[_Entry], operation: Operation, key: tuple[str, str, Settings]
    ) -> None:
        run, verb, settings = key
        for batch in _batches(entries, self._limits):
            wanted = [entry for entry in batch if entry.job.is_wanted]
            if not wanted:
                continue
            began = time.monotonic()
            _run_batch(wanted, operation, settings)
            seconds = time.monotonic() - began
            num_tokens = sum(entry.length for entry in wanted)
            self._on_batch(Batch(run, verb, len(wanted), num_tokens, seconds))
            self._call(self._finish, {entry.job for entry in wanted if entry.job.is_done})


def _groups(jobs: Iterable[list[_Entry]], max_bytes: int) -> Iterator[list[_Entry]]:
    """Yield the entries of consecutive jobs whose results take at most this number of bytes
    together."""
    group: list[_Entry] = []
    total = 0
    for entries in jobs:
        num_bytes = sum(entry.need.result for entry in entries)
        if group and total + num_bytes > max_bytes:
            yield group
            group, total = [], 0
        group += entries
        total += num_bytes
    if group:
        yield group


def _entries(job: Job, operation: Operation, max_bytes: int) -> list[_Entry]:
    """Return the entries of a job. A text that cannot be read, or would take too much memory, has
    its error as its result, unless all have; then, and for another error, the job has the first
    error."""
    lengths, errors, first = _lengths(job, operation)
    try:
        needs = operation.needs(list(lengths.values()), job.settings)
    except Exception as error:  # noqa: BLE001 - the response reports it
        needs, lengths, first = [], {}, _placed(error, job, 0)
    entries = []
    for (index, length), need in zip(lengths.items(), needs, strict=True):
        if need.decoding > max_bytes:
            errors[index] = _too_large(f"{job.place}[{index}]: decoding", need.decoding, max_bytes)
        else:
            entries.append(_Entry(job, index, length, need))
    first = first or next(iter(errors.values()), None)
    results = sum(entry.need.result for entry in entries)
    if results > max_bytes:
        errors[-1] = first = _too_large("the results of this request", results, max_bytes)
        entries = []
    if first is None:
        return entries
    if not entries or not all(isinstance(each, RequestError) for each in errors.values()):
        job.fail(first)
        return []
    for index, problem in errors.items():
        job.add(index, json.dumps({"error": str(problem)}, ensure_ascii=False))
    return entries


def _lengths(
    job: Job, operation: Operation
) -> tuple[dict[int, int], dict[int, Exception], Exception | None]:
    """Return the lengths of the texts that can be read, by their numbers, and the errors of the
    others with the first error."""
    try:
        return dict(enumerate(operation.lengths(job.items, job.settings))), {}, None
    except Exception as error:  # noqa: BLE001 - the response reports it
        first: Exception = error
    lengths, errors = dict[int, int](), dict[int, Exception]()
    for index, item in enumerate(job.items):
        try:
            lengths[index] = operation.lengths([item], job.settings)[0]
        except Exception as failure:  # noqa: BLE001 - the response reports it
            errors[index] = _placed(failure, job, index)
    return lengths, errors, next(iter(errors.values()), first)


def _too_large(what: str, num_bytes: int, max_bytes: int) -> RequestError:
    return RequestError(
        422,
        f"{what} may take {num_bytes / MIB:,.0f} MiB of memory: expected at most "
        f"{max_bytes / MIB:,.0f} MiB; leave attention out, or send shorter or fewer texts, a "
        "smaller beam or a smaller max_length",
    )


def _batches(entries: Iterable[_Entry], limits: Limits) -> Iterator[list[_Entry]]:
    """Yield batches of entries of similar lengths, the shortest first."""
    batch: list[_Entry] = []
    for entry in sorted(entries, key=lambda entry: entry.length):
        num_tokens = entry.length * (len(batch) + 1)  # the longest is last
        num_bytes = entry.need.decoding * (len(batch) + 1)
        is_full = num_tokens > limits.batch_tokens or num_bytes > limits.request_bytes
        if batch and (len(batch) == limits.batch_texts or is_full):
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch


def _run_batch(batch: Sequence[_Entry], operation: Operation, settings: Settings) -> None:
    """Add the results of a batch to its jobs. If the batch fails, its texts run one by one, so that
    the error of one text is no error of the others. If no job waits for its results any more, the
    batch stops between two steps."""
    began = time.monotonic()
    for entry in batch:
        entry.job.started = entry.job.started or began
    with suppress(UnwantedError):
        if len(batch) > 1:
            with suppress(_FailedError):
                _add_results(batch, operation, settings)
                return
        for entry in batch:
            if entry.job.is_wanted:
                try:
                    _add_results([entry], operation, settings)
                except _FailedError as failure:
                    entry.job.add(entry.index, _placed(failure.error, entry.job, entry.index))


class _FailedError(Exception):
    """An operation raised an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _add_results(batch: Sequence[_Entry], operation: Operation, settings: Settings) -> None:
    """Add the results of a batch to its jobs. UnwantedError if no job waits for them any more."""
    items = [entry.job.items[entry.index] for entry in batch]
    try:
        with while_wanted(lambda: any(entry.job.is_wanted for entry in batch)):
            results = operation.run(items, settings)
    except UnwantedError:
        raise
    except Exception as error:
        raise _FailedError(error) from error
    for entry, result in zip(batch, results, strict=True):
        if isinstance(result, Exception):
            result = _placed(result, entry.job, entry.index)
        entry.job.add(entry.index, result)


def _placed(error: Exception, job: Job, index: int) -> Exception:
    """Return an error that the client can correct with the place of its text. Others are
    unchanged."""
    if is_out_of_memory(error):
        return RequestError(503, "there is not enough memory now: try again later", RETRY)
    place = f"{job.place}[{index}]"
    if isinstance(error, RequestError):
        return RequestError(error.status, f"{place}: {error}", error.headers)
    if isinstance(error, UserError):
        from regard.tasks.generation import NotFiniteError

        if not isinstance(error, NotFiniteError):
            return RequestError(422, f"{place}: {error}")
    return error
