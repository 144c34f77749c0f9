"""The loop against a plain one, and runs that are broken off against runs that are not."""

import json
import operator
import signal
import threading
from dataclasses import replace
from itertools import count
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from regard.errors import UserError
from regard.models.contracts import Measure, Penalty
from regard.names import LossUnit
from regard.numerics import product_library
from regard.storage.weights import load_weights
from regard.training.checkpoint import Checkpoints
from regard.training.log import Validation
from regard.training.loop import train
from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.objective import NextToken
from regard.training.objectives.teacher_forcing import TeacherForcing
from regard.training.optimiser import Optimiser
from regard.training.schedule import Constant, LinearDecay, Plateau
from regard.training.settings import Period, TrainingSettings
from tests.messages import raises
from tests.training.fakes import TinyBatches, Watcher, dev_score, tiny_model

BATCHES = TinyBatches(7)
EVERYTHING = TrainingSettings(
    length=Period(3, "epoch"),
    optimiser=Optimiser(0.01, LinearDecay(5), weight_decay=0.1, clip=0.5),
    objective=NextToken(CrossEntropy(0.1), TeacherForcing(0.9, 0.3, by="token")),
    accumulate=2,
    validate_every=Period(5),
    log_every=Period(3),
    seed=11,
)
"""Four updates an epoch, twelve in all."""


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def log(folder, *, without=("seconds", "tokens_per_second")):
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [{key: line[key] for key in line if key not in without} for line in lines]


def kept(folder):
    """The weights that a run has, as bytes by file name."""
    files = [folder / "model.safetensors", *(folder / "state").glob("validation-*")]
    return {file.name: file.read_bytes() for file in files}


def scripted(*scores):
    """Scripted dev score."""
    rest = iter(scores)
    return lambda model: Validation(next(rest), "scripted")


@pytest.mark.parametrize("per", get_args(LossUnit))
def test_training_is_the_plain_loop(per):
    """Adam and cross entropy of torch, one batch after the other, in float64."""
    plain, model = tiny_model().double(), tiny_model().double()
    adam = torch.optim.Adam(plain.parameters(), lr=0.01, foreach=False)
    for epoch in (1, 2):
        for batch in BATCHES.epoch(epoch):
            output = plain(batch)
            count = len(output.targets) if per == "word" else len(batch.inputs)
            loss = F.cross_entropy(
                output.logits, output.targets, label_smoothing=0.1, reduction="sum"
            )
            adam.zero_grad()
            (loss / count).backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
            adam.step()
    settings = TrainingSettings(
        length=Period(2, "epoch"),
        optimiser=Optimiser(0.01, clip=0.5),
        objective=NextToken(CrossEntropy(0.1, per)),
    )
    assert train(model, BATCHES, settings).update == 14
    torch.testing.assert_close(weights(model), weights(plain), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("per", get_args(LossUnit))
def test_accumulated_batches_are_one_large_batch(per):
    class Joined:
        """All of an epoch in one batch."""

        def num_batches(self, number):
            return 1

        def fingerprint(self):
            return "joined"

        def epoch(self, number, start=0):
            from regard.data.batch import pair_batch

            sources, targets = [], []
            for batch in BATCHES.epoch(number):
                for side, ids, mask in (
                    (sources, batch.source.ids, batch.source.mask),
                    (targets, batch.outputs, batch.mask),
                ):
                    side += [row[real].tolist() for row, real in zip(ids, mask, strict=True)]
            return iter([pair_batch(sources, targets)][start:])

    settings = TrainingSettings(
        length=Period(3, "epoch"), objective=NextToken(CrossEntropy(0.1, per))
    )
    whole, parts = tiny_model().double(), tiny_model().double()
    train(whole, Joined(), settings)
    train(parts, BATCHES, replace(settings, accumulate=7))
    torch.testing.assert_close(weights(parts), weights(whole), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("average", "first"), [(None, False), (2, False), (2, True)])
@pytest.mark.parametrize("breaks", [(3,), (4,), (5,), (1, 2, 7, 11)])
def test_an_interrupted_run_resumes_bit_equal(tmp_path, breaks, average, first):
    """With dropout, teacher forcing, accumulation, a schedule and noisy validation: equal bits."""
    one_go = tiny_model(dropout=0.5)
    settings = replace(EVERYTHING, average=average, validate_first=first)
    train(one_go, BATCHES, settings, validate=dev_score, folder=tmp_path / "one")
    for number, update in enumerate(breaks):
        end = train(
            tiny_model(dropout=0.5),
            BATCHES,
            settings,
            validate=dev_score,
            report=Watcher(interrupt_after=update),
            folder=tmp_path / "broken",
            resume=number > 0,
        )
        assert (end.interrupted, end.update) == (True, update)
    torch.rand(5)
    resumed = tiny_model(seed=17, dropout=0.5)
    end = train(
        resumed, BATCHES, settings, validate=dev_score, folder=tmp_path / "broken", resume=True
    )
    assert (end.reason, end.update, end.epoch) == ("finished", 12, 3)
    assert_same(weights(resumed), weights(one_go))
    assert log(tmp_path / "broken") == log(tmp_path / "one")
    assert kept(tmp_path / "one") == kept(tmp_path / "broken")


def test_the_state_is_saved_with_the_first_validation(tmp_path):
    saved = []

    def validate(model):
        saved.append(Checkpoints(tmp_path, {}).saved_update())
        return Validation(float(len(saved)), "score")

    settings = replace(EVERYTHING, length=Period(6), validate_every=Period(2), save_seconds=1e6)
    train(tiny_model(), BATCHES, settings, validate=validate, folder=tmp_path)
    assert saved == [0, 2, 2]


def test_a_finished_run_can_be_made_longer(tmp_path):
    settings = replace(
        EVERYTHING,
        optimiser=Optimiser(0.01, Constant(3)),
        objective=NextToken(teacher_forcing=TeacherForcing(0.5)),
    )
    one_go, longer = tiny_model(dropout=0.5), tiny_model(dropout=0.5)
    train(one_go, BATCHES, settings)
    train(longer, BATCHES, replace(settings, length=Period(5)), folder=tmp_path)
    train(longer, BATCHES, settings, folder=tmp_path, resume=True)
    assert_same(weights(longer), weights(one_go))


def test_results_depend_on_the_seed_and_not_on_global_state():
    def trained(seed: int, noise: int):
        model = tiny_model(dropout=0.5)
        torch.manual_seed(noise)
        train(model, BATCHES, replace(EVERYTHING, seed=seed))
        return weights(model)["output.weight"]

    assert torch.equal(trained(1, noise=2), trained(1, noise=3))
    assert not torch.equal(trained(1, noise=2), trained(2, noise=2))


def test_dropout_and_teacher_forcing_differ_between_updates():
    masks = []

    class Noting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = tiny_model()

        def forward(self, batch, forced=None):
            masks.append((tuple(forced.flatten().tolist()), float(torch.rand(()))))
            return self.inner(batch, forced)

    train(Noting(), BATCHES, replace(EVERYTHING, length=Period(2, "epoch"), accumulate=1))
    assert len({mask for mask, _ in masks}) == len({noise for _, noise in masks}) == 14


def test_the_best_model_is_saved_and_patience_ends_training(tmp_path):
    model, kept, seen = tiny_model(), tiny_model(seed=4), []

    def validate(model):
        seen.append(weights(model))
        return Validation([1.0, 3.0, 2.0, 3.0, 9.0][len(seen) - 1], "scripted")

    settings = TrainingSettings(length=Period(99), validate_every=Period(2), patience=2)
    end = train(model, BATCHES, settings, validate=validate, folder=tmp_path)
    assert (end.reason, end.update, end.score) == ("patience", 8, 3.0)
    load_weights(kept, tmp_path / "model.safetensors")
    assert_same(weights(kept), seen[1])
    assert_same(weights(model), seen[3])
    dev = [line for line in log(tmp_path) if line["kind"] == "dev"]
    assert [line["best"] for line in dev] == [True, True, False, False]
    again = train(model, BATCHES, settings, validate=validate, folder=tmp_path, resume=True)
    assert (again.reason, again.update) == ("patience", 8)


class Libraries(Watcher):
    """The libraries of matrix products in every update."""

    def __init__(self):
        super().__init__()
        self.used = []

    def on_update(self, progress):
        self.used.append(product_library.current())


@pytest.mark.parametrize("has_record", [True, False])
def test_a_resumed_run_keeps_its_libraries(tmp_path, monkeypatch, has_record):
    shipped = dict.fromkeys(product_library.SHAPE_CLASSES, "mkl")
    monkeypatch.setattr(product_library, "_current", shipped)
    if not has_record:
        monkeypatch.setattr(product_library, "current", dict)
    first, settings = Libraries(), replace(EVERYTHING, length=Period(2))
    train(tiny_model(), BATCHES, settings, folder=tmp_path, report=first)
    monkeypatch.undo()

    other = {**shipped, "small": "onednn", "gradient": "onednn"}
    monkeypatch.setattr(product_library, "_current", other)
    resumed, settings = Libraries(), replace(EVERYTHING, length=Period(4))
    train(tiny_model(), BATCHES, settings, folder=tmp_path, report=resumed, resume=True)
    assert resumed.used == [shipped if has_record else product_library.ONEDNN] * 2
    assert product_library.current() == other


def test_an_unknown_library_in_a_state_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(product_library, "current", lambda: {"small": "blas"})
    settings = replace(EVERYTHING, length=Period(2))
    with pytest.raises(ValueError, match="library of products"):
        train(tiny_model(), BATCHES, settings, folder=tmp_path)
    with raises(UserError):
        train(tiny_model(), BATCHES, settings, folder=tmp_path, resume=True)


def test_a_session_ends_after_its_hours_and_is_resumed(tmp_path, monkeypatch):
    times = count(0.0, 60.0)
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    settings = replace(EVERYTHING, hours=0.1)
    folder, whole = tmp_path / "run", tmp_path / "whole"
    sessions = []
    while not sessions or sessions[-1].reason == "hours":
        model = tiny_model(dropout=0.3)
        resume = bool(sessions)
        end = train(model, BATCHES, settings, validate=dev_score, folder=folder, resume=resume)
        sessions.append(end)
        assert not end.interrupted
    assert [(end.reason, end.update) for end in sessions] == [
        ("hours", 5),
        ("hours", 10),
        ("finished", 12),
    ]
    uninterrupted = tiny_model(dropout=0.3)
    train(uninterrupted, BATCHES, EVERYTHING, validate=dev_score, folder=whole)
    assert_same(weights(model), weights(uninterrupted))
    ended = [line for line in log(folder) if line["kind"] == "end"]
    assert log(folder) == log(whole)
    assert [line["reason"] for line in ended] == ["finished"]


def test_the_lowest_error_rate_is_saved_and_patience_ends_training(tmp_path):
    model, kept, seen = tiny_model(), tiny_model(seed=4), []

    def validate(model):
        seen.append(weights(model))
        rate = [9.0, 3.0, 4.0, 3.0, 1.0][len(seen) - 1]
        return Validation(rate, "TER", higher_is_better=False)

    settings = TrainingSettings(length=Period(99), validate_every=Period(2), patience=2)
    end = train(model, BATCHES, settings, validate=validate, folder=tmp_path)
    assert (end.reason, end.update, end.score) == ("patience", 8, 3.0)
    load_weights(kept, tmp_path / "model.safetensors")
    assert_same(weights(kept), seen[1])
    dev = [line for line in log(tmp_path) if line["kind"] == "dev"]
    assert [line["best"] for line in dev] == [True, True, False, False]
    again = train(model, BATCHES, settings, validate=validate, folder=tmp_path, resume=True)
    assert (again.reason, again.score) == ("patience", 3.0)


def test_equal_scores_are_ranked_by_loss(tmp_path):
    model, kept, seen = tiny_model(), tiny_model(seed=4), []
    scored = [(0.0, 2.0), (0.0, 1.5), (0.0, 1.7), (0.0, 1.5), (-1.0, 0.1), (0.0, None)]

    def validate(model):
        seen.append(weights(model))
        score, loss = scored[len(seen) - 1]
        return Validation(score, "scripted", loss)

    settings = TrainingSettings(length=Period(6), validate_every=Period(1), patience=4)
    for length in (2, 6):  # the losses are remembered where a run is resumed
        longer = replace(settings, length=Period(length))
        resume = length > 2
        end = train(model, BATCHES, longer, validate=validate, folder=tmp_path, resume=resume)
    assert (end.reason, end.update) == ("finished", 6)
    load_weights(kept, tmp_path / "model.safetensors")
    assert_same(weights(kept), seen[1])
    dev = [line for line in log(tmp_path) if line["kind"] == "dev"]
    assert [line["best"] for line in dev] == [True, True, False, False, False, False]


class Judge:
    """Scripted dev score that records the weights it is called with."""

    def __init__(self, *scores):
        self.rest, self.seen = iter(scores), []

    def __call__(self, model):
        self.seen.append(weights(model))
        return Validation(next(self.rest), "scripted")

    def mean(self, *numbers):
        """In numpy, in float64, of validations counted from one."""
        weights = [self.seen[number - 1] for number in numbers]
        return {
            name: torch.from_numpy(
                np.mean([one[name].numpy().astype(np.float64) for one in weights], axis=0)
            ).float()
            for name in weights[0]
        }


@pytest.mark.parametrize(("score", "is_kept"), [(9.0, True), (4.0, False), (3.0, False)])
def test_the_weight_average_is_saved_if_it_scores_higher(tmp_path, score, is_kept):
    model, result, watcher = tiny_model(), tiny_model(seed=4), Watcher()
    judge = Judge(1.0, 4.0, 2.0, 3.0, 0.0, score)
    settings = TrainingSettings(length=Period(5), validate_every=Period(1), average=3)
    end = train(model, BATCHES, settings, validate=judge, report=watcher, folder=tmp_path)
    load_weights(result, tmp_path / "model.safetensors")
    assert_same(judge.seen[5], judge.mean(2, 3, 4))
    assert_same(weights(result), judge.mean(2, 3, 4) if is_kept else judge.seen[1])
    assert_same(weights(model), judge.seen[4])
    assert end.score == (9.0 if is_kept else 4.0)
    (line,) = [line for line in log(tmp_path) if line["kind"] == "average"]
    assert (line["validations"], line["score"], line["best"]) == ([2, 3, 4], score, is_kept)
    assert [line.kind for line in watcher.lines[-2:]] == ["average", "end"]
    names = {f"validation-{number}.safetensors" for number in (2, 3, 4)}
    assert set(kept(tmp_path)) == {"model.safetensors", *names}


def test_one_validation_gives_no_weight_average(tmp_path):
    settings = TrainingSettings(length=Period(5), validate_every=Period(5), average=3)
    train(tiny_model(), BATCHES, settings, validate=Judge(1.0), folder=tmp_path)
    assert [line["kind"] for line in log(tmp_path)] == ["train", "dev", "end"]


def test_resuming_after_averaging_continues_from_the_last_weights(tmp_path):
    """The mean wins after six updates, but training on finds nothing better than the second."""
    scores, settings = (1.0, 5.0, 2.0, 4.0), TrainingSettings(validate_every=Period(2), average=2)
    one_go, parts = tiny_model(), tiny_model()
    validate = Judge(*scores, 0.0)
    long, short = replace(settings, length=Period(8)), replace(settings, length=Period(6))
    train(one_go, BATCHES, long, validate=validate, folder=tmp_path / "one")
    validate = Judge(*scores[:3], 9.0)
    assert train(parts, BATCHES, short, validate=validate, folder=tmp_path / "two").score == 9.0
    (best, other), name = (kept(tmp_path / each) for each in ("one", "two")), "model.safetensors"
    assert best[name] != other[name]
    validate = Judge(*scores[3:], 0.0)
    end = train(parts, BATCHES, long, validate=validate, folder=tmp_path / "two", resume=True)
    assert end.score == 5.0
    assert kept(tmp_path / "one") == kept(tmp_path / "two")
    assert log(tmp_path / "one")[-3:] == log(tmp_path / "two")[-3:]
    again = train(parts, BATCHES, long, validate=Judge(0.0), folder=tmp_path / "two", resume=True)
    assert again.score == 5.0
    assert kept(tmp_path / "one") == kept(tmp_path / "two")


FIRST = TrainingSettings(length=Period(4), validate_every=Period(1), validate_first=True)


def test_initial_weights_are_the_first_candidate_for_the_best(tmp_path):
    """A validation before the first update changes no update."""
    plain, model, result = tiny_model(), tiny_model(), tiny_model(seed=4)
    train(plain, BATCHES, replace(FIRST, validate_first=False), validate=dev_score)
    judge, watcher = Judge(5.0, 1.0, 4.0, 5.0, 2.0), Watcher()
    end = train(model, BATCHES, FIRST, validate=judge, report=watcher, folder=tmp_path)
    assert_same(weights(model), weights(plain))
    assert_same(judge.seen[0], weights(tiny_model()))
    load_weights(result, tmp_path / "model.safetensors")
    assert_same(weights(result), weights(tiny_model()))
    assert end.score == 5.0
    dev = [line for line in log(tmp_path) if line["kind"] == "dev"]
    assert [line["update"] for line in dev] == [0, 1, 2, 3, 4]
    assert [line["epoch"] for line in dev] == [0, 1, 1, 1, 1]
    assert [line["best"] for line in dev] == [True, *[False] * 4]
    assert [line.update for line in watcher.lines if line.kind == "dev"] == [0, 1, 2, 3, 4]
    longer = replace(FIRST, length=Period(5))
    end = train(model, BATCHES, longer, validate=Judge(6.0), folder=tmp_path, resume=True)
    assert end.score == 6.0
    load_weights(result, tmp_path / "model.safetensors")
    assert_same(weights(result), weights(model))


def test_patience_waits_for_a_score_above_that_of_the_initial_weights(tmp_path):
    settings = replace(FIRST, patience=2)
    judge = Judge(5.0, 3.0, 4.0, 9.0, 9.0)
    end = train(tiny_model(), BATCHES, settings, validate=judge, folder=tmp_path)
    assert (end.reason, end.update, end.score) == ("patience", 2, 5.0)


def test_initial_weights_are_not_averaged(tmp_path):
    settings, result = replace(FIRST, average=2), tiny_model(seed=4)
    judge = Judge(5.0, 3.0, 1.0, 4.0, 2.0, 4.5)
    train(tiny_model(), BATCHES, settings, validate=judge, folder=tmp_path)
    assert_same(judge.seen[5], judge.mean(2, 4))
    (line,) = [line for line in log(tmp_path) if line["kind"] == "average"]
    assert (line["validations"], line["score"], line["best"]) == ([1, 3], 4.5, False)
    names = {f"validation-{number}.safetensors" for number in (0, 1, 3)}
    assert set(kept(tmp_path)) == {"model.safetensors", *names}
    load_weights(result, tmp_path / "model.safetensors")
    assert_same(weights(result), judge.seen[0])


def test_an_average_above_the_initial_weights_is_taken_back_by_a_longer_training(tmp_path):
    settings, result = replace(FIRST, average=2), tiny_model(seed=4)
    judge = Judge(5.0, 3.0, 1.0, 4.0, 2.0, 7.0)
    assert train(tiny_model(), BATCHES, settings, validate=judge, folder=tmp_path).score == 7.0
    longer, again = replace(settings, length=Period(5)), Judge(0.0, 0.0)
    end = train(tiny_model(), BATCHES, longer, validate=again, folder=tmp_path, resume=True)
    assert end.score == 5.0
    load_weights(result, tmp_path / "model.safetensors")
    assert_same(weights(result), judge.seen[0])


def test_one_validation_after_that_of_the_initial_weights_gives_no_average(tmp_path):
    settings = replace(FIRST, length=Period(1), average=2)
    train(tiny_model(), BATCHES, settings, validate=Judge(1.0, 2.0), folder=tmp_path)
    assert [line["kind"] for line in log(tmp_path)] == ["dev", "train", "dev", "end"]


def test_a_run_killed_after_the_line_of_the_initial_weights_repeats_it(tmp_path, monkeypatch):
    """The line is in the log, but the state before it is the last one."""

    def killed(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("regard.training.session.Session.save", killed)
        with pytest.raises(KeyboardInterrupt):
            train(tiny_model(), BATCHES, FIRST, validate=Judge(5.0), folder=tmp_path)
    assert [line["kind"] for line in log(tmp_path)] == ["dev"]
    judge = Judge(5.0, 1.0, 2.0, 3.0, 4.0)
    train(tiny_model(), BATCHES, FIRST, validate=judge, folder=tmp_path, resume=True)
    dev = [line for line in log(tmp_path) if line["kind"] == "dev"]
    assert [line["update"] for line in dev] == [0, 1, 2, 3, 4]


def test_a_run_stopped_before_its_first_update_does_not_repeat_the_validation(tmp_path):
    def stop(model):
        signal.raise_signal(signal.SIGINT)
        return Validation(5.0, "scripted")

    end = train(tiny_model(), BATCHES, FIRST, validate=stop, folder=tmp_path)
    assert (end.reason, end.update, end.score) == ("interrupted", 0, 5.0)
    judge = Judge(1.0, 2.0, 3.0, 4.0)
    end = train(tiny_model(), BATCHES, FIRST, validate=judge, folder=tmp_path, resume=True)
    assert (end.reason, end.score) == ("finished", 5.0)
    assert [line["update"] for line in log(tmp_path) if line["kind"] == "dev"] == [0, 1, 2, 3, 4]


def test_the_number_of_saved_checkpoints_is_bounded(tmp_path):
    """Each validation is better than all before it, and nothing else asks for a save."""
    counts = []

    def validate(model):
        counts.append(len(list((tmp_path / "state").glob("validation-*"))))
        return Validation(float(len(counts)), "scripted")

    settings = TrainingSettings(
        length=Period(30), validate_every=Period(1), average=3, save_seconds=999.0
    )
    train(tiny_model(), BATCHES, settings, validate=validate, folder=tmp_path)
    assert max(counts) == 9
    names = {f"validation-{number}.safetensors" for number in (28, 29, 30)}
    assert set(kept(tmp_path)) == {"model.safetensors", *names}


def test_a_missing_checkpoint_to_average_is_named(tmp_path):
    settings = TrainingSettings(length=Period(3), validate_every=Period(1), average=2)
    train(tiny_model(), BATCHES, settings, validate=Judge(1.0, 2.0, 3.0, 0.0), folder=tmp_path)
    (tmp_path / "state" / "validation-3.safetensors").unlink()
    longer = replace(settings, length=Period(4))
    with raises(UserError):
        train(tiny_model(), BATCHES, longer, folder=tmp_path, validate=Judge(), resume=True)


def test_without_dev_scores_the_last_model_is_saved(tmp_path):
    model, kept = tiny_model(), tiny_model(seed=4)
    train(model, BATCHES, TrainingSettings(length=Period(3)), folder=tmp_path)
    load_weights(kept, tmp_path / "model.safetensors")
    assert_same(weights(kept), weights(model))


def test_the_last_update_is_logged_and_validated():
    watcher = Watcher()
    settings = TrainingSettings(length=Period(5), log_every=Period(3), validate_every=Period(2))
    train(tiny_model(), BATCHES, settings, validate=scripted(1.0, 2.0, 3.0), report=watcher)
    assert [(line.kind, line.update) for line in watcher.lines] == [
        ("dev", 2),
        ("train", 3),
        ("dev", 4),
        ("train", 5),
        ("dev", 5),
        ("end", 5),
    ]
    assert [(progress.update, progress.total) for progress in watcher.updates] == [
        (update, 5) for update in range(1, 6)
    ]


@pytest.mark.parametrize("unit", ["update", "epoch"])
def test_logged_losses_are_means_over_words(unit):
    """With a rate of nearly zero the weights stay, so that losses can be computed beside."""
    model, watcher = tiny_model(penalty=0.5), Watcher()
    settings = TrainingSettings(
        length=Period(2, "epoch"),
        optimiser=Optimiser(1e-30),
        log_every=Period(7) if unit == "update" else Period(2, "epoch"),
    )
    train(model, BATCHES, settings, report=watcher)
    model.requires_grad_(False)
    outputs = [model(batch) for batch in BATCHES.batches]
    words = [len(output.targets) for output in outputs]
    loss = sum(float(CrossEntropy()(output)) for output in outputs) / sum(words)
    size = sum(float(output.penalties[0].value) for output in outputs) / sum(words)
    *lines, _ = watcher.lines
    assert [line.update for line in lines] == ([7, 14] if unit == "update" else [14])
    for line in lines:
        assert line.loss == pytest.approx(loss, rel=1e-5)
        assert line.penalties == {"size": pytest.approx(size, rel=1e-5)}
        assert line.learning_rate == 1e-30
    first = lines[0]
    assert 0 < sum(words) / first.tokens_per_second <= 1.01 * first.seconds


def test_speed_is_words_over_time_until_their_losses(monkeypatch):
    """By a clock that shows a second more at each look: a second for each update, and one for
    reading the losses, where a GPU is waited for."""
    clock, watcher = count(), Watcher()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    train(
        tiny_model(),
        BATCHES,
        TrainingSettings(Period(1, "epoch"), log_every=Period(7)),
        report=watcher,
    )
    line, _ = watcher.lines
    words = sum(int(batch.mask.sum()) for batch in BATCHES.batches)
    assert words > sum(len(batch.mask) for batch in BATCHES.batches)  # more than sentences
    assert line.tokens_per_second == pytest.approx(words / (7 + 1), abs=0.06)


def test_seconds_exclude_the_time_between_runs(tmp_path, monkeypatch):
    """By a clock that shows a second more at every look, and an hour more after the break."""
    clock = count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    for interrupt_after, resume in ((5, False), (None, True)):
        if resume:
            clock = count(next(clock) + 3600)
        watcher = Watcher(interrupt_after=interrupt_after)
        how = dict(report=watcher, validate=dev_score, folder=tmp_path, resume=resume)
        train(tiny_model(), BATCHES, EVERYTHING, **how)
    lines = log(tmp_path, without=())
    seconds = [line["seconds"] for line in lines]
    assert {line["update"] > 5 for line in lines} == {False, True}
    assert seconds == sorted(seconds)
    assert len(set(seconds)) > len(seconds) // 2
    assert 0 < seconds[0] < seconds[-1] < 3600


def test_epoch_lines_report_the_last_epoch():
    def losses(every: int) -> dict[int, float]:
        watcher = Watcher()
        settings = TrainingSettings(length=Period(4, "epoch"), log_every=Period(every, "epoch"))
        train(tiny_model(), BATCHES, settings, report=watcher)
        return {line.epoch: line.loss for line in watcher.lines if line.kind == "train"}

    every_loss = losses(1)
    assert losses(3) == {3: every_loss[3], 4: every_loss[4]}
    assert every_loss[1] > every_loss[2] > every_loss[3] > every_loss[4]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_terms_of_the_mean_loss_do_not_depend_on_the_number_of_words(accumulate):
    """Gradients and logged means equal those of the value times the words of its batch, as a term
    of the sum."""

    class AsSum(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = tiny_model(mean_penalty=30.0)

        def forward(self, batch, forced=None):
            output = self.inner(batch, forced)
            (penalty,) = output.penalties
            whole = Penalty("as a sum", penalty.value * len(output.targets))
            return replace(output, penalties=(whole,))

    settings = TrainingSettings(
        length=Period(7), optimiser=Optimiser(0.01), accumulate=accumulate, log_every=Period(4)
    )
    ours, theirs = tiny_model(mean_penalty=30.0), AsSum()
    watchers = Watcher(), Watcher()
    train(ours, BATCHES, settings, report=watchers[0])
    train(theirs, BATCHES, settings, report=watchers[1])
    for weight, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, expected)
    for line, expected in zip(watchers[0].lines[:-1], watchers[1].lines[:-1], strict=True):
        assert line.penalties["mean size"] == pytest.approx(expected.penalties["as a sum"])


def test_measures_are_logged_as_means_over_words_and_change_no_weight():
    plain, measured = tiny_model(penalty=0.5), tiny_model(penalty=0.5, measure=3.0)
    settings = TrainingSettings(Period(1, "epoch"), optimiser=Optimiser(1e-30), accumulate=2)
    watcher = Watcher()
    train(plain, BATCHES, settings)
    train(measured, BATCHES, settings, report=watcher)
    for weight, expected in zip(measured.parameters(), plain.parameters(), strict=True):
        assert torch.equal(weight, expected)
    outputs = [measured(batch) for batch in BATCHES.batches]
    words = [len(output.targets) for output in outputs]
    values = [float(output.measures[0].value) for output in outputs]
    mean = sum(map(operator.mul, words, values)) / sum(words)
    assert watcher.lines[0].measures == {"norm": pytest.approx(mean, rel=1e-5)}
    assert list(watcher.lines[0].penalties) == ["size"]


def test_penalties_are_minimised():
    free, held = tiny_model(), tiny_model(penalty=100.0)
    for model in (free, held):
        train(model, BATCHES, TrainingSettings(optimiser=Optimiser(0.01), length=Period(50)))
    assert held.embedding.weight.norm() < 0.9 * free.embedding.weight.norm()


def test_the_plateau_acts_on_dev_scores():
    watcher = Watcher()
    settings = TrainingSettings(
        length=Period(4),
        optimiser=Optimiser(0.5, Plateau()),
        validate_every=Period(1),
        log_every=Period(1),
    )
    validate = scripted(3.0, 2.0, 4.0, 1.0)
    train(tiny_model(), BATCHES, settings, validate=validate, report=watcher)
    rates = [line.learning_rate for line in watcher.lines if line.kind == "train"]
    assert rates == [0.5, 0.5, 0.25, 0.25]


def test_weights_without_gradients_do_not_change(tmp_path):
    model = tiny_model()
    model.embedding.weight.requires_grad_(False)
    before = weights(model)
    train(model, BATCHES, TrainingSettings(length=Period(3)), folder=tmp_path)
    after = weights(model)
    assert torch.equal(before["embedding.weight"], after["embedding.weight"])
    assert not torch.equal(before["output.weight"], after["output.weight"])
    train(model, BATCHES, TrainingSettings(length=Period(4)), folder=tmp_path, resume=True)


def test_bfloat16_training_keeps_float32_weights():
    model, kinds = tiny_model(), []
    model.middle.register_forward_hook(lambda module, arguments, made: kinds.append(made.dtype))
    train(model, BATCHES, TrainingSettings(length=Period(2), precision="bfloat16"))
    assert kinds == [torch.bfloat16] * 2
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_the_model_is_in_eval_mode_only_while_validating():
    model, modes = tiny_model().eval(), []
    model.middle.register_forward_hook(
        lambda module, arguments, made: modes.append((module.training, torch.is_grad_enabled()))
    )
    settings = TrainingSettings(length=Period(2), validate_every=Period(1))
    train(model, TinyBatches(1), settings, validate=dev_score)
    assert modes == [(True, True), *[(False, False)] * 3] * 2


class Breaking(torch.nn.Module):
    """From the fifth batch on, the loss, its gradient alone or a measure is not finite."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.inner, self.what, self.calls = tiny_model(), what, 0

    def forward(self, batch, forced=None):
        self.calls += 1
        output = self.inner(batch, forced)
        if self.calls < 5:
            measures = (Measure("load", torch.ones(())),) if self.what == "load" else ()
            return replace(output, measures=measures)
        if self.what == "loss":
            return replace(output, features=output.features * torch.nan)
        if self.what == "load":
            return replace(output, measures=(Measure("load", torch.tensor(torch.inf)),))
        zero = (output.features * 0).sum()
        return replace(output, features=output.features + zero.sqrt())


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("loss", "the loss is nan"),
        ("gradient", "the gradient's norm is nan"),
        ("load", "the load is inf"),
    ],
)
@pytest.mark.parametrize("moment", ["log", "validate", "save", "end"])
def test_a_loss_that_is_not_finite_is_named_and_not_saved(tmp_path, what, said, moment):
    settings = TrainingSettings(
        length=Period(6 if moment == "end" else 9),
        log_every=Period(6 if moment == "log" else 99),
        validate_every=Period(6 if moment == "validate" else 99),
        save_seconds=0.0 if moment == "save" else 99.0,
    )
    model = Breaking(what)
    with pytest.raises(UserError, match=rf"{said} at update 5 \(epoch 2, batch 2\)"):
        train(model, TinyBatches(3), settings, validate=scripted(), folder=tmp_path)
    good = Breaking(what)
    settings = replace(settings, length=Period(4))
    end = train(
        good, TinyBatches(3), settings, validate=scripted(1.0), folder=tmp_path, resume=True
    )
    assert end.update == 4
    assert all(weight.isfinite().all() for weight in good.parameters())


@pytest.mark.parametrize("moment", ["validate", "save", "end"])
def test_weights_that_are_not_finite_are_not_saved(tmp_path, moment):
    """The loss of the update that led to them was a number still."""
    model = tiny_model()

    class Spoiling(Watcher):
        def on_update(self, progress):
            super().on_update(progress)
            if progress.update == 3:
                model.output.weight.data[2, 3] = torch.inf

    settings = TrainingSettings(
        length=Period(3 if moment == "end" else 9),
        validate_every=Period(3 if moment == "validate" else 99),
        save_seconds=0.0 if moment == "save" else 99.0,
    )
    validate = scripted() if moment == "validate" else None
    arguments = dict(validate=validate, report=Spoiling(), folder=tmp_path)
    with raises(UserError):
        train(model, BATCHES, settings, **arguments)
    saved = load_file(tmp_path / "state" / "training.safetensors")
    assert all(tensor.isfinite().all() for tensor in saved.values())


def test_training_runs_outside_the_main_thread():
    ends = []
    settings = TrainingSettings(length=Period(2))
    thread = threading.Thread(target=lambda: ends.append(train(tiny_model(), BATCHES, settings)))
    thread.start()
    thread.join()
    assert ends[0].reason == "finished"


def test_a_second_interrupt_stops_at_once(tmp_path):
    class Impatient(Watcher):
        def on_update(self, progress):
            super().on_update(progress)
            super().on_update(progress)

    with pytest.raises(KeyboardInterrupt):
        train(tiny_model(), BATCHES, EVERYTHING, report=Impatient(3), folder=tmp_path)
    model, one_go = tiny_model(), tiny_model()
    train(model, BATCHES, EVERYTHING, folder=tmp_path, resume=True)
    train(one_go, BATCHES, EVERYTHING)
    assert_same(weights(model), weights(one_go))


@pytest.mark.parametrize(
    "settings",
    [
        TrainingSettings(patience=2),
        TrainingSettings(optimiser=Optimiser(schedule=Plateau())),
        TrainingSettings(average=2),
        TrainingSettings(patience=2, average=3, optimiser=Optimiser(schedule=Plateau())),
    ],
)
def test_options_that_need_dev_scores_are_rejected_without_them(settings):
    with raises(UserError):
        train(tiny_model(), BATCHES, settings)


def test_an_average_needs_a_folder():
    with pytest.raises(UserError, match="average saves weights in a folder"):
        train(tiny_model(), BATCHES, TrainingSettings(average=2), validate=dev_score)


def test_empty_data_and_nan_scores_are_rejected():
    with pytest.raises(UserError, match="no batches"):
        train(tiny_model(), TinyBatches(0), TrainingSettings())
    with pytest.raises(ValueError, match="score nan"):
        train(tiny_model(), BATCHES, TrainingSettings(), validate=scripted(float("nan")))
