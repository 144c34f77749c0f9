"""Trainings that are killed fifty times, also within writes, equal a training that was not stopped.

The children are forked, so that a session takes a fraction of a second. Each child counts the
moments at which the disk changes, and sends itself SIGKILL or SIGTERM at one of them, drawn at
random, so that the kills do not depend on the speed of the machine. States are saved after every
update.
"""

import json
import multiprocessing
import os
import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.config import (
    CaptionDataConfig,
    ClassificationDataConfig,
    Experiment,
    TrainingConfig,
)
from regard.pipeline import train as training
from regard.runtime.signals import TERMINATED
from regard.storage.weights import read_metadata
from regard.training import log as logs
from tests import configs
from tests.small_runs import small

KILLS = 50
LONGEST = 100
"""Largest number of moments of a session. Starting a session takes about 30."""
NEVER = 10**9
CLOCK = ("seconds", "tokens_per_second")
TRAINING = TrainingConfig(
    updates=60, learning_rate=0.01, log_every=3, validate_every=7, average=2, accumulate=2
)


def text(model):
    return replace(small(), model=model, training=TRAINING)


def labels(folder):
    path = folder / "labels.tsv"
    path.write_text("".join(f"{x} {y} so\t{x}\n" for x in "abc" for y in "defghi") * 2)
    return Experiment(
        data=ClassificationDataConfig(path=path, dev_size=2, test_size=0, batch_sentences=8),
        model=configs.classifier(embedding=12, size=8, dropout=0.1),
        training=replace(TRAINING, metric=None),
    )


def captions(folder):
    return Experiment(
        data=CaptionDataConfig(
            synthetic="shapes", synthetic_size=20, dev_size=5, test_size=5, image_size=16,
            batch_sentences=4,
        ),
        model=configs.captioner(channels=(4, 8, 8), size=12, embedding=8),
        training=TRAINING,
    )  # fmt: skip


FAMILIES = {
    "bahdanau": lambda _: text(
        configs.recurrent(size=12, embedding=8, wiring="bahdanau", attention={"size": 8})
    ),
    "transformer": lambda _: text(
        configs.transformer(size=12, layers=1, heads=2, feed_forward=16, dropout=0.1)
    ),
    "convs2s": lambda _: text(
        configs.translation("gated_convolution", "gated_convolution", size=12, dropout=0.1)
    ),
    "labels": labels,
    "captions": captions,
}


def train(experiment, folder, resume):
    """Train, with the state saved after every update."""
    torch.set_num_threads(1)  # threads do not survive a fork
    settings_of = training.settings_of

    def often(*arguments):
        return replace(settings_of(*arguments), save_seconds=0.0)

    training.settings_of = often
    try:
        return training.train(experiment, folder, resume=resume)
    finally:
        training.settings_of = settings_of


def session(experiment, folder, resume, moments, sent):
    """Train in a child that sends itself a signal after this number of changes of the disk."""
    left = [moments]

    def count():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), sent)

    def counted(change):
        def changed(*arguments, **named):
            count()
            result = change(*arguments, **named)
            count()
            return result

        return changed

    Path.replace = counted(Path.replace)
    Path.unlink = counted(Path.unlink)
    os.fsync = counted(os.fsync)
    logs._append = counted(logs._append)
    end = train(experiment, folder, resume)
    os._exit(TERMINATED if end.interrupted else 0)


def kill_and_resume(experiment, folder):
    """Train in sessions until the end, and return the number of kills."""
    chance, kills, fork = random.Random(5), 0, multiprocessing.get_context("fork")
    while True:
        sent = signal.SIGTERM if chance.random() < 0.1 else signal.SIGKILL
        moments = chance.randint(1, LONGEST) if kills < KILLS else NEVER
        resume = (folder / "config.yaml").exists()
        child = fork.Process(target=session, args=(experiment, folder, resume, moments, sent))
        child.start()
        child.join()
        if child.exitcode == 0:
            return kills
        assert child.exitcode in (-signal.SIGKILL, -signal.SIGTERM, TERMINATED)
        kills += 1
        assert kills < 20 * KILLS


def lines(folder):
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: line[name] for name in line if name not in CLOCK} for line in log]


def state(folder):
    about = json.loads(read_metadata(folder / "state/training.safetensors")["training"])
    counters = about["state"]
    counters["seconds"] = counters["totals"]["seconds"] = 0
    return counters


def same(path, other):
    first, second = load_file(path), load_file(other)
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_training_killed_fifty_times_equals_one_that_was_not(family, tmp_path):
    experiment = FAMILIES[family](tmp_path)
    one, killed = tmp_path / "one", tmp_path / "killed"
    train(experiment, one, resume=False)
    kills = kill_and_resume(experiment, killed)
    assert kills >= KILLS, kills
    assert same(one / "model.safetensors", killed / "model.safetensors")
    assert same(one / "state/training.safetensors", killed / "state/training.safetensors")
    assert state(one) == state(killed)
    assert lines(one) == lines(killed)
    names = [{path.name for path in folder.rglob("*")} for folder in (one, killed)]
    assert names[0] == names[1]
