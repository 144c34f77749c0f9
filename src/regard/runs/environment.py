"""Environment of a training or an evaluation: versions, command, machine and data.

    FOLDER/environment.json    one entry for each session of the training
    FOLDER/results.json        each evaluation has an entry `environment`

Equal settings, data, versions, threads and CPU give equal weights. `regard reproduce` compares
these entries with the environment that it runs in.
"""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import Data, DataConfig
from regard.corpora.cache import cache_folder
from regard.corpora.file_digests import digests_of
from regard.corpora.sources import LARGE, matching_files
from regard.errors import UserError
from regard.runs.folder import RunFolder
from regard.runtime import instruction_set, processes
from regard.storage.record import digest_of_file
from regard.version import VERSION

SECONDS = 10
"""Longest time to wait for git."""


@dataclass(frozen=True)
class Environment:
    """Software, machine and data of one session."""

    command: str
    """Command line, or the program that called Regard."""
    began: str
    """Time in UTC, in the format of ISO 8601."""
    versions: Mapping[str, str]
    commit: str | None
    """Commit of Regard's source code, with `+` if files were changed after it. None if Regard was
    not run from a checkout."""
    cpu: str
    instruction_set: str | None
    """Limit of the instruction sets by REGARD_INSTRUCTION_SET; None without a limit."""
    device: str
    threads: int
    processes: int
    seed: int | None
    data: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each data file, by its path."""

    @classmethod
    def now(
        cls, device: torch.device, seed: int | None = None, data: Iterable[Path] = ()
    ) -> Environment:
        """Return the environment of this process. UserError if a data file cannot be read."""
        return cls(
            command=shlex.join([_program(), *sys.argv[1:]]),
            began=datetime.now(UTC).isoformat(timespec="seconds"),
            versions={
                "regard": VERSION,
                "python": platform.python_version(),
                "torch": str(torch.__version__),
                "numpy": np.__version__,
            },
            commit=_commit(Path(__file__).parents[3]),
            cpu=_cpu(),
            instruction_set=instruction_set.limit(),
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            threads=torch.get_num_threads(),
            processes=processes.number(),
            seed=seed,
            data=_digests(list(data)),
        )

    def differences(self, other: Environment) -> list[str]:
        """Return messages about all values of the other environment, except its time, command and
        data, that are not those of this one."""
        messages = []
        for name in ("commit", "cpu", "instruction_set", "device", "threads", "processes"):
            was, now = getattr(self, name), getattr(other, name)
            if was != now:
                messages.append(f"{name.replace('_', ' ')}: was {was}, is {now}")
        for name in sorted(self.versions.keys() | other.versions.keys()):
            was, now = self.versions.get(name), other.versions.get(name)
            if was != now:
                messages.append(f"{name}: was {was}, is {now}")
        return messages


def add_session(folder: RunFolder, environment: Environment) -> None:
    """Add a session to the environment.json of a run."""
    sessions = [asdict(session) for session in read_sessions(folder)]
    text = json.dumps([*sessions, asdict(environment)], ensure_ascii=False, indent=1)
    folder.write(folder.environment, text + "\n")


def read_sessions(folder: RunFolder) -> list[Environment]:
    """Return the sessions of a run's training, the first one first; none if the run has no
    environment.json. UserError if the file is damaged."""
    if not folder.environment.exists():
        return []
    try:
        entries = json.loads(folder.environment.read_text(encoding="utf8"))
        if not all(isinstance(entry.get("data", {}), dict) for entry in entries):
            raise ValueError("data is no object")
        return [Environment(**entry) for entry in entries]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{folder.environment} is damaged ({reason}): put it back, or remove it"
        ) from error


def changed_data(session: Environment) -> list[str]:
    """Return the names of data files of a session whose content has changed. Files that are missing
    are left out."""
    paths = [path for path in map(Path, session.data) if path.is_file()]
    return [name for name, digest in _digests(paths).items() if digest != session.data[name]]


def _program() -> str:
    """Return the name of the program that runs."""
    name = Path(sys.argv[0]).name
    return "regard" if name == "__main__.py" else name


def data_files(data: Data) -> list[Path]:
    """Return the data files that a recipe names, or that match its patterns. Folders are left
    out."""
    paths = list(_paths(data))
    if isinstance(data, DataConfig):
        pairs = chain.from_iterable(map(matching_files, data.corpora))
        paths += [path for path in chain.from_iterable(pairs) if path is not None]
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def _paths(record: Any) -> Iterable[Path]:
    for entry in fields(record):
        value = getattr(record, entry.name)
        if isinstance(value, Path):
            yield value
        elif is_dataclass(value):
            yield from _paths(value)


def _digests(paths: Sequence[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file. Those of large files are remembered in the cache. UserError
    if one cannot be read."""
    if sum(path.stat().st_size for path in paths) < LARGE:
        return {str(path): digest_of_file(path) for path in paths}
    names = list(map(str, paths))
    digests = zip(names, digests_of(names, cache_folder()), strict=True)
    return {name: digest or digest_of_file(Path(name)) for name, digest in digests}


@cache
def _cpu() -> str:
    """Return the name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


@cache
def _commit(root: Path) -> str | None:
    """Return the commit of a checkout with this root."""
    if not (root / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty=+"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()
