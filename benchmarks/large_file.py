"""Measure training on 100 thousand, 1 million and 10 million pairs.

The table shows peak memory, the time to the first update in a first and in a later run, and target
tokens per second.

    python benchmarks/large_file.py            (an hour, 4 GB of disk, one core)

The pairs are generated: words are drawn by Zipf's law, and each is translated by another word.
Every run is `regard train` in a process of its own, which is stopped after `--updates` updates. Its
log and /proc are polled, so this script needs Linux. Speed is measured in CPU time, and later runs
take turns, so other load on the machine affects all of them."""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 30_000
AT_A_TIME = 50_000
OPTIONS = (
    *("--data.vocabulary-size", "8000", "--data.dev-size", "100", "--data.test-size", "100"),
    *("--model.size", "256", "--training.precision", "float32"),
    *("--training.epochs", "1", "--training.log-every", "1"),
)


def words(letters: str, seed: int) -> np.ndarray:
    """Return distinct random words of two to eight letters."""
    drawing = np.random.default_rng(seed)
    distinct: dict[str, None] = {}
    while len(distinct) < WORDS:
        distinct["".join(drawing.choice(list(letters), drawing.integers(2, 9)))] = None
    return np.array(list(distinct), dtype=object)


def generate(path: Path, count: int) -> None:
    """Write pairs with 2 to 60 source words, 13 on average. Some targets lack the first word."""
    drawing = np.random.default_rng(1)
    source, target = words("abdegiklmnoprstu", 1), words("aeiouäüßhrlnstgk", 2)
    weights = 1 / np.arange(1, WORDS + 1)
    below = np.cumsum(weights / weights.sum())
    with path.open("w", encoding="utf8") as file:
        for first in range(0, count, AT_A_TIME):
            size = min(AT_A_TIME, count - first)
            lengths = np.clip(drawing.gamma(6, 2.2, size).astype(int), 2, 60)
            drawn = np.searchsorted(below, drawing.random(lengths.sum())).clip(max=WORDS - 1)
            here, there, ends = source[drawn], target[drawn], np.cumsum(lengths)
            dropped = np.minimum(drawing.integers(0, 2, size), lengths - 1)
            for begin, end, drop in zip(ends - lengths, ends, dropped, strict=True):
                file.write(
                    f"{' '.join(here[begin:end])} .\t{' '.join(there[begin + drop : end])} .\n"
                )


@dataclass(frozen=True)
class Run:
    """Measurements of one run."""

    seconds: float
    """Seconds from the start of the process to the end of the first update."""
    processor_seconds: float
    """CPU seconds from the start of the process to the end of the first update."""
    peak: float
    """Peak resident memory in MB, including pages of mapped files."""
    speed: float
    """Target tokens per CPU second, without the first updates."""


def train(data: Path, run: Path, updates: int) -> Run:
    command = [sys.executable, "-m", "regard.cli.main", "train", str(data), "--output", str(run)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "REGARD_CACHE": str(data.parent / "cache")}
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, *OPTIONS], env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    seen: list[tuple[int, float, float]] = []  # updates, seconds, CPU seconds
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, resident(process.pid))
        done = len(train_lines(run))
        if done and done <= updates and (not seen or done > seen[-1][0]):
            seen.append((done, time.perf_counter() - began, processor_seconds(process.pid)))
        if done > updates:
            process.send_signal(signal.SIGINT)
            process.wait()
        time.sleep(0.02 if len(seen) < 2 else 0.2)
    if len(seen) < 3 or process.returncode not in (0, 130):
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode} after {seen[-1:]}")
    steady = [entry for entry in seen if entry[0] > min(10, updates // 2)]
    (first, _, started), (last, _, ended) = steady[0], steady[-1]
    return Run(
        seconds=seen[0][1],
        processor_seconds=seen[0][2],
        peak=peak,
        speed=tokens(train_lines(run)[first - 1 : last]) / (ended - started),
    )


def processor_seconds(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> float:
    """Return the peak resident memory so far, in MB; 0 if the process has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peaks[0]) / 1024 if peaks else 0.0


def train_lines(run: Path) -> list[dict[str, Any]]:
    log = run / "log.jsonl"
    if not log.exists():
        return []
    complete = log.read_text(encoding="utf8").split("\n")[:-1]
    return [line for line in map(json.loads, complete) if line["kind"] == "train"]


def tokens(lines: list[dict[str, Any]]) -> float:
    """Return the number of target tokens of these updates, without the first."""
    return sum(
        line["tokens_per_second"] * (line["seconds"] - before["seconds"])
        for before, line in pairwise(lines)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--updates", type=int, default=100, help="number of updates of each run")
    parser.add_argument("--rounds", type=int, default=3, help="number of later runs for each file")
    parser.add_argument("--folder", type=Path, help="folder of temporary files")
    options = parser.parse_args()
    # A process that a shell starts in the background ignores Ctrl-C, and its children would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        files = {count: Path(folder) / f"{count}.tsv" for count in options.pairs}
        first, later = {}, {count: list[Run]() for count in files}
        for count, path in files.items():
            generate(path, count)
            first[count] = train(path, Path(folder) / f"first-{count}", options.updates)
        for number in range(options.rounds):
            for count, path in files.items():
                run = Path(folder) / f"later-{number}-{count}"
                later[count].append(train(path, run, options.updates))
        print("| pairs | file | peak: first, later | first update: first, later | speed |")
        print("|---|---|---|---|---|")
        for count, path in files.items():
            runs = later[count]
            print(
                f"| {count:,} | {path.stat().st_size / 1e6:,.0f} MB "
                f"| {first[count].peak:,.0f}, {max(run.peak for run in runs):,.0f} MB "
                f"| {duration(first[count])}, {duration(min(runs, key=lambda run: run.seconds))} "
                f"| {statistics.median(run.speed for run in runs):,.0f} tokens/s |",
                flush=True,
            )


def duration(run: Run) -> str:
    return f"{run.seconds:,.0f} s ({run.processor_seconds:,.0f} s of CPU time)"


if __name__ == "__main__":
    main()
