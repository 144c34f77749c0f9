"""Run `regard train` and `regard evaluate` on one core, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.storage.files import whole

LONGEST_PAUSE = 10.0
"""Seconds between two reports of a running command."""
RUNNING = -1
"""Status of a running command."""
PROCESSES: set[int] = set()
"""Numbers of the commands that run now."""


@dataclass(frozen=True)
class WholeRun:
    """Scores by name, CPU seconds and peak memory of one training."""

    scores: dict[str, float]
    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Usage:
    """Resources that a command used, and how it ended."""

    status: int
    """Exit status; minus its number for a signal, as in `subprocess`."""
    last_line: str
    user_seconds: float
    cpu_seconds: float
    wall_seconds: float
    megabytes: float


def run_recipe(
    recipe: str, options: Sequence[str], test: Path | None = None, *, run: Path
) -> WholeRun:
    """Train a recipe with these options into a folder, and score it on `test` (by default its test
    split). SystemExit if either command fails."""
    usage = run_command("train", recipe, "--output", str(run), *options)
    run_command("evaluate", str(run), *([str(test)] if test else []))
    return WholeRun(last_scores(run), usage.user_seconds, usage.megabytes)


def finish_training(command: Sequence[str], run: Path) -> None:
    """Train or resume a run, unless it is finished. The resources of each session are saved beside
    the run while it trains, because a session may be killed. SystemExit if the training fails."""
    if (run / "finished").exists():
        return
    is_resumed = (run / "config.yaml").exists()
    session = run.with_name(f"{run.name}-session-{len(_session_files(run)) + 1}.json")

    def save(usage: Usage) -> None:
        with whole(session) as unfinished:
            unfinished.write_text(json.dumps(asdict(usage), indent=1), encoding="utf8")

    usage = measure_command(*command, *(["--resume"] if is_resumed else []), on_usage=save)
    if usage.status:
        raise SystemExit(f"{run}: status {usage.status}: {usage.last_line}")
    (run / "finished").touch()


def training_usages(run: Path) -> list[Usage]:
    """Return the resources of each session of `finish_training`; none for other runs."""
    return [Usage(**json.loads(file.read_text(encoding="utf8"))) for file in _session_files(run)]


def _session_files(run: Path) -> list[Path]:
    return list(run.parent.glob(f"{run.name}-session-*.json"))


def rewrite_block(page: Path, name: str, text: str) -> None:
    """Replace the lines between the two marks of this name on a page. SystemExit for a page without
    them."""
    content = page.read_text(encoding="utf8")
    begin, end = (f"<!-- {name}: {mark} -->\n" for mark in ("begin", "end"))
    before, mark, rest = content.partition(begin)
    _, closing, after = rest.partition(end)
    if not (mark and closing):
        raise SystemExit(f"{page}: expected the lines {begin.strip()} and {end.strip()}")
    with whole(page) as unfinished:
        unfinished.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf8")


def last_scores(run: Path) -> dict[str, float]:
    """Return the scores of the last evaluation of a run that was evaluated on one file."""
    (entries,) = json.loads((run / "results.json").read_text(encoding="utf8")).values()
    return {score["name"]: score["value"] for score in entries[-1]["scores"]}


def sounds(folder: Path, language: str) -> tuple[list[str], Path]:
    """Return the options with a language's files for the recipe `g2p`, and its test file."""
    train, dev, test = (folder / f"{language}_{part}.tsv" for part in ("train", "dev", "test"))
    return ["--data.path", str(train), "--data.dev-path", str(dev)], test


def run_command(*command: str) -> Usage:
    """Run a command and return its use of resources; SystemExit with its last line if it fails."""
    usage = measure_command(*command)
    if usage.status:
        raise SystemExit(f"regard {' '.join(command)}: {usage.last_line}")
    return usage


def measure_command(*command: str, on_usage: Callable[[Usage], None] | None = None) -> Usage:
    """Run a command and return its use of resources, whether it fails or not. `on_usage` gets the
    use so far from time to time, and at the end.

    The command has a session of its own, so Ctrl-C reaches this process alone, which passes it on
    once: a second signal would end a training before it is saved."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "regard.cli.main", *command],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        PROCESSES.add(process.pid)
        try:
            while True:
                number, status, used = os.wait4(process.pid, os.WNOHANG)
                seconds = time.perf_counter() - start
                if number:
                    break
                if on_usage is not None and (running := _running(process.pid, seconds)):
                    on_usage(running)
                time.sleep(min(LONGEST_PAUSE, 0.1 + seconds / 100))
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            PROCESSES.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        usage = Usage(
            status=process.returncode,
            last_line=output.read().strip().rpartition("\n")[-1],
            user_seconds=used.ru_utime,
            cpu_seconds=used.ru_utime + used.ru_stime,
            wall_seconds=seconds,
            megabytes=used.ru_maxrss / 1024,
        )
    if on_usage is not None:
        on_usage(usage)
    return usage


def _running(process: int, seconds: float) -> Usage | None:
    """Return the use of resources of a process so far; None on systems without /proc."""
    folder = Path(f"/proc/{process}")
    try:
        times = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
        lines = (folder / "status").read_text().splitlines()
        user, system = (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in times)
        (peak,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, ValueError):  # another system, or the process has just ended
        return None
    return Usage(RUNNING, "", user, user + system, seconds, peak / 1024)
