"""A process that is killed at any moment leaves a run that can be resumed, as the same run."""

import multiprocessing
import os
import signal
import time
from dataclasses import replace

import pytest
import torch

from regard.training.loop import train
from regard.training.settings import Period
from tests.training.fakes import dev_score, tiny_model
from tests.training.test_loop import BATCHES, EVERYTHING, assert_same, kept, log, weights

SETTINGS = replace(EVERYTHING, length=Period(15, "epoch"), save_seconds=0.0, average=3)
STATE = "state/training.safetensors"


def start(folder, settings, resume):
    def work():
        torch.set_num_threads(1)  # threads do not survive a fork
        model = tiny_model(dropout=0.5)
        train(model, BATCHES, settings, validate=dev_score, folder=folder, resume=resume)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    return process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.parametrize("first", [False, True])
def test_a_training_killed_repeatedly_equals_an_uninterrupted_one(tmp_path, first):
    settings = replace(SETTINGS, validate_first=first)
    one_go, again = tiny_model(dropout=0.5), tiny_model(dropout=0.5)
    train(one_go, BATCHES, settings, validate=dev_score, folder=tmp_path / "one")

    folder = tmp_path / "killed"
    kills = 0
    for seconds in (0.0, 0.05, 0.011, 0.1):
        process = start(folder, settings, resume=kills > 0)
        while not (folder / STATE).exists() and process.is_alive():
            time.sleep(0.001)
        time.sleep(seconds)
        if not process.is_alive():
            break
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += 1
    assert kills >= 2
    train(again, BATCHES, settings, validate=dev_score, folder=folder, resume=True)
    assert_same(weights(again), weights(one_go))
    assert log(folder) == log(tmp_path / "one")
    assert kept(folder) == kept(tmp_path / "one")
