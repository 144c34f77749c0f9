"""Translate many lines on two workers of a Ray cluster while one worker and the driver are killed.

    python benchmarks/bulk.py                  (1,000,000 lines, 8 minutes on two cores)
    python benchmarks/bulk.py --lines 5000     (minutes)

The script trains a small model, generates lines and translates them in two ways: with the plain
command, and with `--cluster local --workers 2`. In the second run it kills a worker (SIGKILL) when
a quarter of the chunks is finished, and the driver when half is finished. It then repeats the
command. Both outputs are compared line by line. It reads /proc, so it needs Linux.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TRAINING = (
    *("--data.synthetic-size", "4000", "--data.dev-size", "20", "--data.test-size", "0"),
    *("--model.size", "48", "--training.epochs", "6"),
)
WORKERS = 2
POLL_SECONDS = 0.2
LONGEST_WAIT = 3600
"""Seconds after which a run that finishes no chunk has failed."""
WORKER = "ChunkActor"
"""Name of the actor in the title of its process."""
PROGRESS = "translated: "
"""Beginning of the lines of progress, which come by the clock."""


def regard(*words: object) -> list[str]:
    return [sys.executable, "-m", "regard", *map(str, words)]


def generate(path: Path, count: int) -> None:
    """Write lines of 0 to 16 letters. Every 97th line has an unknown letter, and every 1,009th is
    longer than the search allows. Some lines end with CR LF, and the last has no line end."""
    drawing = random.Random(1)
    with path.open("w", encoding="utf-8", newline="") as file:
        for number in range(count):
            length = 500 if number % 1009 == 1008 else drawing.randrange(17)
            letters = drawing.choices(LETTERS, k=length)
            if number % 97 == 96:
                letters.append("ß")
            end = "" if number == count - 1 else "\r\n" if number % 10 == 9 else "\n"
            file.write(" ".join(letters) + end)


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Processes below a process, with their titles."""
    parents: dict[int, list[int]] = {}
    titles = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(folder.name))
            titles[int(folder.name)] = title
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            yield child, titles[child]
            waiting.append(child)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class Run:
    """The command on a cluster."""

    def __init__(self, command: list[str], chunks: Path, messages: Path) -> None:
        self.chunks = chunks
        self._messages = messages
        with messages.open("ab") as file:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)

    def num_finished(self) -> int:
        return len(list(self.chunks.glob("[0-9]*.json")))

    def wait_for(self, is_reached: Callable[[], bool]) -> None:
        """Wait for a state of the run, which may not end before."""
        last, changed = -1, time.monotonic()
        while not is_reached():
            if self.process.poll() is not None:
                sys.exit(f"the run has ended too early:\n{self._messages.read_text()}")
            if (number := self.num_finished()) != last:
                last, changed = number, time.monotonic()
            if time.monotonic() > changed + LONGEST_WAIT:
                sys.exit("the run finishes no chunk")
            time.sleep(POLL_SECONDS)

    def workers(self) -> list[int]:
        return [pid for pid, title in descendants(self.process.pid) if WORKER in title]


def disturbed(command: list[str], chunks: Path, messages: Path, num_chunks: int) -> int:
    """Run the command, kill a worker and the driver, and repeat the command. Return its status."""
    run = Run(command, chunks, messages)
    run.wait_for(lambda: run.num_finished() >= num_chunks / 4 and bool(run.workers()))
    workers = run.workers()
    os.kill(workers[0], signal.SIGKILL)
    print(f"killed one of {len(workers)} workers after {run.num_finished()} chunks", flush=True)
    run.wait_for(lambda: run.num_finished() >= num_chunks / 2)
    print(f"workers now: {len(set(run.workers()) - {workers[0]})}")
    processes = dict(descendants(run.process.pid))
    run.process.kill()
    run.process.wait()
    finished = run.num_finished()
    print(f"killed the driver after {finished} chunks", flush=True)
    began = time.monotonic()
    while any(map(is_running, processes)) and time.monotonic() < began + 60:
        time.sleep(POLL_SECONDS)
    rest = [title[:60] for pid, title in processes.items() if is_running(pid)]
    print(f"processes of Ray after {time.monotonic() - began:.0f} s: {rest or 'none'}")
    return Run(command, chunks, messages).process.wait()


def compare(first: Path, second: Path) -> int:
    """Return the number of lines that differ."""
    with first.open("rb") as lines, second.open("rb") as others:
        return sum(line != other for line, other in zip_longest(lines, others))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="folder of all files (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measure(options.folder or Path(temporary), options.lines)


def measure(folder: Path, count: int) -> None:
    """Translate in both ways, compare the outputs and print times."""
    from regard.inference.parts import line_chunks

    folder.mkdir(parents=True, exist_ok=True)
    run, lines, plain, output = (folder / name for name in ("run", "lines", "plain", "output"))
    if not run.exists():
        subprocess.run(regard("train", "copy", "-o", run, *TRAINING), check=True)
    generate(lines, count)
    chunks = line_chunks(lines)
    print(f"{count:,} lines, {lines.stat().st_size:,} bytes, {len(chunks)} chunks", flush=True)

    began = time.monotonic()
    done = subprocess.run(
        regard("translate", run, lines, "-o", plain), capture_output=True, text=True, check=False
    )
    plain_seconds = time.monotonic() - began
    print(f"plain run: {plain_seconds:.0f} s, exit status {done.returncode}", flush=True)

    began = time.monotonic()
    words = ("-o", output, "--cluster", "local", "--workers", WORKERS)
    command = regard("translate", run, lines, *words)
    messages = folder / "messages"
    messages.unlink(missing_ok=True)
    status = disturbed(command, folder / "output.chunks", messages, len(chunks))
    seconds = time.monotonic() - began
    print(f"disturbed run on {WORKERS} workers: {seconds:.0f} s, exit status {status}")
    printed = messages.read_text()
    print(printed)

    num_lines = sum(1 for _ in lines.open("rb"))
    num_outputs = sum(1 for _ in output.open("rb"))
    num_different = compare(plain, output)
    print(f"lines {num_lines:,}, outputs {num_outputs:,}, different {num_different:,}")
    missing = [
        line
        for line in done.stderr.splitlines()
        if line not in printed and not line.startswith(PROGRESS)
    ]
    print(f"messages of the plain run that the other run lacks: {missing or 'none'}")
    if status != done.returncode or num_lines != num_outputs or missing or num_different:
        sys.exit("the runs differ")


if __name__ == "__main__":
    main()
