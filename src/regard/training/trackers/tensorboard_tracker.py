"""Events of a training for TensorBoard, in the folder `tensorboard` of the run. Neither torch's
writer nor TensorFlow is needed."""

from __future__ import annotations

import time

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from regard.training.log import Line
from regard.training.trackers.tracker import TrackedRun, scalars

FOLDER = "tensorboard"


class TensorboardTracker:
    """Writer of one event for each line of the log."""

    def __init__(self, run: TrackedRun) -> None:
        self._writer = EventFileWriter(str(run.folder / FOLDER))
        if run.is_resumed:  # TensorBoard drops the events of updates that are repeated
            self._add(run.first_update, session_log=SessionLog(status=SessionLog.START))

    def write(self, line: Line) -> None:
        values = [
            Summary.Value(tag=name, simple_value=value) for name, value in scalars(line).items()
        ]
        if values:
            self._add(line.update, summary=Summary(value=values))

    def close(self) -> None:
        self._writer.close()

    def _add(self, update: int, **content: Summary | SessionLog) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=update, **content))


open_tracker = TensorboardTracker
