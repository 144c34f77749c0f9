"""The mean of several runs, number by number."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from regard.errors import UserError
from regard.pipeline.average import average
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.tasks.translation.model import TranslationModel
from tests.messages import check_message, raises
from tests.small_runs import small


@pytest.fixture(scope="module")
def other(run, tmp_path_factory):
    """A run of the same model and vocabulary, with another seed, length and held-out pairs."""
    folder = tmp_path_factory.mktemp("runs") / "other"
    experiment = small(seed=5, epochs=1)
    data = replace(experiment.data, tokenizers_path=run, seed=5)
    model = replace(experiment.model, dropout=0.3)
    train(replace(experiment, data=data, model=model), folder)
    return folder


def test_every_weight_is_the_mean(run, other, tmp_path):
    folder = average([run, other, other], tmp_path / "new")
    ours, theirs = load_file(run / "model.safetensors"), load_file(other / "model.safetensors")
    mean_weights = load_file(folder.model)
    assert mean_weights.keys() == ours.keys()
    for name, weights in mean_weights.items():
        mean = (ours[name].astype(np.float64) + 2 * theirs[name].astype(np.float64)) / 3
        np.testing.assert_array_equal(weights, mean.astype(np.float32))


def test_a_mean_is_a_run_that_translates(run, tmp_path):
    new = average([run, run], tmp_path / "new")
    texts = ["a b c", "", "z q"]
    outputs = TranslationModel.load(new.path).translate(texts)
    assert outputs == TranslationModel.load(run).translate(texts)
    assert new.experiment().name == "new"
    assert str(run) in new.experiment().about
    assert new.test.read_bytes() == RunFolder(run).test.read_bytes()
    with pytest.raises(UserError, match="nothing to resume"):
        train(replace(RunFolder(run).experiment(), **vars_of(new)), new.path, resume=True)


def vars_of(folder):
    experiment = folder.experiment()
    return {"name": experiment.name, "about": experiment.about}


def test_runs_that_do_not_belong_together_are_named(run, other, tmp_path, caplog):
    average([run, run], tmp_path / "equal")
    assert caplog.messages == []
    average([run, other], tmp_path / "new")
    check_message(*caplog.messages)


def test_runs_that_began_with_one_run_belong_together(run, tmp_path, caplog):
    for seed in (3, 4):
        experiment = small(seed=seed, epochs=1, initial_run=run)
        train(replace(experiment, data=RunFolder(run).experiment().data), tmp_path / str(seed))
    average([tmp_path / "3", tmp_path / "4"], tmp_path / "new")
    assert caplog.messages == []


def test_test_pairs_are_kept_if_all_runs_share_them(run, other, tmp_path):
    new = average([run, other], tmp_path / "new")
    assert not new.test.exists()
    assert not new.dev.exists()


def test_runs_that_cannot_be_averaged_are_rejected(run, other, tmp_path):
    new = tmp_path / "new"
    with pytest.raises(UserError, match="expected two or more runs to average, got 1"):
        average([run], new)
    with pytest.raises(UserError, match="is not a run"):
        average([run, tmp_path / "gone"], new)
    copy = RunFolder(shutil.copytree(other, tmp_path / "copy"))
    copy.record.unlink()
    config = copy.config.read_text()
    copy.config.write_text(config.replace("score: additive", "score: concat"))
    with pytest.raises(UserError, match=r"copy.*another model"):
        average([run, copy.path], new)
    copy.config.write_text(config.replace("temperature: 1.0", "temperature: 2.0"))
    with raises(UserError, "model.decoder.attention.temperature"):
        average([run, copy.path], new)
    copy.config.write_text(config.replace("source_end: true", "source_end: false"))
    with pytest.raises(UserError, match=r"copy cannot be averaged: data.source_end"):
        average([run, copy.path], new)
    assert not new.exists()
    new.mkdir()
    (new / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="new exists already"):
        average([run, other], new)
    assert [path.name for path in new.iterdir()] == ["notes.txt"]
