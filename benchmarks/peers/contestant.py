"""What a contestant and the benchmark that started it say to each other.

Every contestant, ours too, runs in a process of its own, since each has its own environment. It
makes ready, and then works when it is told to, so that contestants can take turns on one core:

    benchmark   {"seconds": 20}                                           train for so long
    contestant  {"wall": 20.3, "cpu": 20.1, "updates": 9, "source": ...}

    benchmark   {"beam": 5, "batch": 64, "sentences": 1000, "tokens": 15}  translate so many
    contestant  {"wall": 7.1, "cpu": 7.0, "sentences": 1000, "written": 15000}

Nothing here but Python's own library: other environments import it too.
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

# What all LSTMs have in common. The bidirectional encoder has half of HIDDEN in each direction.
HIDDEN, EMBEDDING = 256, 256
LSTM_DROPOUT, TRANSFORMER_DROPOUT, LABEL_SMOOTHING, CLIP = 0.2, 0.1, 0.1, 1.0


@dataclass(frozen=True)
class Sizes:
    """Of a Transformer, whose embeddings of both sides and output are one. The dropout is that of
    sublayers and of attention."""

    size: int
    feed_forward: int
    heads: int
    layers: int


SIZES = {
    "transformer": Sizes(256, 1024, 4, 3),
    "transformer-base": Sizes(512, 2048, 8, 6),  # Vaswani et al. 2017, table 3
}

PAD, START, END, UNKNOWN = "<pad>", "<sos>", "<eos>", "<unk>"
"""The special tokens, which stand first in the vocabulary, in this order."""


@dataclass(frozen=True)
class Task:
    """What a contestant is started for."""

    task: str
    """train or decode."""
    model: str
    """luong, bahdanau, or one of SIZES."""
    corpus: Path
    """Folder with train, val and test in pieces (`train.pieces.en`) and `vocabulary.txt`."""
    work: Path
    """A folder of the contestant's own."""
    device: str
    """cpu or cuda."""
    precision: str
    """float32, bfloat16 or, for CTranslate2, int8."""
    batch_tokens: int
    """The most positions of a batch's longer side."""

    def pieces(self, part: str, side: str) -> Path:
        return self.corpus / f"{part}.pieces.{side}"

    @property
    def vocabulary(self) -> list[str]:
        """All pieces, the special tokens first."""
        text = (self.corpus / "vocabulary.txt").read_text(encoding="utf8")
        return text.rstrip("\n").split("\n")

    def lines(self, part: str, side: str) -> list[list[str]]:
        text = self.pieces(part, side).read_text(encoding="utf8")
        return [line.split(" ") for line in text.rstrip("\n").split("\n")]


def task() -> Task:
    """What this process was started for."""
    parser = argparse.ArgumentParser()
    for field in fields(Task):
        parser.add_argument(f"--{field.name}", required=True)
    given = vars(parser.parse_args())
    paths = {name: Path(given[name]) for name in ("corpus", "work")}
    return Task(**{**given, **paths, "batch_tokens": int(given["batch_tokens"])})


class Benchmark:
    """The one who asks. Whatever libraries print goes to the standard error."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf8")
        os.dup2(2, 1)

    def tell(self, **facts: Any) -> None:
        print(json.dumps(facts), file=self._answers, flush=True)

    def project_queries(self) -> dict[str, Any]:
        """What to do next. Where nothing is, this process ends at once, whatever it is in."""
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        return json.loads(line)


class Clock:
    """Wall-clock and this process's own seconds since it was made: with neighbours on the machine
    the second says more."""

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
    """Of one update or many. Source tokens are pieces, without the end that some add; positions are
    what the tensors hold, padding included."""

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
    """Called after every update with what it trained on. The first is not counted: it makes ready.

    Between two tasks the training loop simply waits in here."""

    def __init__(
        self, benchmark: Benchmark, synchronise: Callable[[], None] | None = None, **facts: Any
    ) -> None:
        """`facts` are told when the contestant is ready; `synchronise` waits for a GPU."""
        self._benchmark = benchmark
        self._synchronise = synchronise or (lambda: None)
        self._facts = facts
        self._seconds: float | None = None
        self._clock, self._counts = Clock(), Counts(updates=0)

    def __call__(self, counts: Counts) -> None:
        if self._seconds is None:
            self._benchmark.tell(ready=True, **self._facts)
        else:
            self._counts.add(counts)
            if self._clock.wall < self._seconds:
                return
            self._synchronise()
            self._benchmark.tell(**self._clock.read(), **asdict(self._counts))
        self._seconds = self._benchmark.project_queries()["seconds"]
        self._clock, self._counts = Clock(), Counts(updates=0)


Prepare = Callable[[dict[str, Any]], Callable[[], int]]
"""From what is asked (beam, batch, sentences, tokens) to what does it and says how many tokens it
wrote. Loading a model belongs to the first part, which is not timed."""


def answer_decoding(benchmark: Benchmark, prepare: Prepare) -> None:
    """Decode whenever it is asked for."""
    prepare({"beam": 5, "batch": 4, "sentences": 4, "tokens": 15})()
    benchmark.tell(ready=True)
    while True:
        asked = benchmark.project_queries()
        decode = prepare(asked)
        clock = Clock()
        written = decode()
        benchmark.tell(**clock.read(), sentences=asked["sentences"], written=written)
