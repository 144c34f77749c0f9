"""Two processes that train one model give the losses, the weights and the run folder of one."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from regard.config import (
    CaptionDataConfig,
    ClassificationDataConfig,
    Experiment,
    TrainingConfig,
)
from regard.pipeline.train import train
from regard.runtime import processes
from tests import configs, ranks
from tests.small_runs import small

TEXTS = {
    "bahdanau": configs.recurrent(size=16, embedding=8, wiring="bahdanau", attention={"size": 8}),
    "luong": configs.recurrent(size=16, embedding=8, feeding="attentional"),
    "transformer": configs.transformer(size=16, layers=2, heads=2, feed_forward=24),
    "convs2s": configs.translation("gated_convolution", "gated_convolution", size=16),
    "pointer": configs.recurrent(size=16, embedding=8, copy="pointer_generator"),
}


def without_dropout(model):
    return replace(model, dropout=0.0)


def experiments(folder):
    """Return experiments without dropout, by name: 50 updates of one, and ten of the others."""
    labels = folder / "labels.tsv"
    if processes.is_first() and not labels.exists():
        labels.write_text("".join(f"{x} {y} so\t{x}\n" for x in "abc" for y in "defghi") * 2)
    training = TrainingConfig(updates=10, learning_rate=0.01, log_every=1, validate_every=5)
    result = {
        name: replace(small(), model=without_dropout(model), training=training)
        for name, model in TEXTS.items()
    }
    fifty = replace(training, updates=50, validate_every=25)
    result["bahdanau"] = replace(result["bahdanau"], training=fifty)
    accumulating = replace(training, accumulate=3, average=2, loss="sentence")
    result["accumulating"] = replace(result["luong"], training=accumulating)
    result["labels"] = Experiment(
        data=ClassificationDataConfig(path=labels, dev_size=2, test_size=0, batch_sentences=8),
        model=without_dropout(configs.classifier(embedding=12, size=8)),
        training=training,
    )
    result["captions"] = Experiment(
        data=CaptionDataConfig(
            synthetic="shapes", synthetic_size=30, dev_size=5, test_size=5, image_size=16,
            batch_sentences=5,
        ),
        model=without_dropout(configs.captioner(channels=(4, 8, 8), size=12, embedding=8)),
        training=training,
    )  # fmt: skip
    return result


def train_all(folder):
    """Train every experiment into folder/NAME."""
    folder = Path(folder)
    for name, experiment in experiments(folder).items():
        train(replace(experiment, name=name), folder / name)


def train_with_dropout(folder):
    """Train twice with dropout, and a last time in two sessions."""
    experiment = small(updates=12, log_every=1, validate_every=6)
    train(experiment, Path(folder) / "first")
    train(experiment, Path(folder) / "second")
    short = replace(experiment, training=replace(experiment.training, updates=7))
    train(short, Path(folder) / "resumed")
    train(experiment, Path(folder) / "resumed", resume=True)


def connected(function, folder):
    with processes.connected():
        globals()[function](folder)


def lines(folder, kind):
    log = (folder / "log.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, log) if line["kind"] == kind]


def test_two_processes_train_as_one_and_one_process_continues_their_run(tmp_path):
    """One test, so that the runs are trained once."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    train_all(one)
    ranks.run(2, "tests.e2e.test_several_processes:connected", "train_all", two)
    for name in experiments(one):
        check_losses(one / name, two / name, 10)
        check_scores_and_weights(one / name, two / name)
        files = [
            {str(path.relative_to(run)) for path in (run / name).rglob("*")} for run in (one, two)
        ]
        assert files[0] == files[1], name
    for folder in (one, two):
        experiment = replace(experiments(folder)["luong"], name="luong")
        longer = replace(experiment, training=replace(experiment.training, updates=14))
        assert train(longer, folder / "luong", resume=True).update == 14
    check_losses(one / "luong", two / "luong", 14)


def check_losses(one, two, least):
    losses = [[line["loss"] for line in lines(folder, "train")] for folder in (one, two)]
    assert len(losses[0]) >= least
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5, err_msg=one.name)


def check_scores_and_weights(one, two):
    first, second = lines(one, "dev"), lines(two, "dev")
    assert [line["score"] for line in second] == pytest.approx([line["score"] for line in first])
    assert [line["loss"] for line in second] == pytest.approx(
        [line["loss"] for line in first], rel=1e-4
    )
    weights, others = (load_file(folder / "model.safetensors") for folder in (one, two))
    assert weights.keys() == others.keys()
    for weight in weights:
        # The biases of keys have no gradient but rounding, which Adam scales up.
        if "key.bias" not in weight and "self_attention.projection.bias" not in weight:
            np.testing.assert_allclose(others[weight], weights[weight], atol=1e-4, err_msg=weight)


def test_dropout_is_reproducible_and_resuming_is_the_same_run(tmp_path):
    ranks.run(2, "tests.e2e.test_several_processes:connected", "train_with_dropout", tmp_path)
    first, second, resumed = (
        load_file(tmp_path / name / "model.safetensors") for name in ("first", "second", "resumed")
    )
    for weight, values in first.items():
        np.testing.assert_array_equal(values, second[weight])
        np.testing.assert_array_equal(values, resumed[weight])
    losses = [
        [line["loss"] for line in lines(tmp_path / name, "train")]
        for name in ("first", "second", "resumed")
    ]
    assert losses[0] == losses[1] == losses[2]
