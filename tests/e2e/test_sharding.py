"""Two processes that divide one model give the losses and the run folder of one process."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import regard
from regard.config import ExpertsConfig, TrainingConfig
from regard.errors import UserError
from regard.pipeline import train as training
from regard.pipeline.train import train
from regard.runtime import processes
from regard.storage.weights import read_metadata
from regard.training import checkpoint
from tests import configs, ranks
from tests.small_runs import small

MODELS = {
    # The gate of the pointer is a weight of one row, so one of two processes has none of it.
    "pointer": configs.recurrent(size=17, embedding=8, copy="pointer_generator"),
    "transformer": configs.transformer(size=16, layers=2, heads=2, feed_forward=24),
    "convs2s": configs.translation("gated_convolution", "gated_convolution", size=16),
    "bytenet": configs.translation(
        "dilated_convolution", "dilated_convolution", size=16, sets=1, dilations=(1, 2)
    ),
}
EXPERTS = configs.transformer(
    size=16, layers=1, heads=2, feed_forward=24, experts=ExpertsConfig(number=5, active=2, size=3)
)
UPDATES = 6


def experiment_of(name, updates=UPDATES, sharding="full", **training):
    # Rounding errors of ByteNet grow tenfold in an update at a rate of 0.01.
    rate = 0.001 if name == "bytenet" else 0.01
    values = dict(learning_rate=rate, log_every=1, validate_every=100) | training
    if name == "pointer":
        values |= dict(validate_every=3, average=2)
    return replace(
        small(),
        name=name,
        model=replace(MODELS.get(name, EXPERTS), dropout=0.0),
        training=TrainingConfig(updates=updates, sharding=sharding, **values),
    )


class StoppedError(Exception):
    """End of a training between two writes."""


def stop_at_third_state(state, tensors):
    """Write the parts of a state, and end before the third state names them."""
    parts = WRITE_PARTS(state, tensors)
    if len(list(state.glob("parts-*"))) == 3:
        raise StoppedError
    return parts


def save_every_update(*arguments):
    return replace(SETTINGS_OF(*arguments), save_seconds=0.0)


WRITE_PARTS = checkpoint.write_parts
SETTINGS_OF = training.settings_of


def train_sharded(folder):
    """Train every model, and one model in sessions that begin and end in other ways."""
    folder = Path(folder)
    with processes.connected():
        for name in MODELS:
            train(experiment_of(name), folder / name)
        train(experiment_of("transformer", 5), folder / "from one", resume=True)
        train(experiment_of("transformer", 3), folder / "twice")
        train(experiment_of("transformer"), folder / "twice", resume=True)
        train(experiment_of("transformer", 3, teacher_forcing=0.5), folder / "forced")
        train(experiment_of("experts", 3), folder / "experts")
        train(experiment_of("experts", 3, "none"), folder / "whole experts")
        checkpoint.write_parts = stop_at_third_state
        training.settings_of = save_every_update
        with pytest.raises(StoppedError):
            train(experiment_of("transformer"), folder / "killed")


def losses(folder):
    log = (folder / "log.jsonl").read_text().splitlines()
    return [line["loss"] for line in map(json.loads, log) if line["kind"] == "train"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of the runs that one process and two processes have trained."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    for name in MODELS:
        train(experiment_of(name), one / name)
    train(experiment_of("transformer", 3, "none"), two / "from one")
    ranks.run(2, "tests.e2e.test_sharding:train_sharded", two)
    shutil.copytree(two / "killed", two / "damaged")
    return one, two


@pytest.mark.parametrize("name", MODELS)
def test_two_processes_have_the_losses_and_the_weights_of_one(folders, name):
    one, two = (losses(folder / name) for folder in folders)
    assert len(one) == UPDATES
    np.testing.assert_allclose(two, one, rtol=1e-5)
    weights, others = (load_file(folder / name / "model.safetensors") for folder in folders)
    assert weights.keys() == others.keys()
    for weight in weights:
        # The biases of keys have no gradient but rounding, which Adam scales up.
        if "key.bias" not in weight and "self_attention.projection.bias" not in weight:
            np.testing.assert_allclose(others[weight], weights[weight], atol=1e-4)


def test_each_process_writes_its_own_part(folders):
    state = folders[1] / "transformer" / "state"
    (parts,) = state.glob("parts-*")
    sizes = [path.stat().st_size for path in parts.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < 1.2 * min(sizes)
    assert not [name for name in load_file(state / "training.safetensors") if "exp_avg" in name]


def test_a_run_folder_has_the_whole_model(folders):
    run = folders[1] / "convs2s"
    assert (
        regard.load(run).translate("a b c").text
        == regard.load(folders[0] / "convs2s").translate("a b c").text
    )


def test_a_run_of_one_process_continues_sharded_and_then_in_one(folders):
    one, two = folders
    train(experiment_of("transformer"), two / "from one", resume=True)
    np.testing.assert_allclose(losses(two / "from one"), losses(one / "transformer"), rtol=1e-5)
    assert not list((two / "from one" / "state").glob("parts-*"))


def test_resuming_is_the_same_run(folders):
    runs = [folders[1] / name for name in ("transformer", "twice")]
    assert losses(runs[0]) == losses(runs[1])
    first, second = (load_file(run / "model.safetensors") for run in runs)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_layers_with_predicted_inputs_are_not_waited_for(folders):
    assert len(losses(folders[1] / "forced")) == 3


def test_experts_have_the_losses_of_processes_without_sharding(folders):
    runs = [folders[1] / name for name in ("experts", "whole experts")]
    np.testing.assert_allclose(*map(losses, runs), rtol=1e-5)


def test_a_save_that_did_not_end_leaves_the_state_before(folders):
    one, two = folders
    state = two / "killed" / "state"
    assert len(list(state.glob("parts-*"))) == 3
    train(experiment_of("transformer"), two / "killed", resume=True)
    np.testing.assert_allclose(losses(two / "killed"), losses(one / "transformer"), rtol=1e-5)
    assert not list(state.glob("parts-*"))


def test_a_state_with_a_damaged_part_is_replaced_by_the_state_before(folders, caplog):
    one, two = folders
    state = two / "damaged" / "state"
    about = json.loads(read_metadata(state / "training.safetensors")["training"])
    assert about["state"]["update"] == 1
    next((state / about["parts"]["folder"]).iterdir()).write_bytes(b"")
    train(experiment_of("transformer"), two / "damaged", resume=True)
    assert "the training continues from the state before it" in caplog.text
    np.testing.assert_allclose(losses(two / "damaged"), losses(one / "transformer"), rtol=1e-5)
    assert not list(state.glob("parts-*"))


def test_a_damaged_or_missing_part_is_an_error(folders):
    experiment, run = experiment_of("bytenet", UPDATES + 1), folders[1] / "bytenet"
    part = max(run.glob("state/parts-*/*"))
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(UserError, match=f"{part.name} is damaged"):
        train(experiment, run, resume=True)
    part.unlink()
    with pytest.raises(UserError, match=f"{part.name}, a part of the training state, is missing"):
        train(experiment, run, resume=True)
