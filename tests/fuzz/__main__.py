"""Fuzz the parsers: `python -m tests.fuzz [PARSER ...] [--seconds S] [--seed N]`.

Every input ends in a result or in a UserError of one line, within `SLOW` seconds. Anything else is
a failure: the input is written to a file, which `python -m tests.fuzz PARSER --file FILE` reads
again. Parsers run side by side, one process for each CPU core.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.fuzzing import fuzz, report
from tests.fuzz.parsers import PARSERS


def main() -> int:
    """Fuzz one parser here, or several in processes of their own."""
    parser = argparse.ArgumentParser("tests.fuzz")
    parser.add_argument("parsers", nargs="*", metavar="PARSER", help=", ".join(PARSERS))
    parser.add_argument("--seconds", type=float, default=os.environ.get("FUZZ_SECONDS") or 10)
    parser.add_argument("--seed", type=int, default=os.environ.get("FUZZ_SEED") or None)
    parser.add_argument("--file", type=Path, help="read this one input")
    parser.add_argument("--failures", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    unknown = [name for name in options.parsers if name not in PARSERS]
    if unknown:
        parser.error(f"unknown parser {unknown[0]}: expected {', '.join(PARSERS)}")
    names = options.parsers or list(PARSERS)
    if options.file:
        problem = report(PARSERS[names[0]], options.file.read_bytes())
        print(problem or "no failure")
        return 1 if problem else 0
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    if len(names) == 1:
        findings = fuzz(names[0], float(options.seconds), seed, options.failures)
        print(findings, flush=True)
        return 1 if findings.failures else 0
    return _side_by_side(names, ["--seconds", str(options.seconds), "--seed", str(seed)])


def _side_by_side(names: list[str], options: list[str]) -> int:
    def run(name: str) -> int:
        command = [sys.executable, "-m", "tests.fuzz", name, *options]
        done = subprocess.run(command, capture_output=True, text=True)
        print(done.stdout if done.returncode in (0, 1) else f"{name}: {done.stdout}{done.stderr}")
        return done.returncode

    with ThreadPoolExecutor(os.cpu_count() or 1) as processes:
        return max(map(abs, processes.map(run, names)))


if __name__ == "__main__":
    sys.exit(main())
