"""The message on processes that failed."""

import logging
import re
import signal

import pytest
import torch
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from regard.errors import ConnectionLostError, UserError
from regard.pipeline import launch
from regard.runs.folder import RunFolder
from regard.runtime.signals import TERMINATED
from regard.training.checkpoint import Checkpoints
from regard.training.state import TrainingState

LOST = ConnectionLostError.STATUS
ADAM = torch.optim.AdamW(nn.Linear(1, 1).parameters())


@pytest.fixture(autouse=True)
def _logging():
    """`launch` disables logging, which later tests read."""
    yield
    logging.disable(logging.NOTSET)


def failing(*statuses):
    """Return a start of processes that end at the same time with these statuses."""

    def start(config, *command):
        def run(*arguments):
            failures = {
                rank: ProcessFailure(local_rank=rank, pid=1, exitcode=status, error_file="none")
                for rank, status in enumerate(statuses)
                if status
            }
            raise ChildFailedError("regard", failures)

        return run

    return start


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Take back the variables that a launch sets."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("REGARD_LAUNCHER", "0")


@pytest.mark.parametrize(
    ("statuses", "message"),
    [
        ((LOST, -signal.SIGKILL), "process 1 of 2 was killed by SIGKILL"),
        ((LOST, 1), "process 1 of 2 failed with status 1"),
        ((-signal.SIGTERM, LOST, 1), "process 2 of 3 failed with status 1"),
        ((1, -signal.SIGTERM), "process 0 of 2 failed with status 1"),
    ],
)
def test_the_message_names_the_process_that_failed_first(statuses, message, monkeypatch):
    monkeypatch.setattr(launch, "elastic_launch", failing(*statuses))
    with pytest.raises(UserError, match=message):
        launch.launch([], len(statuses))


@pytest.mark.parametrize(
    ("update", "remedy"),
    [
        (None, "nothing was saved: repeat the command"),
        (0, "--resume begins again, as no update was saved"),
        (1290, "--resume continues it from update 1,290"),
    ],
)
def test_the_message_says_what_was_saved(tmp_path, update, remedy, monkeypatch):
    folder = RunFolder(tmp_path)
    if update is not None:
        folder.write(folder.config, "name: x")
        Checkpoints(folder.path, {}).save(TrainingState(update=update), nn.Linear(1, 1), ADAM)
    monkeypatch.setattr(launch, "elastic_launch", failing(LOST, -signal.SIGKILL))
    with pytest.raises(UserError, match=re.escape(remedy)):
        launch.launch([], 2, folder=folder)


def test_a_process_that_was_terminated_gives_its_status(monkeypatch):
    monkeypatch.setattr(launch, "elastic_launch", failing(LOST, TERMINATED))
    assert launch.launch([], 2) == TERMINATED
