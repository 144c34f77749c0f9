"""Numbers of a training for MLflow."""

from __future__ import annotations

from itertools import islice

import mlflow

from regard.training.log import Line
from regard.training.trackers.tracker import TrackedRun, scalars

FIELDS_AT_A_TIME = 100
"""Largest number of parameters that MLflow takes in one call."""


class MlflowTracker:
    """Writer of the numbers of each line of the log. No files are uploaded."""

    def write(self, line: Line) -> None:
        if values := scalars(line):
            mlflow.log_metrics(values, step=line.update)

    def close(self) -> None:
        mlflow.end_run()


def open_tracker(run: TrackedRun) -> MlflowTracker:
    """Return the tracker of a run; a resumed run continues its MLflow run."""
    identifier = run.saved_id("mlflow")
    session = mlflow.start_run(run_id=identifier, run_name=run.name)
    if identifier is None:
        run.save_id("mlflow", session.info.run_id)
        fields = iter(run.fields.items())
        while part := dict(islice(fields, FIELDS_AT_A_TIME)):
            mlflow.log_params(part)
    return MlflowTracker()
