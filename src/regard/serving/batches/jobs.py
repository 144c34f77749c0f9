"""Jobs: the texts of a request with their results, on the way between event loop and worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.serving.api.verbs import Settings
from regard.serving.batches.operations import Result


@dataclass(eq=False)
class Job:
    """Texts, pairs or images of one request. The worker fills in the results; the future, which
    belongs to the event loop, is set when all are there."""

    run: str
    verb: str
    items: Sequence[Any]
    settings: Settings
    deadline: float
    """Time of `time.monotonic` after which nobody waits for the results."""
    place: str = "texts"
    """Name of the items in messages."""
    future: asyncio.Future[list[str]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    submitted: float = field(default_factory=time.monotonic)
    started: float | None = None
    """Time when the first batch with a text of the job began."""
    is_cancelled: bool = False

    def __post_init__(self) -> None:
        self._results: list[str | None] = [None] * len(self.items)
        self._missing = len(self.items)
        self.error: Exception | None = None

    @property
    def key(self) -> tuple[str, str, Settings]:
        """Key that jobs of one batch have in common."""
        return self.run, self.verb, self.settings

    @property
    def is_done(self) -> bool:
        """Whether the job has its results or an error."""
        return self.error is not None or not self._missing

    @property
    def is_wanted(self) -> bool:
        """Whether the job has texts without results, and its client waits for them."""
        return not (self.is_done or self.is_cancelled or time.monotonic() > self.deadline)

    def add(self, index: int, result: Result) -> None:
        """Add the result of an item. The first error is that of the job."""
        if isinstance(result, Exception):
            self.fail(result)
        elif self._results[index] is None:
            self._results[index] = result
            self._missing -= 1

    def fail(self, error: Exception) -> None:
        """End the job with an error, unless it has one."""
        self.error = self.error or error

    def finish(self) -> None:
        """Set the future, in the thread of the event loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result([result for result in self._results if result is not None])
