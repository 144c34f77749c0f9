"""Table of a training's log: `progress.csv` in the run folder."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.storage.files import whole
from regard.training.log import Line
from regard.training.trackers.tracker import TrackedRun

FILE = "progress.csv"
COLUMNS = (
    *("kind", "update", "epoch", "seconds", "loss", "score", "metric"),
    *("learning_rate", "tokens_per_second", "best"),
)


class CsvTracker:
    """Writer of a table with one row for each line of the log."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, line: Line) -> None:
        with self._path.open("a", encoding="utf-8", newline="") as file:
            _writer(file).writerow(asdict(line))

    def close(self) -> None:
        """Do nothing: every row is written at once."""


def open_tracker(run: TrackedRun) -> CsvTracker:
    """Return the tracker of a run. The rows of updates that a resumed run repeats are removed."""
    path = run.folder / FILE
    rows = []
    if run.is_resumed and path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if _is_before(row, run.first_update)]
    text = io.StringIO()
    writer = _writer(text)
    writer.writeheader()
    writer.writerows(rows)
    with whole(path) as unfinished:
        unfinished.write_text(text.getvalue(), encoding="utf-8", newline="")
    return CsvTracker(path)


def _writer(file: io.TextIOBase) -> Any:
    return csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")


def _is_before(row: dict[str, str], first_update: int) -> bool:
    return row["kind"] in ("train", "dev") and int(row["update"]) < first_update
