"""Small runs of format 3, and small experiments that several tests train."""

from dataclasses import replace
from pathlib import Path

from regard.config import (
    CaptionDataConfig,
    ClassificationDataConfig,
    DataConfig,
    Experiment,
    TrainingConfig,
)
from tests import configs

RUNS = Path(__file__).parent / "runs" / "data" / "format-3"
"""Folder of trained runs, which are read only."""


def small(**training):
    """Return an experiment that trains in a second."""
    return Experiment(
        name="small",
        data=DataConfig(
            synthetic="copy",
            synthetic_size=300,
            tokenizer="spaces",
            dev_size=20,
            test_size=10,
            batch_tokens=None,
            batch_sentences=32,
        ),
        model=configs.recurrent(
            size=16,
            embedding=8,
            dropout=0.1,
            feeding="attentional",
            attention=dict(size=11),
        ),
        training=TrainingConfig(
            **{"epochs": 2, "learning_rate": 0.01, "metric": "exact_match", **training}
        ),
    )


def smaller(**training):
    """Return `small` with fewer pairs, for tests that train several times."""
    experiment = small(**training)
    return replace(experiment, data=replace(experiment.data, synthetic_size=130))


def translation(model=None):
    """Return `smaller` of one epoch, with another model if one is named."""
    experiment = smaller(epochs=1)
    return replace(experiment, model=model or experiment.model)


def captions():
    """Return an experiment on drawn scenes."""
    sizes = dict(synthetic_size=24, dev_size=10, test_size=10, image_size=32, batch_sentences=16)
    return Experiment(
        name="shapes",
        data=CaptionDataConfig(synthetic="shapes", **sizes),
        model=configs.captioner(size=12, channels=(4, 8, 8), embedding=8),
        training=TRAINING,
    )


def labels(path):
    """Return an experiment on texts of two labels, which are written to a file."""
    lines = [f"{word} so {n}\t{word}s" for n in range(20) for word in ("red", "blue")]
    path.write_text("\n".join(lines) + "\n")
    data = ClassificationDataConfig(path=path, target="label", dev_size=4, test_size=4)
    model = configs.classifier(size=16, bidirectional=True)
    return Experiment(name="labels", data=data, model=model, training=TRAINING)


TRAINING = TrainingConfig(epochs=1, learning_rate=0.01, device="cpu")
TRANSFORMER = dict(size=12, layers=2, heads=3, feed_forward=13, experts=dict(number=3, active=2))
EXPERIMENTS = {
    "translation": lambda _: small(teacher_forcing=0.5),
    "transformer": lambda _: translation(configs.transformer(**TRANSFORMER)),
    "convolution": lambda _: translation(
        configs.translation(*["gated_convolution"] * 2, size=14, layers=1)
    ),
    "captions": lambda _: captions(),
    "labels": lambda folder: labels(folder / "labels.tsv"),
}
"""Experiment of each task and family, by the folder of its data."""
