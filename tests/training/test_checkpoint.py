"""Files that are whole, and settings that must agree."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.errors import UserError
from regard.training.checkpoint import (
    MAY_CHANGE,
    Checkpoints,
    fingerprint_of,
)
from regard.training.optimiser import Optimiser
from regard.training.schedule import LinearDecay
from regard.training.settings import TrainingSettings
from regard.training.state import Totals, TrainingState
from tests.training.fakes import Tied, TinyBatches, tiny_model


def stepped(model: nn.Module) -> torch.optim.AdamW:
    """An Adam with something to remember."""
    adam = Optimiser().build(model)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    adam.step()
    return adam


def test_saving_and_loading_preserves_the_training_state(tmp_path):
    checkpoints = Checkpoints(tmp_path, {"seed": "1"})
    model, other = Tied(), Tied()
    adam, fresh = stepped(model), Optimiser().build(other)
    sums = Totals(1 / 3, 5, 7, 0.1, {"size": 0.7}, {"norm": 0.3})
    state = TrainingState(17, 3, 2, 1.5, [0.1, -2 / 3], [None, 1 / 7], sums)
    state.products = {"many_rows": "mkl"}
    checkpoints.save_model(model)
    checkpoints.save(state, model, adam)

    assert checkpoints.begin(other, fresh, resume=True) == state
    assert other.output.weight is other.embedding.weight
    for ours, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert (
            fresh.state[ours].keys()
            == adam.state[theirs].keys()
            == {
                "step",
                "exp_avg",
                "exp_avg_sq",
            }
        )
        for moment, value in adam.state[theirs].items():
            assert torch.equal(fresh.state[ours][moment], value)


@pytest.mark.parametrize(
    "broken", ["safetensors.torch.save_file", "os.fsync", "pathlib.Path.replace"]
)
def test_a_crash_while_writing_preserves_the_old_files(tmp_path, monkeypatch, broken):
    checkpoints = Checkpoints(tmp_path, {})
    model = tiny_model()
    adam = stepped(model)
    checkpoints.save(TrainingState(update=2), model, adam)
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def crash(*_arguments, **_settings):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        name = "regard.storage.weights.save_file" if "save_file" in broken else broken
        patch.setattr(name, crash)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(TrainingState(update=3), tiny_model(seed=4), adam)
    assert checkpoints.begin(model, adam, resume=True).update == 2
    for name, value in before.items():
        assert torch.equal(model.state_dict()[name], value)


def test_resuming_removes_unfinished_files_of_a_killed_run(tmp_path):
    checkpoints = Checkpoints(tmp_path, {})
    model = tiny_model()
    adam = stepped(model)
    checkpoints.save(TrainingState(update=2), model, adam)
    own = tmp_path / "notes.unfinished"
    left = [tmp_path / f"model.safetensors.{'0a' * 16}.unfinished"]
    left += [tmp_path / "state" / f"validation-2.safetensors.{'1b' * 16}.unfinished"]
    for path in (own, *left):
        path.write_text("half")
    checkpoints.begin(model, adam, resume=True)
    assert own.exists()
    assert not any(path.exists() for path in left)


def test_resuming_rejects_changes_of_fixed_settings_only():
    settings = TrainingSettings()
    facts = fingerprint_of(settings, TinyBatches(7))
    named = {name.split(".")[0] for name in facts} - {"the fingerprint of the training data"}
    assert named | MAY_CHANGE == {each.name for each in dataclasses.fields(settings)}
    assert named & MAY_CHANGE == set()
    assert facts["optimiser.learning_rate"] == "0.001"


def test_changed_settings_are_named(tmp_path):
    model = tiny_model()
    adam = stepped(model)

    def checkpoints(schedule: LinearDecay, num_batches: int = 7) -> Checkpoints:
        settings = TrainingSettings(optimiser=Optimiser(schedule=schedule))
        return Checkpoints(tmp_path, fingerprint_of(settings, TinyBatches(num_batches)))

    checkpoints(LinearDecay(5)).save(TrainingState(), model, adam)
    was, now = r"LinearDecay\(warmup=5\)", r"LinearDecay\(warmup=3\)"
    was_and_is = rf"optimiser\.schedule was {was} and is {now} now"
    with pytest.raises(UserError, match=was_and_is):
        checkpoints(LinearDecay(3)).begin(model, adam, resume=True)
    with pytest.raises(UserError, match=r"training data was 7 with seed . and is 11"):
        checkpoints(LinearDecay(5), 11).begin(model, adam, resume=True)


def test_a_run_is_not_overwritten_nor_resumed_without_state(tmp_path):
    model = tiny_model()
    adam = stepped(model)
    with pytest.raises(UserError, match="nothing to resume"):
        Checkpoints(tmp_path / "new", {}).begin(model, adam, resume=True)
    with pytest.raises(UserError, match="nothing to resume"):
        Checkpoints(None, {}).begin(model, adam, resume=True)
    Checkpoints(tmp_path, {}).save(TrainingState(), model, adam)
    with pytest.raises(UserError, match="holds a run already"):
        Checkpoints(tmp_path, {}).begin(model, adam, resume=False)


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tiny_model()
    Checkpoints(None, {}).save(TrainingState(), model, stepped(model))
    Checkpoints(None, {}).save_model(model)
    assert list(Path().iterdir()) == []
