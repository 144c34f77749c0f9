"""Start contestants, each in a process of its own on the same cores, and let them take turns."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import instruction_sets
from peers.environments import HERE, Environment, MissingError, last_line

Answer = dict[str, Any]


@dataclass(frozen=True)
class Contestant:
    """A participant: name in the table, driver, environment (None: this one), model, precision and
    batch size."""

    name: str
    driver: str
    model: str
    environment: Environment | None = None
    precision: str = "float32"
    batch_tokens: int = 4096


@dataclass(frozen=True)
class Place:
    """Corpus, working folder, device and cores of the contestants."""

    corpus: Path
    work: Path
    device: str
    core: int
    """The first core."""
    threads: int = 1
    """Number of threads, each with a core."""
    instruction_set: str | None = None
    """Largest instruction set that the contestants use."""

    def folder(self, contestant: Contestant, task: str) -> Path:
        name = f"{contestant.driver}-{contestant.model}-{contestant.precision}-{task}"
        folder = self.work / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def command(self, contestant: Contestant, task: str, folder: Path) -> list[str]:
        environment = contestant.environment
        python = Path(sys.executable) if environment is None else environment.python(self.work)
        flags = {
            "task": task,
            "model": contestant.model,
            "corpus": self.corpus,
            "work": folder,
            "device": self.device,
            "precision": contestant.precision,
            "batch_tokens": contestant.batch_tokens,
        }
        options = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
        return [str(python), "-m", f"peers.{contestant.driver}", *options]

    @property
    def variables(self) -> dict[str, str]:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        threads = dict.fromkeys(names, str(self.threads))
        limits = instruction_sets.variables(self.instruction_set)
        return {**os.environ, **threads, **limits, "TOKENIZERS_PARALLELISM": "false"}

    def pin(self) -> None:
        """Run this process on the given cores only. Call it in a new process."""
        if self.device == "cpu" and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, range(self.core, self.core + self.threads))


@dataclass
class Running:
    """A contestant whose process is running."""

    contestant: Contestant
    process: subprocess.Popen[str]
    log: Path
    facts: Answer = field(default_factory=dict)
    """Answer of the contestant when it was ready."""
    answers: list[Answer] = field(default_factory=list)

    def request(self, **task: Any) -> Answer:
        """Send a task to the contestant and return its answer."""
        if self.process.stdin is not None:
            print(json.dumps(task), file=self.process.stdin, flush=True)
        return self.receive()

    def receive(self) -> Answer:
        """Return the next answer of the contestant; MissingError if it has ended."""
        line = self.process.stdout.readline() if self.process.stdout else ""
        if line:
            return json.loads(line)
        self.process.wait()
        last = last_line(self.log.read_text(errors="replace"))
        raise MissingError(
            f"ended with {self.process.returncode}: {last} (complete log: {self.log})"
        )


@contextmanager
def started(contestants: list[Contestant], task: str, place: Place) -> Iterator[list[Running]]:
    """Start the contestants and yield those that are ready; print the reason for each that cannot
    start. At the end of the block, stop them."""
    with ExitStack() as stack:
        runs = []
        for contestant in contestants:
            print(f"starting {contestant.name}", file=sys.stderr, flush=True)
            try:
                running = stack.enter_context(_start(contestant, task, place))
                running.facts = running.receive()
            except MissingError as error:
                print(f"left out: {contestant.name}: {error}", flush=True)
                continue
            runs.append(running)
        yield runs


@contextmanager
def _start(contestant: Contestant, task: str, place: Place) -> Iterator[Running]:
    folder = place.folder(contestant, task)
    log = folder / "log.txt"
    with log.open("w", encoding="utf8") as output:
        process = subprocess.Popen(
            place.command(contestant, task, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            cwd=HERE.parent,  # the folder that contains `peers`
            env=place.variables,
            preexec_fn=place.pin,  # this process has no threads
        )
        try:
            yield Running(contestant, process, log)
        finally:
            process.kill()
            process.communicate()


def do(contestant: Contestant, task: str, place: Place, folder: Path) -> None:
    """Run a task without requests; MissingError if it fails."""
    command = place.command(contestant, task, folder)
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=HERE.parent, env=place.variables, check=False
    )
    if process.returncode:
        raise MissingError(f"{task} failed: {last_line(process.stderr)}")
