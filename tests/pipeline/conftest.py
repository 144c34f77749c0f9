"""One small trained run that the tests of the pipeline share."""

from dataclasses import replace

import pytest

from regard import recipes
from regard.config import AttentionConfig, DataConfig, Experiment, RecurrentConfig, TrainingConfig
from regard.pipeline.training import train


def small(**training):
    """An experiment that takes a second."""
    return Experiment(
        name="small",
        data=DataConfig(
            generated="copy",
            generated_size=300,
            tokenizer="spaces",
            dev_size=20,
            test_size=10,
            batch_tokens=None,
            batch_sentences=32,
        ),
        model=RecurrentConfig(
            hidden=16,
            embedding=8,
            dropout=0.1,
            feeding="attentional",
            attention=AttentionConfig(size=11),
        ),
        training=TrainingConfig(
            **{"epochs": 2, "learning_rate": 0.01, "metric": "exact_match", **training}
        ),
    )


def smaller(**training):
    """The same of fewer pairs, for tests that train several times."""
    experiment = small(**training)
    return replace(experiment, data=replace(experiment.data, generated_size=130))


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The folder of a trained run."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    train(small(teacher_forcing=0.5), folder)
    return folder


@pytest.fixture
def toy():
    """The article's toy with fewer epochs."""
    experiment = recipes.load(recipes.find("toy"))
    return replace(experiment, training=replace(experiment.training, epochs=3))
