"""Protocol between a contestant and the benchmark that started it.

Every contestant, Regard included, runs in a process of its own, because each has its own
environment. It gets ready and then waits for tasks, so that contestants take turns on one core:

    benchmark   {"seconds": 20}                                           train for 20 seconds
    contestant  {"wall": 20.3, "cpu": 20.1, "updates": 9, "source": ...}

    benchmark   {"beam": 5, "batch": 64, "sentences": 1000, "tokens": 15}  translate 1000 sentences
    contestant  {"wall": 7.1, "cpu": 7.0, "sentences": 1000, "written": 15000}

This module imports only Python's standard library, because other environments import it too.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

# Settings of all LSTMs. The bidirectional encoder has half of HIDDEN in each direction.
HIDDEN, EMBEDDING = 256, 256
LSTM_DROPOUT, TRANSFORMER_DROPOUT, LABEL_SMOOTHING, CLIP = 0.2, 0.1, 0.1, 1.0


@dataclass(frozen=True)
class Sizes:
    """Sizes of a Transformer whose embeddings and output share one matrix. The dropout applies to
    sublayers and to attention weights."""

    size: int
    feed_forward: int
    heads: int
    layers: int


SIZES = {
    "transformer": Sizes(256, 1024, 4, 3),
}

PAD, START, END, UNKNOWN = "<pad>", "<sos>", "<eos>", "<unk>"
"""Special tokens, at the beginning of the vocabulary in this order."""


@dataclass(frozen=True)
class Task:
    """Task for which a contestant is started."""

    task: str
    """train or decode."""
    model: str
    """luong, bahdanau, or one of SIZES."""
    corpus: Path
    """Folder with train, val and test as subwords (`train.pieces.en`) and `vocabulary.txt`."""
    work: Path
    """A folder of the contestant's own."""
    device: str
    """cpu or cuda."""
    precision: str
    """float32, bfloat16 or, for CTranslate2, int8."""
    batch_tokens: int
    """Maximum number of positions of a batch's longer side."""

    def pieces(self, part: str, side: str) -> Path:
        return self.corpus / f"{part}.pieces.{side}"

    @property
    def vocabulary(self) -> list[str]:
        """Return all subwords, beginning with the special tokens."""
        text = (self.corpus / "vocabulary.txt").read_text(encoding="utf8")
        return text.rstrip("\n").split("\n")

    def lines(self, part: str, side: str) -> list[list[str]]:
        text = self.pieces(part, side).read_text(encoding="utf8")
        return [line.split(" ") for line in text.rstrip("\n").split("\n")]


def task() -> Task:
    """Return the task of this process, from its arguments."""
    parser = argparse.ArgumentParser()
    for field in fields(Task):
        parser.add_argument(f"--{field.name}", required=True)
    options = vars(parser.parse_args())
    paths = {name: Path(options[name]) for name in ("corpus", "work")}
    return Task(**{**options, **paths, "batch_tokens": int(options["batch_tokens"])})


class Benchmark:
    """Connection to the benchmark. Output of libraries is redirected to standard error."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf8")
        os.dup2(2, 1)

    def send(self, **facts: Any) -> None:
        print(json.dumps(facts), file=self._answers, flush=True)

    def next_task(self) -> dict[str, Any]:
        """Return the next task. End this process at once if the benchmark has closed its side."""
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        return json.loads(line)


class Clock:
    """Wall-clock and CPU seconds since the clock was created. CPU seconds are more reliable on a
    shared machine."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._wall

    def read(self) -> dict[str, float]:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        cpu = time.process_time() - self._cpu
        return {"wall": self.wall, "cpu": cpu, "peak_mb": used}


@dataclass
class Counts:
    """Counts of one or several updates. Source tokens exclude the end token that some contestants
    add; positions include padding."""

    updates: int = 1
    sentences: int = 0
    source: int = 0
    target: int = 0
    source_positions: int = 0
    target_positions: int = 0

    def add(self, other: "Counts") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Stopwatch:
    """Counter that is called after every update. The first update is not counted.

    Between two tasks, the training loop waits inside the call."""

    def __init__(
        self, benchmark: Benchmark, synchronise: Callable[[], None] | None = None, **facts: Any
    ) -> None:
        """`facts` are sent when the contestant is ready; `synchronise` waits for a GPU."""
        self._benchmark = benchmark
        self._synchronise = synchronise or (lambda: None)
        self._facts = facts
        self._seconds: float | None = None
        self._clock, self._counts = Clock(), Counts(updates=0)

    def __call__(self, counts: Counts) -> None:
        if self._seconds is None:
            self._benchmark.send(ready=True, **self._facts)
        else:
            self._counts.add(counts)
            if self._clock.wall < self._seconds:
                return
            self._synchronise()
            self._benchmark.send(**self._clock.read(), **asdict(self._counts))
        self._seconds = self._benchmark.next_task()["seconds"]
        self._clock, self._counts = Clock(), Counts(updates=0)


Prepare = Callable[[dict[str, Any]], Callable[[], int]]
"""Function from a task (beam, batch, sentences, tokens) to a function that decodes and returns the
number of tokens. Models are loaded in the first part, which is not timed."""


def answer_decoding(benchmark: Benchmark, prepare: Prepare) -> None:
    """Decode for every task."""
    prepare({"beam": 5, "batch": 4, "sentences": 4, "tokens": 15})()
    benchmark.send(ready=True)
    while True:
        task = benchmark.next_task()
        decode = prepare(task)
        clock = Clock()
        written = decode()
        benchmark.send(**clock.read(), sentences=task["sentences"], written=written)
