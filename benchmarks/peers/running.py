"""Starts contestants, each in its own process on one core, and lets them take turns."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peers.environments import HERE, Environment, MissingError, last_line

Answer = dict[str, Any]


@dataclass(frozen=True)
class Contestant:
    """Who takes part: a name in the table, a driver, the environment it needs (None: this one), and
    what it is asked to be."""

    name: str
    driver: str
    model: str
    environment: Environment | None = None
    precision: str = "float32"
    batch_tokens: int = 4096


@dataclass(frozen=True)
class Place:
    """Where contestants run."""

    corpus: Path
    work: Path
    device: str
    core: int

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
        given = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
        return [str(python), "-m", f"peers.{contestant.driver}", *given]

    @property
    def variables(self) -> dict[str, str]:
        one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        return {**os.environ, **one, "TOKENIZERS_PARALLELISM": "false"}

    def pin(self) -> None:
        """To be called in a new process."""
        if self.device == "cpu" and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {self.core})


@dataclass
class Running:
    """A contestant that has been started."""

    contestant: Contestant
    process: subprocess.Popen[str]
    log: Path
    facts: Answer = field(default_factory=dict)
    """What it said when it was ready."""
    answers: list[Answer] = field(default_factory=list)

    def project_queries(self, **task: Any) -> Answer:
        if self.process.stdin is not None:
            print(json.dumps(task), file=self.process.stdin, flush=True)
        return self.hear()

    def hear(self) -> Answer:
        """What it says next; MissingError where it has ended instead."""
        line = self.process.stdout.readline() if self.process.stdout else ""
        if line:
            return json.loads(line)
        self.process.wait()
        last = last_line(self.log.read_text(errors="replace"))
        raise MissingError(f"ended with {self.process.returncode}: {last} (all of it: {self.log})")


@contextmanager
def started(contestants: list[Contestant], task: str, place: Place) -> Iterator[list[Running]]:
    """All that can be started, ready for their turns; who cannot is named with the reason. At the
    end of the block they are ended."""
    with ExitStack() as stack:
        found = []
        for contestant in contestants:
            print(f"starting {contestant.name}", file=sys.stderr, flush=True)
            try:
                running = stack.enter_context(_start(contestant, task, place))
                running.facts = running.hear()
            except MissingError as error:
                print(f"left out: {contestant.name}: {error}", flush=True)
                continue
            found.append(running)
        yield found


@contextmanager
def _start(contestant: Contestant, task: str, place: Place) -> Iterator[Running]:
    folder = place.folder(contestant, task)
    log = folder / "log.txt"
    with log.open("w", encoding="utf8") as said:
        process = subprocess.Popen(
            place.command(contestant, task, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=HERE.parent,  # where `peers` is found
            env=place.variables,
            preexec_fn=place.pin,  # this process has no threads
        )
        try:
            yield Running(contestant, process, log)
        finally:
            process.kill()
            process.communicate()


def do(contestant: Contestant, task: str, place: Place, folder: Path) -> None:
    """Run a task that nothing is asked of; MissingError where it fails."""
    command = place.command(contestant, task, folder)
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=HERE.parent, env=place.variables, check=False
    )
    if done.returncode:
        raise MissingError(f"{task} failed: {last_line(done.stderr)}")
