"""Two processes train one model, and one of them is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

OPTIONS = "--processes 2 --training.updates 300 --training.validate-every 50 --model.size 16"


def start(folder, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "regard", "train", "copy", "-o", folder, *OPTIONS.split(), *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def lines(folder):
    log = folder / "log.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def workers_after_validation(training, folder):
    """Return the ids of the two processes, after their next validation."""
    validations = 1 + sum(line["kind"] == "dev" for line in lines(folder))
    deadline = time.monotonic() + 100
    while sum(line["kind"] == "dev" for line in lines(folder)) < validations:
        assert training.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return workers_of(training)


def workers_of(training):
    """Return the ids of the processes that a training has started."""
    threads = Path(f"/proc/{training.pid}/task").glob("*/children")
    return [int(number) for thread in threads for number in thread.read_text().split()]


def kill_a_worker(training, folder):
    os.kill(max(workers_after_validation(training, folder)), signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the workers")
def test_a_killed_worker_ends_the_training_and_a_restart_continues_it(tmp_path):
    training = start(tmp_path / "run")
    kill_a_worker(training, tmp_path / "run")
    _, errors = training.communicate(timeout=100)
    assert training.returncode == 1
    assert re.search(
        r"of 2 was killed by SIGKILL, so the training ended; "
        r"--resume continues it from update \d+0",
        errors,
    )
    assert "Traceback" not in errors
    assert "connection" not in errors

    training = start(tmp_path / "run", "--resume", "--max-restarts", "1")
    kill_a_worker(training, tmp_path / "run")
    output, errors = training.communicate(timeout=100)
    assert training.returncode == 0, errors
    assert "restart 1 of 1, since a process failed: the training continues from update " in output
    *_, end = lines(tmp_path / "run")
    assert end["reason"] == "finished"
    assert [line["update"] for line in lines(tmp_path / "run") if line["kind"] == "dev"] == [
        50, 100, 150, 200, 250, 300,
    ]  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the workers")
def test_a_worker_killed_at_the_start_ends_the_others_at_once(tmp_path):
    training = start(tmp_path / "run")
    deadline = time.monotonic() + 60
    while len(workers := workers_of(training)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(min(workers), signal.SIGKILL)
    killed = time.monotonic()
    _, errors = training.communicate(timeout=100)
    assert time.monotonic() - killed < 20
    assert "was killed by SIGKILL, so the training ended; nothing was saved: repeat the" in errors


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the workers")
def test_processes_end_with_a_state_when_their_launcher_is_killed(tmp_path):
    training = start(tmp_path / "run", "--training.updates", "100000")
    workers = workers_after_validation(training, tmp_path / "run")
    training.kill()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{worker}/task").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    *_, end = lines(tmp_path / "run")
    assert end["reason"] == "terminated"
    training.communicate()
