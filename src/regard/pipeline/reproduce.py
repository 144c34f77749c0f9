"""Repetition of a training, to compare its weights with those of the run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard.config import Experiment
from regard.errors import UserError
from regard.pipeline.plan import Plan
from regard.pipeline.train import train
from regard.runs.environment import Environment, changed_data, data_files, read_sessions
from regard.runs.folder import RunFolder
from regard.runtime.device import device_named
from regard.runtime.progress import OnProgress
from regard.storage.files import resolved
from regard.storage.weights import read_weights
from regard.training.log import Reporter

CLOCK = ("seconds", "tokens_per_second")
"""Fields of log lines that differ between equal trainings."""


@dataclass(frozen=True)
class Reproduction:
    """Comparison of a run with its repetition."""

    num_tensors: int
    num_equal: int
    largest: tuple[str, float] | None
    """Name and largest absolute difference of the tensor that differs most; None if all are
    equal."""
    first_difference: int | None
    """First update whose line in the log differs, apart from times; None if the logs are equal."""

    @property
    def is_equal(self) -> bool:
        """Whether all weights are equal, bit by bit."""
        return self.num_equal == self.num_tensors


@dataclass(frozen=True)
class Recorded:
    """A finished run with the environment of its training."""

    folder: RunFolder
    experiment: Experiment
    sessions: tuple[Environment, ...]
    """Environments of all sessions of the training."""

    @property
    def environment(self) -> Environment:
        """Environment of the last session."""
        return self.sessions[-1]

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Read a run. UserError if it cannot be repeated: its training is not complete, it has no
        environment.json, or its data files are missing or were changed."""
        folder = RunFolder(path)
        experiment = folder.experiment()
        sessions = read_sessions(folder)
        if not sessions:
            raise UserError(
                f"{path} has no {folder.environment.name}, so its data and threads are unknown: "
                "only runs of this version can be repeated"
            )
        *_, end = _log(folder) or [{}]
        if end.get("reason") not in ("finished", "patience"):
            raise UserError(
                f"the training of {path} is not complete: continue it with `regard train` and "
                "--resume"
            )
        for name in sessions[-1].data:
            if not Path(name).is_file():
                raise UserError(f"{name}, a data file of {path}, is missing: put it back")
        for name in changed_data(sessions[-1]):
            raise UserError(
                f"{name}, a data file of {path}, was changed after the training: put it back"
            )
        known = {resolved(name) for name in sessions[-1].data}
        for file in data_files(experiment.data) if known else ():
            if resolved(file) not in known:
                raise UserError(
                    f"{file} matches a pattern of the data of {path}, but the training did not "
                    "have it: move it to another folder"
                )
        training = replace(experiment.training, hours=None, track=())
        return cls(folder, replace(experiment, training=training), tuple(sessions))

    def differences(self) -> list[str]:
        """Return what is not as in the training, except the number of threads, which a repetition
        sets."""
        device = device_named(self.experiment.training.device, "training.device")
        with _threads(self.environment.threads):
            now = Environment.now(device)
        now = replace(now, processes=self.environment.processes)
        return [*_changes(self.sessions), *self.environment.differences(now)]

    def repeat(
        self,
        path: Path,
        begin: Callable[[Plan], Reporter | None] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Train the run again into a new folder, with its number of threads. UserError as in
        `train`."""
        with _threads(self.environment.threads):
            train(self.experiment, path, begin=begin, on_progress=on_progress)

    def compare(self, path: Path) -> Reproduction:
        """Compare with a run that repeats this one."""
        again = RunFolder(path)
        first, second = read_weights(self.folder.model), read_weights(again.model)
        differences = {
            name: _distance(weight, second.get(name))
            for name, weight in first.items()
            if name not in second or not torch.equal(weight, second[name])
        }
        largest = max(differences, key=lambda name: differences[name], default=None)
        return Reproduction(
            num_tensors=len(first),
            num_equal=len(first) - len(differences),
            largest=None if largest is None else (largest, differences[largest]),
            first_difference=_first_difference(_log(self.folder), _log(again)),
        )


def _first_difference(lines: list[dict[str, Any]], others: list[dict[str, Any]]) -> int | None:
    """Return the update of the first line that the logs do not share."""
    for line, other in zip(lines, others, strict=False):
        if _without_times(line) != _without_times(other):
            return min(line["update"], other["update"])
    if len(lines) == len(others):
        return None
    return max(lines, others, key=len)[min(len(lines), len(others))]["update"]


def _without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in CLOCK}


def _distance(weight: torch.Tensor, other: torch.Tensor | None) -> float:
    """Return the largest difference; infinity for a tensor that is missing or has another shape."""
    if other is None or other.shape != weight.shape:
        return math.inf
    return float((weight.double() - other.double()).abs().max())


def _log(folder: RunFolder) -> list[dict[str, Any]]:
    if not folder.log.exists():
        return []
    return [json.loads(line) for line in folder.log.read_text(encoding="utf8").splitlines()]


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Set the number of threads until the block ends."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _changes(sessions: Sequence[Environment]) -> list[str]:
    """Return messages about values that differ between the sessions of a training. A repetition has
    one session, with those of the last one."""
    messages = []
    for name in ("processes", "threads", "cpu", "instruction_set", "device"):
        values = list(dict.fromkeys(str(getattr(session, name)) for session in sessions))
        if len(values) > 1:
            messages.append(
                f"{name.replace('_', ' ')}: its sessions had {' and '.join(values)}, so the "
                "weights cannot be expected to be equal"
            )
    return messages
