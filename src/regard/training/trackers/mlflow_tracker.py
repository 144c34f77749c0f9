"""Numbers of a training for MLflow."""

from __future__ import annotations

import os
from itertools import islice

import mlflow

from regard.training.log import EndLine, Line
from regard.training.trackers.tracker import TrackedRun, scalars

FIELDS_AT_A_TIME = 100
"""Largest number of parameters that MLflow takes in one call."""
WAITING = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
"""Retries and seconds of a request. Training waits meanwhile, with MLflow's own values for minutes.
Values that the user has set take precedence."""


class MlflowTracker:
    """Writer of the numbers of each line of the log. No files are uploaded."""

    def __init__(self) -> None:
        self._status = "FAILED"

    def write(self, line: Line) -> None:
        if isinstance(line, EndLine):
            self._status = "KILLED" if line.interrupted else "FINISHED"
        if values := scalars(line):
            mlflow.log_metrics(values, step=line.update)

    def close(self) -> None:
        mlflow.end_run(self._status)


def open_tracker(run: TrackedRun) -> MlflowTracker:
    """Return the tracker of a run; a resumed run continues its MLflow run."""
    for name, value in WAITING.items():
        os.environ.setdefault(name, value)
    identifier = run.saved_id("mlflow")
    session = mlflow.start_run(run_id=identifier, run_name=run.name)
    if identifier is None:
        run.save_id("mlflow", session.info.run_id)
        fields = iter(run.fields.items())
        while part := dict(islice(fields, FIELDS_AT_A_TIME)):
            mlflow.log_params(part)
    return MlflowTracker()
