"""The message on processes that failed."""

import logging
import signal

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from regard.errors import ConnectionLostError, UserError
from regard.interruption import TERMINATED
from regard.pipeline import launch

LOST = ConnectionLostError.STATUS


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


def test_a_process_that_was_terminated_gives_its_status(monkeypatch):
    monkeypatch.setattr(launch, "elastic_launch", failing(LOST, TERMINATED))
    assert launch.launch([], 2) == TERMINATED
