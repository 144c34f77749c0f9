"""Compare the training speed of two processes with that of one, for each family of models.

    python benchmarks/processes.py DATA        # DATA: Multi30k's train, val and test_2016_flickr

Each family trains in one process with one thread, in one process with two threads, and in two
processes with one thread each. All have the same batches, and take turns: a process that waits for
its turn does not run. A measured update has what an update of `regard train` has: forward and
backward pass, Adam, the sum of the losses and the agreement whether training goes on.

Communication: in other turns the two processes do the same work without communicating, so each has
gradients of its own shares. The share of time in communication is

    1 - (time of an update without communication) / (time of an update)

where the first time is that of the slower process. It has the time of the transfers that do not run
beside the backward pass, and the waiting of the processes for each other.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch.nn.parallel import DistributedDataParallel

from regard import recipes
from regard.config import Experiment, resolve
from regard.corpora import splits
from regard.pipeline.train import settings_of
from regard.runtime import processes
from regard.tasks.all_tasks import task_of
from regard.training import loop
from regard.training.parallel.replicas import replica_of
from regard.training.schedule import Progress

FAMILIES = {
    "LSTM, Luong": "multi30k-luong",
    "GRU, Bahdanau": "multi30k-bahdanau",
    "Transformer": "multi30k-transformer",
    "ConvS2S": "multi30k-convs2s",
}
SETUPS = ((1, 1), (1, 2), (2, 1))
"""Numbers of processes, and of threads of each."""


@dataclass(frozen=True)
class Turn:
    """Seconds of the updates of one turn, and the number of target tokens in them."""

    seconds: float
    words: int
    communicates: bool


@dataclass(frozen=True)
class Result:
    """Measurements of one family in one setup."""

    num_processes: int
    num_threads: int
    turns: tuple[Turn, ...]

    def speed(self, *, communicates: bool = True) -> float:
        """Return target tokens per second, median of the turns."""
        turns = [turn for turn in self.turns if turn.communicates == communicates]
        return median(turn.words / turn.seconds for turn in turns)

    @property
    def communication(self) -> float:
        """Share of time in communication. A turn without communication follows each turn, so that
        other load affects both."""
        pairs = zip(self.turns[::2], self.turns[1::2], strict=True)
        return 1 - median(
            (alone.seconds / alone.words) / (together.seconds / together.words)
            for together, alone in pairs
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--updates", type=int, default=20, help="updates of a turn")
    parser.add_argument("--turns", type=int, default=4)
    options = parser.parse_args()
    rows = {}
    for family in options.families:
        experiment = on_multi30k(recipes.load(recipes.find(FAMILIES[family])), options.data)
        rows[family] = measure(experiment, options.updates, options.turns)
        print(family, [round(result.speed()) for result in rows[family]], file=sys.stderr)
    print(table(rows))


def on_multi30k(experiment: Experiment, folder: Path) -> Experiment:
    """Return an experiment with the files of a folder."""
    names = {"path": "train.en", "target_path": "train.de"}
    names |= {"dev_path": "val.en", "dev_target_path": "val.de"}
    paths = {
        field: next(path for path in sorted(folder.iterdir()) if path.name.startswith(name))
        for field, name in names.items()
    }
    data = replace(experiment.data, **paths, dev_size=None, test_size=0)  # type: ignore[arg-type]
    return replace(experiment, data=data)


def measure(experiment: Experiment, num_updates: int, num_turns: int) -> list[Result]:
    """Measure every setup of an experiment, in turns."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        recipe = Path(folder) / "recipe.yaml"
        recipe.write_text(recipes.dump(experiment), encoding="utf8")
        workers = []
        for setup in SETUPS:
            workers.append(Workers(recipe, *setup))
            running.callback(workers[-1].end)
            workers[-1].wait_until_ready()  # the next setup reads the cache that this one wrote
        turns: list[list[Turn]] = [[] for _ in workers]
        for _ in range(num_turns):
            for place, each in enumerate(workers):
                turns[place].append(each.turn(num_updates, communicates=True))
                if each.num_processes > 1:
                    turns[place].append(each.turn(num_updates, communicates=False))
    return [Result(*setup, tuple(part)) for setup, part in zip(SETUPS, turns, strict=True)]


class Workers:
    """Processes of one setup. They wait for a line with the number of updates and whether to
    communicate, and answer with a line."""

    def __init__(self, recipe: Path, num_processes: int, num_threads: int) -> None:
        self.num_processes = num_processes
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        environment = {**os.environ, "OMP_NUM_THREADS": str(num_threads)}
        if num_processes > 1:
            environment |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
            environment |= {"WORLD_SIZE": str(num_processes)}
        self._running = [
            subprocess.Popen(
                [sys.executable, __file__, "--worker", str(recipe)],
                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(num_processes)
        ]

    def wait_until_ready(self) -> None:
        self._answers()

    def turn(self, num_updates: int, *, communicates: bool) -> Turn:
        self._send({"updates": num_updates, "communicates": communicates})
        answers = self._answers()
        seconds = max(answer["seconds"] for answer in answers)
        return Turn(seconds, answers[0]["words"], communicates)

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def _send(self, value: object) -> None:
        for process in self._running:
            if process.stdin is None:
                raise ValueError("a worker has no standard input")
            process.stdin.write(json.dumps(value) + "\n")
            process.stdin.flush()

    def _answers(self) -> list[dict[str, Any]]:
        lines = [process.stdout.readline() for process in self._running if process.stdout]
        if not all(lines):
            raise SystemExit("a worker ended: see its message above")
        return [json.loads(line) for line in lines]


def work(recipe: Path) -> None:
    """Run one process of a setup."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with processes.connected():
        for answer in updates_of(resolve(recipes.load(recipe)), map(json.loads, sys.stdin)):
            print(json.dumps(answer), flush=True)


def updates_of(experiment: Experiment, turns: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield an empty answer when the model is ready, and the seconds and words of each turn."""
    split = splits.read(experiment.data)
    setup = task_of(experiment.data).prepare(experiment, split, None, None)
    settings = settings_of(experiment.training, setup.objective, "float32")
    replica = replica_of(setup.model, settings.objective)
    adam = settings.optimiser.build(setup.model)
    replica.train()
    steps = loop.training_steps(setup.batches, 1, 0, settings.accumulate)
    update = 0

    def run(num_updates: int) -> int:
        nonlocal update
        words = 0
        for step in islice(steps, num_updates):
            loop._agreed(None)
            update += 1
            progress = Progress(update, 1_000_000)
            losses = loop.forward_and_backward(replica, settings, progress, step.batches)
            settings.optimiser.step(adam, progress)
            words += losses.words
        return words

    run(3)
    yield {}
    for turn in turns:
        processes.largest(0)  # so that all begin at once
        with communication(turn["communicates"]):
            began = time.perf_counter()
            words = run(turn["updates"])
            yield {"seconds": time.perf_counter() - began, "words": words}


def _without_sums(replica: DistributedDataParallel, *, are_last: bool) -> Any:
    del are_last
    return replica.no_sync()


@contextmanager
def communication(communicates: bool) -> Iterator[None]:
    """Whether the processes communicate in the block."""
    if communicates:
        yield
        return
    with (
        patch.object(loop, "sums_of_gradients", _without_sums),
        patch.object(loop, "add_up", lambda sums: torch.stack(list(sums)).sum(dim=0)),
        patch.object(loop, "_agreed", lambda reason: reason),
    ):
        yield


def table(rows: dict[str, list[Result]]) -> str:
    """Return the table of docs/scale.md."""
    lines = [
        "| | target tokens/s: 1 process, 1 thread | 1 process, 2 threads | 2 processes "
        "| speed-up over 1 thread | over 2 threads | communication |",
        "|---|---|---|---|---|---|---|",
    ]
    for family, (one, threads, two) in rows.items():
        speeds = " | ".join(f"{result.speed():,.0f}" for result in (one, threads, two))
        ratios = " | ".join(f"{two.speed() / other.speed():.2f}x" for other in (one, threads))
        lines.append(f"| {family} | {speeds} | {ratios} | {two.communication:.0%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        work(Path(sys.argv[2]))
    else:
        main()
