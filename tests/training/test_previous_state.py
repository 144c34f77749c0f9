"""A training continues from the previous state if the last one is damaged, with equal results."""

import shutil
from dataclasses import replace

import pytest

from regard.errors import UserError
from regard.training.loop import train
from regard.training.settings import Period
from tests.messages import raises
from tests.training.fakes import dev_score, tiny_model
from tests.training.test_loop import BATCHES, EVERYTHING, assert_same, kept, log, weights

SETTINGS = replace(EVERYTHING, length=Period(15, "epoch"), save_seconds=0.0, average=3)
STATE, PREVIOUS = "state/training.safetensors", "state/previous.safetensors"


class CrashError(Exception):
    """End of a training in the middle."""


class Crashing:
    """Validation that fails after some calls."""

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, model):
        self.calls -= 1
        if self.calls < 0:
            raise CrashError
        return dev_score(model)


def run(folder, validate=dev_score, **arguments):
    model = tiny_model(dropout=0.5)
    train(model, BATCHES, SETTINGS, validate=validate, folder=folder, **arguments)
    return model


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A finished run, and the same run that ended in the middle, with the weights of the first."""
    folder = tmp_path_factory.mktemp("runs")
    model = run(folder / "one")
    with pytest.raises(CrashError):
        run(folder / "half", Crashing(7))
    return folder, model


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-40] ^= 4
    path.write_bytes(content)


DAMAGES = {"cut": cut, "flip": flip, "empty": lambda path: path.write_bytes(b"")}


@pytest.mark.parametrize("damage", [*DAMAGES.values(), lambda path: path.unlink()])
def test_the_state_before_takes_over(folders, tmp_path, caplog, damage):
    folder, one = folders
    copy = shutil.copytree(folder / "half", tmp_path / "half")
    damage(copy / STATE)
    again = run(copy, resume=True)
    assert "the training continues from the state before it" in caplog.text
    assert_same(weights(again), weights(one))
    assert log(copy) == log(folder / "one")
    assert kept(copy) == kept(folder / "one")


def test_an_intact_state_is_used(folders, tmp_path, caplog):
    folder, one = folders
    copy = shutil.copytree(folder / "half", tmp_path / "half")
    cut(copy / PREVIOUS)
    assert_same(weights(run(copy, resume=True)), weights(one))
    assert not caplog.text


def test_two_damaged_states_end_in_one_line_and_change_nothing(folders, tmp_path):
    copy = shutil.copytree(folders[0] / "half", tmp_path / "half")
    cut(copy / STATE)
    cut(copy / PREVIOUS)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with raises(UserError, "training.safetensors"):
        run(copy, resume=True)
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
