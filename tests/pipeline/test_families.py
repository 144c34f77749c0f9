"""One tiny training of each family of models: the loss falls, and a loaded run gives attention.

`scripts/other-cpus` runs these tests as on CPUs with fewer instructions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard import config
from regard.pipeline.train import train
from regard.tasks.counting.counting import build_counter, fit, training_letters, two_rates
from regard.tasks.counting.settings import CountingSettings
from tests import configs
from tests.small_runs import small

RECURRENT = configs.recurrent(size=24, embedding=12, bidirectional=True, attention=dict(size=16))
WRITERS = {
    "bahdanau": configs.changed(RECURRENT, wiring="bahdanau", cell="gru", output="deep"),
    "luong": configs.changed(RECURRENT, wiring="luong", feeding="attentional"),
    "transformer": configs.transformer(size=24, layers=1, heads=2, feed_forward=32),
}
SCENE = "large red circle top left; small blue square centre"


def losses(folder):
    """The training losses of a run's log."""
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "train"]


def trained(experiment, folder, **training):
    """Train, and check that the loss falls."""
    settings = replace(experiment.training, log_every=1, device="cpu", **training)
    train(replace(experiment, training=settings), folder)
    first, *_, last = losses(folder)
    assert np.isfinite([first, last]).all()
    assert last < 0.95 * first
    return regard.load(folder)


@pytest.mark.parametrize("model", WRITERS.values(), ids=WRITERS)
def test_a_translator_learns_and_attends(tmp_path, model):
    experiment = replace(small(learning_rate=0.02), model=model)
    translator = trained(experiment, tmp_path / "run")
    for precision in ("float32", "bfloat16", "int8"):
        search = config.SearchConfig(beam=3, max_length=7, precision=precision)
        output = translator.translate("a b c", search=search)
        np.testing.assert_allclose(output.attention.sum(axis=-1), 1, atol=1e-4)
        (scored,) = translator.score([("a b c", output.text)])
        assert np.isfinite(scored.score)


def test_training_in_bfloat16_learns_too(tmp_path):
    experiment = replace(small(learning_rate=0.02), model=WRITERS["bahdanau"])
    trained(experiment, tmp_path / "run", precision="bfloat16", updates=15)


def test_a_classifier_learns_and_attends(tmp_path):
    lines = [f"{noise} {word} {noise}{noise}\t{word}" for noise in "defghi" for word in "abc"]
    (tmp_path / "labels.tsv").write_text("\n".join(lines * 3) + "\n")
    experiment = config.Experiment(
        name="labels",
        data=config.ClassificationDataConfig(path=tmp_path / "labels.tsv", dev_size=3, test_size=3),
        model=configs.classifier(embedding=12, size=8, attention=dict(size=11)),
        training=config.TrainingConfig(epochs=6, learning_rate=0.02),
    )
    answer = trained(experiment, tmp_path / "run").classify("d a e")
    np.testing.assert_allclose(answer.attention.sum(axis=-1), 1, atol=1e-5)


def test_a_captioner_learns_and_attends(tmp_path):
    experiment = config.Experiment(
        name="shapes",
        data=config.CaptionDataConfig(
            synthetic="shapes",
            synthetic_size=40,
            dev_size=10,
            test_size=10,
            image_size=32,
            batch_sentences=8,
        ),
        model=configs.captioner(channels=(4, 8, 8), size=12, embedding=8),
        training=config.TrainingConfig(epochs=3, learning_rate=0.01),
    )
    caption = trained(experiment, tmp_path / "run").caption(SCENE)
    (block,) = caption.maps
    np.testing.assert_allclose(block.weights.sum(axis=-1), 1, atol=1e-4)


def test_counting_is_learned():
    settings = CountingSettings(
        steps=150, batchsize=32, hidden=16, max_len=4, vocab_size=2, lr=0.01
    )
    model = build_counter(settings, 1)
    generator = torch.Generator().manual_seed(1)
    letters, optimiser = training_letters(settings), two_rates(model, settings.lr)
    history = [float(loss) for loss in fit(model, letters, optimiser, settings, generator)]
    assert np.mean(history[-10:]) < 0.5 * np.mean(history[:10])
