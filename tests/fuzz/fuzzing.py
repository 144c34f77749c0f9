"""Mutate good inputs, read them, and keep those that end in neither a result nor one line."""

from __future__ import annotations

import hashlib
import random
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import UserError
from tests.fuzz.parsers import PARSERS, Parser

SLOW = 5.0
"""Seconds of CPU time after which an input counts as slow."""
ENDLESS = 60.0
"""Seconds after which the reading of an input is ended as a failure."""
MAX_GROWTH = 1 << 20
"""KiB by which one input may raise the largest memory of the process."""
MAX_FAILURES = 5
COMMON = (
    b"\0",
    b"\n",
    b"\r\n",
    b" ",
    b"\xff",
    b"\xef\xbb\xbf",
    b"9" * 30,
    b"-",
    b"'",
    b'"',
    b"\x7f",
)


@dataclass
class Findings:
    """Counts of one parser's inputs, and its failures."""

    name: str
    seed: int
    seconds: float = 0.0
    num_inputs: int = 0
    num_refused: int = 0
    failures: dict[str, Path] = field(default_factory=dict)

    def __str__(self) -> str:
        head = (
            f"{self.name}: {self.num_inputs:,} inputs in {self.seconds:.0f} s, "
            f"{self.num_refused:,} refused, {len(self.failures)} failures (seed {self.seed})"
        )
        return "\n".join([head, *(f"  {path}\n{why}" for why, path in self.failures.items())])


def fuzz(name: str, seconds: float, seed: int, failures: Path) -> Findings:
    """Read mutated inputs for this time, at most until there are `MAX_FAILURES`."""
    parser, chance = PARSERS[name], random.Random(f"{seed} {name}")
    seeds = list(parser.seeds())
    findings = Findings(name, seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / parser.name
        while time.monotonic() - began < seconds and len(findings.failures) < MAX_FAILURES:
            content = mutated(seeds, parser.words, chance)
            problem, is_refused = _read(parser, content, path)
            findings.num_inputs += 1
            findings.num_refused += is_refused
            if problem and problem not in findings.failures:
                failures.mkdir(parents=True, exist_ok=True)
                digest = hashlib.sha256(content).hexdigest()[:12]
                findings.failures[problem] = failures / f"{name}-{digest}"
                findings.failures[problem].write_bytes(content)
    findings.seconds = time.monotonic() - began
    return findings


def report(parser: Parser, content: bytes) -> str:
    """The failure that an input causes, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        return _read(parser, content, Path(folder) / parser.name)[0]


def mutated(seeds: list[bytes], words: tuple[bytes, ...], chance: random.Random) -> bytes:
    """One of the good inputs with some changes."""
    content = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 3, 5, 9))):
        place = chance.randrange(len(content) + 1)
        size = min(chance.choice((1, 1, 2, 4, 16, 64)), len(content) - place)
        match chance.randrange(8):
            case 0 if size:
                content[place] ^= 1 << chance.randrange(8)
            case 1 if size:
                content[place : place + size] = chance.randbytes(size)
            case 2:
                del content[place : place + size]
            case 3:
                content[place:place] = chance.choice(words + COMMON)
            case 4:
                content[place : place + size] = chance.choice(words + COMMON)
            case 5:
                donor = chance.choice(seeds)
                content[place:] = donor[chance.randrange(len(donor) + 1) :]
            case 6:
                content[place:place] = content[place : place + size] * chance.choice((2, 9, 2000))
            case _ if chance.random() < 0.2:
                del content[place:]
    return bytes(content)


def _read(parser: Parser, content: bytes, path: Path) -> tuple[str, bool]:
    """The failure, if there is one, and whether the input was refused."""
    path.write_bytes(content)
    began, memory = time.process_time(), _memory()
    is_refused = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _ended_after(ENDLESS):
                parser.read(path)
    except UserError as error:
        is_refused = True
        if not str(error) or "\n" in str(error) or len(str(error)) > 2000:
            frames = traceback.extract_tb(error.__traceback__)
            place = f"{frames[-1].filename}:{frames[-1].lineno}"
            return f"    the error of {place} is no line", is_refused
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 (panics of other languages too)
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"    {each.filename}:{each.lineno}" for each in frames[-4:]]
        return "\n".join([f"    {type(error).__name__}", *places]), is_refused
    seconds = time.process_time() - began
    if seconds > SLOW:
        return f"    slower than {SLOW} s", is_refused
    if _memory() - memory > MAX_GROWTH:
        return f"    more than {MAX_GROWTH >> 10} MiB of memory", is_refused
    return "", is_refused


class EndlessError(BaseException):
    """InputsAndTargets did not end. No parser catches it as an error of its own."""


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    def end(*_: object) -> None:
        raise EndlessError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
