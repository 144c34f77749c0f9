"""A model over an input: the loop of every command that writes an output for each source.

Job --open--> Task     a record that any machine can open; a loaded model with its input
run: for each chunk of the input: call the model, write the outputs in order, count faults
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TextIO, TypeVar, runtime_checkable

from regard.errors import UserError
from regard.inference.faults import Faults, Limits
from regard.inference.parts import Part, Shard
from regard.inference.tables import RowWriter, open_wider_table, opened

if TYPE_CHECKING:
    from regard.data.files.source_table import AddedColumn, SourceTable
    from regard.data.files.tables import Row
    from regard.runtime.progress import OnProgress
    from regard.trace import Trace

Item = TypeVar("Item")


class Outputs(NamedTuple):
    """Files to write. None: an output that is not written; of texts, the standard output."""

    texts: Path | None
    alignments: Path | None = None
    trace: Path | None = None


@dataclass(frozen=True)
class Output:
    """Output for one source."""

    text: str
    """Lines without the last line end. They are not written if the output is a table."""
    row: Row | None = None
    cells: Sequence[str] = ()
    """Cells of the further columns of the row."""
    links: str = ""
    """Alignment links."""
    trace: Trace | None = None
    no_trace: str | None = None
    """Line in place of a trace; None for no line."""


@dataclass(frozen=True)
class Run:
    """Part of an input that is being processed."""

    part: Part | None
    """Part to process, or None for the whole input."""
    files: ExitStack
    """Open files."""
    faults: Faults


@dataclass(frozen=True)
class View:
    """Functions that take what a run has to show: by default nothing is shown."""

    on_output: Callable[[Output], None] = lambda _: None
    """Takes each output that was written."""
    on_finished: Callable[[int, Faults], None] = lambda *_: None
    """Takes the number of items of each chunk, and the faults up to it."""


@runtime_checkable
class Input(Protocol):
    """Input that can be divided."""

    @property
    def table(self) -> SourceTable | None:
        """Table whose rows are the input, if there is one."""
        ...

    @property
    def follow(self) -> bool:
        """Whether the input grows while it is read, so that faults are reported at once."""
        ...

    def check_divisible(self) -> None:
        """Raise a UserError if the input cannot be divided."""
        ...

    def part_of(self, shard: Shard) -> Part:
        """Return the part of a shard. UserError if the input cannot be divided."""
        ...

    def plan(self, on_progress: OnProgress) -> list[Part]:
        """Return all of the input as chunks."""
        ...


@runtime_checkable
class Task(Protocol):
    """A loaded model with its input."""

    @property
    def source(self) -> Input:
        """Input of the task."""
        ...

    @property
    def columns(self) -> Sequence[AddedColumn]:
        """Columns that are added to the table of the input; none if the output is no table."""
        ...

    def chunks(self, run: Run) -> Iterator[list[Any]]:
        """Open the input, and yield lists of items that are processed together."""
        ...

    def outputs(self, chunk: list[Any], run: Run) -> Iterator[Output]:
        """Yield the outputs for a list of items, and count faults."""
        ...


@runtime_checkable
class Job(Protocol):
    """Record of a task, which workers on other machines receive."""

    @property
    def runs(self) -> tuple[Path, ...]:
        """Run folders of the models."""
        ...

    @property
    def outputs(self) -> Outputs:
        """Files of the whole input."""
        ...

    def limits(self) -> Limits:
        """Read the limits for the sentences about faults, without loading the model."""
        ...

    def input(self, warn: Callable[[str], None]) -> Input:
        """Return the input. `warn` takes sentences about it."""
        ...

    def open(self, warn: Callable[[str], None]) -> Task:
        """Load the model. UserError if that fails."""
        ...


def run(task: Task, part: Part | None, outputs: Outputs, view: View = View()) -> Faults:
    """Process a part of the input, or all of it, write the outputs to these files, in the order of
    the input, and return the faults. Files are written completely or not at all."""
    with ExitStack() as files:
        state = Run(part, files, Faults())
        writer = _Writer.open(task, part, outputs, files)
        for chunk in task.chunks(state):
            for output in task.outputs(chunk, state):
                writer.add(output)
                view.on_output(output)
            (writer.texts or sys.stdout).flush()
            view.on_finished(len(chunk), state.faults)
        return state.faults


@dataclass
class _Writer:
    """Open files of outputs."""

    texts: TextIO | None
    """File of the texts, or None for the standard output."""
    alignments: TextIO | None
    traces: TextIO | None
    table: RowWriter | None

    @classmethod
    def open(cls, task: Task, part: Part | None, outputs: Outputs, files: ExitStack) -> _Writer:
        source = task.source.table if task.columns else None
        texts = None if source is not None else opened(files, outputs.texts)
        links, traces = opened(files, outputs.alignments), opened(files, outputs.trace)
        table = None
        if source is not None:
            table = open_wider_table(files, source, outputs.texts, task.columns, part)
        return cls(texts, links, traces, table)

    def add(self, output: Output) -> None:
        if self.table is None:
            (self.texts or sys.stdout).write(f"{output.text}\n")
        elif output.row is not None:
            self.table.add(output.row, output.cells)
        if self.alignments is not None:
            self.alignments.write(f"{output.links}\n")
        if self.traces is not None:
            line = output.no_trace if output.trace is None else output.trace.to_json()
            if line is not None:
                self.traces.write(f"{line}\n")


def within_memory(
    chunks: Iterable[list[Item]], split: Callable[[list[Item]], Iterable[Sequence[Any]]]
) -> Iterator[list[Item]]:
    """Yield smaller lists of items, whose attention fits into the memory. `split` returns the parts
    of a list, of whose items only the number is used."""
    for chunk in chunks:
        rest = iter(chunk)
        for part in split(chunk):
            yield list(islice(rest, len(part)))


@contextmanager
def naming_lines(lines: Sequence[int]) -> Iterator[None]:
    """Name the line in the error of a text that would take too much memory. `lines` are the lines
    of the texts, from 1."""
    from regard.tasks.memory import MemoryLimitError

    try:
        yield
    except MemoryLimitError as error:
        if error.place is None:
            raise
        raise UserError(f"line {lines[error.place]}: {error.reason}") from error
