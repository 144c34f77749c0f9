"""Small runs of format 3, and small experiments that several tests train."""

from dataclasses import replace
from pathlib import Path

from regard.config import DataConfig, Experiment, TrainingConfig
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
