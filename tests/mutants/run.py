"""Apply each fault of mutants.yaml to a copy of the package and run the tests that should fail.

    python tests/mutants/run.py [--processes 2] [--only TEXT] [--output FILE]

A fault is caught if a test fails. The tests of a fault are those that mirror the changed file, or
those that mutants.yaml names. The exit status is 1 if a fault was not caught.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import yaml

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.yaml")
SOURCES = (".py", ".cpp", ".hpp")
TIMEOUT = 900
"""Seconds after which the tests of a fault are ended. A fault that hangs its tests is caught."""


@dataclass(frozen=True)
class Mutant:
    """A line of the package, the fault that replaces it, and its tests if they are named."""

    folder: str
    line: str
    fault: str
    tests: tuple[str, ...] = ()


def mutants() -> list[Mutant]:
    """Return the faults of mutants.yaml."""
    groups = yaml.safe_load(LIST.read_text())
    return [
        Mutant(folder, entry["line"], entry["fault"], tuple(entry.get("tests", ())))
        for folder, entries in groups.items()
        for entry in entries
    ]


def file_of(mutant: Mutant, package: Path) -> Path:
    """Return the file of the mutant's line. ValueError unless the package has it exactly once."""
    places = [
        path
        for path in sorted(package.rglob("*"))
        if path.suffix in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip() == mutant.line
    ]
    if len(places) != 1:
        raise ValueError(f"{mutant.line!r}: expected one such line in the package, got {places}")
    return places[0]


def mirrors_of(mutant: Mutant, path: Path) -> list[str]:
    """Return the tests of a mutant in this file, relative to the package: the named tests, else the
    file that mirrors it, else the folder that mirrors its folder, or the nearest above it."""
    if mutant.tests:
        return [*mutant.tests]
    own = Path("tests") / path.with_name(f"test_{path.stem}.py")
    if path.suffix == ".py" and (ROOT / own).is_file():
        return [str(own)]
    folder = own.parent
    while not any((ROOT / folder).glob("test_*.py")):
        folder = folder.parent
    if folder == Path("tests"):
        return [str(test.relative_to(ROOT)) for test in sorted((ROOT / folder).glob("test_*.py"))]
    return [str(folder)]


def is_caught(mutant: Mutant, copy: Path) -> bool:
    """Apply a mutant to the copy of `src`, run its tests, and undo it."""
    path = file_of(mutant, copy / "regard")
    original = path.read_text(encoding="utf-8")
    relative = path.relative_to(copy / "regard")
    try:
        path.write_text(original.replace(mutant.line, mutant.fault), encoding="utf-8")
        if path.suffix != ".py":
            _build(copy)
        return not _pass(mirrors_of(mutant, relative), copy)
    finally:
        path.write_text(original, encoding="utf-8")
        if path.suffix != ".py":
            _build(copy)


def _pass(tests: list[str], copy: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{tests}: pytest ended with {done.returncode}\n{done.stdout.decode()}")
    return done.returncode == 0


def _build(copy: Path) -> None:
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=copy.parent,
        capture_output=True,
        check=True,
    )


def main() -> int:
    """Run the mutants and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2, help="number of test runs at a time")
    parser.add_argument("--only", default="", help="only faults whose folder or line has this text")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    options = parser.parse_args()
    chosen = [each for each in mutants() if options.only in each.folder + " " + each.line]
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for number in range(options.processes):
            home = Path(folder) / str(number)
            shutil.copytree(ROOT / "src", home / "src")
            for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
                shutil.copy(ROOT / name, home / name)
            copies.put(home / "src")

        def run(mutant: Mutant) -> tuple[Mutant, bool]:
            copy, began = copies.get(), time.monotonic()
            try:
                caught = is_caught(mutant, copy)
            finally:
                copies.put(copy)
            word = "caught  " if caught else "SURVIVED"
            seconds = round(time.monotonic() - began)
            print(word, f"{seconds:4} s ", f"{mutant.folder}: {mutant.fault}", flush=True)
            return mutant, caught

        with ThreadPoolExecutor(options.processes) as pool:
            results = list(pool.map(run, chosen))
    num_caught = sum(caught for _, caught in results)
    print(f"{num_caught} of {len(results)} faults were caught")
    if options.output is not None:
        options.output.write_text(
            json.dumps({mutant.line: caught for mutant, caught in results}, indent=1) + "\n"
        )
    return int(num_caught < len(results))


if __name__ == "__main__":
    sys.exit(main())
