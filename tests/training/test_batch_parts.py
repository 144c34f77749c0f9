"""An update that needs too much memory is computed in parts, with the gradients of the whole."""

import json
from dataclasses import replace

import pytest
import torch

from regard.errors import UserError
from regard.training.batch_parts import Splits, parts_of
from regard.training.loop import train
from regard.training.settings import Period
from tests.training.fakes import TinyModel, dev_score, tiny_model
from tests.training.test_loop import BATCHES, EVERYTHING, assert_same, log, weights

SETTINGS = replace(EVERYTHING, length=Period(9), save_seconds=0.0)
NO_MEMORY = (
    "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
)


class Hungry(TinyModel):
    """Model that has no memory for more sentences than this."""

    sentences = 2
    last_call = None

    def forward(self, batch, forced=None):
        if self.last_call is not None:
            self.last_call -= 1
            if self.last_call < 0:
                raise KeyError("a crash")
        if self.training and len(batch) > self.sentences:
            raise RuntimeError(NO_MEMORY)
        return super().forward(batch, forced)


@pytest.fixture
def _no_search_for_garbage(monkeypatch):
    """Skip it after each failed allocation: it takes seconds in a process with many tests."""
    monkeypatch.setattr("regard.training.batch_parts.release_freed_memory", lambda: None)


def hungry(**fields):
    torch.manual_seed(3)
    return Hungry(**fields)


def run(model, folder, **arguments):
    return train(model, BATCHES, SETTINGS, validate=dev_score, folder=folder, **arguments)


def sizes():
    return [len(batch) for batch in BATCHES.epoch(1)]


def test_the_parts_of_a_batch_have_all_of_its_sentences():
    batch = next(iter(BATCHES.epoch(1)))
    parts = parts_of(batch, 2)
    assert len(parts) == min(2, len(batch))
    assert torch.equal(torch.cat([part.outputs for part in parts]), batch.outputs)
    assert parts_of(batch, 1) == [batch]


@pytest.mark.usefixtures("_no_search_for_garbage")
def test_split_updates_have_the_weights_of_whole_ones(tmp_path, caplog):
    assert max(sizes()) > 2
    whole, split = tiny_model(), hungry()
    split.load_state_dict(whole.state_dict())
    run(whole, tmp_path / "whole")
    run(split, tmp_path / "split")
    for name, weight in weights(whole).items():
        torch.testing.assert_close(weights(split)[name], weight, atol=1e-5, rtol=1e-4)
    splits = json.loads((tmp_path / "split/state/splits.json").read_text())
    assert splits
    assert all(parts >= 2 for parts in splits.values())
    assert "not enough memory for its batch, so it is computed in 2 parts" in caplog.text
    assert not (tmp_path / "whole/state/splits.json").exists()


@pytest.mark.usefixtures("_no_search_for_garbage")
def test_a_resumed_run_repeats_the_parts_with_more_memory(tmp_path):
    split, crashing = hungry(dropout=0.5), hungry(dropout=0.5)
    run(split, tmp_path / "split")
    folder = tmp_path / "resumed"
    crashing.last_call = 20
    with pytest.raises(KeyError):
        run(crashing, folder)
    splits = json.loads((tmp_path / "split/state/splits.json").read_text())
    (folder / "state/splits.json").write_text(json.dumps(splits))  # recorded before a kill
    again = hungry(dropout=0.5)
    again.sentences = 1000
    run(again, folder, resume=True)
    assert_same(weights(again), weights(split))
    assert log(folder) == log(tmp_path / "split")


def test_single_sentences_that_do_not_fit_end_the_training(tmp_path):
    model = hungry()
    model.sentences = 0
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        run(model, tmp_path / "run")


def test_other_errors_are_not_repeated(tmp_path):
    calls = []

    def fail(batches):
        calls.append(batches)
        raise RuntimeError("another error")

    with pytest.raises(RuntimeError, match="another error"):
        Splits(None, resume=False).compute(fail, tiny_model(), list(BATCHES.epoch(1))[:1], 1)
    assert len(calls) == 1


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "state/splits.json"
    path.parent.mkdir()
    path.write_text("[1]")
    with pytest.raises(UserError, match=r"splits.json is damaged"):
        Splits(tmp_path, resume=True)
