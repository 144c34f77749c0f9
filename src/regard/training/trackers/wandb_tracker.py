"""Numbers of a training for Weights & Biases."""

from __future__ import annotations

import os
from typing import Any

import wandb

from regard.training.log import EndLine, Line
from regard.training.trackers.tracker import TrackedRun, scalars

PROJECT = "regard"
"""Project if the variable WANDB_PROJECT is not set."""


class WandbTracker:
    """Writer of the numbers of each line of the log. No files are uploaded."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._has_ended = False

    def write(self, line: Line) -> None:
        self._has_ended |= isinstance(line, EndLine)
        if values := scalars(line):
            self._session.log(values, step=line.update)

    def close(self) -> None:
        self._session.finish(exit_code=0 if self._has_ended else 1)


def open_tracker(run: TrackedRun) -> WandbTracker:
    """Return the tracker of a run; a resumed run continues its W&B run."""
    session = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=run.name,
        config=dict(run.fields),
        dir=str(run.folder),
        id=run.saved_id("wandb"),
        resume="allow",
    )
    run.save_id("wandb", session.id)
    return WandbTracker(session)
