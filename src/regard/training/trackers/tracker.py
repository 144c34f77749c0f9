"""Interface of a tracker, and the numbers in a line of the log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard.storage.files import whole
from regard.training.log import AverageLine, DevLine, EndLine, Line, TrainLine


@dataclass(frozen=True)
class TrackedRun:
    """Run whose log is tracked."""

    folder: Path
    name: str
    fields: Mapping[str, object]
    """Fields of the experiment by full name."""
    first_update: int
    """First update of the session: 1, or the update after the one at which the run is resumed."""

    @property
    def is_resumed(self) -> bool:
        return self.first_update > 1

    def saved_id(self, tracker: str) -> str | None:
        """Return the identifier that a service gave this run in an earlier session."""
        path = self._ids
        return (
            json.loads(path.read_text()).get(tracker) if self.is_resumed and path.exists() else None
        )

    def save_id(self, tracker: str, identifier: str) -> None:
        """Save the identifier that a service gave this run."""
        ids = json.loads(self._ids.read_text()) if self._ids.exists() else {}
        with whole(self._ids) as path:
            path.write_text(json.dumps({**ids, tracker: identifier}), encoding="utf-8")

    @property
    def _ids(self) -> Path:
        return self.folder / "tracking.json"


@runtime_checkable
class Tracker(Protocol):
    """Receiver of the lines of a training's log."""

    def write(self, line: Line) -> None:
        """Write a line of the log."""

    def close(self) -> None:
        """Write everything and end the session."""


def scalars(line: Line) -> dict[str, float]:
    """Return the numbers of a line by name, such as train/loss and dev/chrf. The end of a training
    has none: its score is that of an earlier validation."""
    match line:
        case TrainLine():
            values: dict[str, float | None] = {
                "train/loss": line.loss,
                "train/learning_rate": line.learning_rate,
                "train/tokens_per_second": line.tokens_per_second,
                **{f"train/{name}": value for name, value in line.penalties.items()},
                **{f"train/{name}": value for name, value in line.measures.items()},
            }
        case DevLine():
            values = {f"dev/{line.metric}": line.score, "dev/loss": line.loss}
        case AverageLine():
            values = {f"average/{line.metric}": line.score, "average/loss": line.loss}
        case EndLine():
            return {}
    values["epoch"] = line.epoch
    return {name: float(value) for name, value in values.items() if value is not None}
