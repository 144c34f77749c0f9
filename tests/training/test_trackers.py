"""Trackers receive the log of a training, also of a resumed one, and may fail without harm."""

import csv
import json
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from regard.errors import UserError
from regard.training.loop import train
from regard.training.settings import Period, TrainingSettings
from regard.training.trackers import check_packages, tracked
from regard.training.trackers.tracker import TrackedRun
from tests.messages import raises
from tests.training.fakes import TinyBatches, Watcher, dev_score, tiny_model

BATCHES = TinyBatches(7)
SETTINGS = TrainingSettings(
    length=Period(9), validate_every=Period(4), log_every=Period(3), average=2
)
FIELDS = {f"field.{number}": str(number) for number in range(130)}


def run(folder, *names, interrupt_after=None, resume=False, settings=SETTINGS):
    """Train with trackers and return the reporter behind them."""
    watcher = Watcher(interrupt_after)
    with tracked(watcher, names, folder, "name", FIELDS) as report:
        train(
            tiny_model(measure=3.0),
            BATCHES,
            settings,
            validate=dev_score,
            report=report,
            folder=folder,
            resume=resume,
        )
    return watcher


def lines(folder):
    """The log without its times."""
    records = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [{name: record[name] for name in record if name != "seconds"} for record in records]


def rows(folder):
    with (folder / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_has_a_row_for_each_line_of_the_log(tmp_path):
    watcher = run(tmp_path, "csv")
    assert len(watcher.updates) == 9
    assert [line.kind for line in watcher.lines] == [line["kind"] for line in lines(tmp_path)]
    for row, line in zip(rows(tmp_path), lines(tmp_path), strict=True):
        for name in ("kind", "update", "epoch", "loss", "score", "metric", "learning_rate"):
            value = line.get(name)
            assert row[name] == ("" if value is None else str(value))


def test_the_table_has_the_validation_of_the_initial_weights(tmp_path):
    run(tmp_path, "csv", settings=replace(SETTINGS, validate_first=True))
    first, *rest = rows(tmp_path)
    assert (first["kind"], first["update"]) == ("dev", "0")
    assert [row["kind"] for row in rest] == [line["kind"] for line in lines(tmp_path)[1:]]


def test_without_trackers_the_reporter_is_unchanged(tmp_path):
    watcher = Watcher()
    with tracked(watcher, (), tmp_path, "name", {}) as report:
        assert report is watcher


def scalars(folder):
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def expected(folder):
    train_lines = [line for line in lines(folder) if line["kind"] == "train"]
    return [(line["update"], pytest.approx(line["loss"])) for line in train_lines]


@pytest.mark.parametrize("interrupt_after", [None, 5])
def test_events_and_table_of_a_resumed_run_have_no_repeated_updates(tmp_path, interrupt_after):
    names = ("csv", "tensorboard")
    run(tmp_path, *names, interrupt_after=interrupt_after)
    if interrupt_after:
        assert rows(tmp_path)[-1]["kind"] == "end"
        run(tmp_path, *names, resume=True)
    assert scalars(tmp_path)["train/loss"] == expected(tmp_path)
    assert [step for step, _ in scalars(tmp_path)["train/norm"]] == [3, 6, 9]
    assert [step for step, _ in scalars(tmp_path)["dev/negative loss"]] == [4, 8, 9]
    assert [row["kind"] for row in rows(tmp_path)] == [line["kind"] for line in lines(tmp_path)]


def fake(monkeypatch, name, **functions):
    module = ModuleType(name)
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, f"regard.training.trackers.{name}_tracker", raising=False)


def test_weights_and_biases_receives_the_numbers_and_continues_its_entry(tmp_path, monkeypatch):
    calls = []

    def init(**arguments):
        calls.append(("init", arguments))
        return SimpleNamespace(
            id="abc",
            log=lambda values, step: calls.append(("log", values, step)),
            finish=lambda exit_code: calls.append(("finish", exit_code)),
        )

    fake(monkeypatch, "wandb", init=init)
    check_packages(("wandb",))
    run(tmp_path, "wandb", interrupt_after=4)
    run(tmp_path, "wandb", resume=True)
    starts = [call[1] for call in calls if call[0] == "init"]
    assert [start["id"] for start in starts] == [None, "abc"]
    assert starts[0]["config"] == FIELDS
    assert starts[0]["project"] == "regard"
    steps = [call[2] for call in calls if call[0] == "log" and "train/loss" in call[1]]
    assert steps == [3, 6, 9]
    assert [call for call in calls if call[0] == "finish"] == [("finish", 0)] * 2


def test_mlflow_receives_the_fields_in_parts_and_the_numbers(tmp_path, monkeypatch):
    calls = []

    def start_run(run_id, run_name):
        calls.append(("start", run_id, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="7"))

    fake(
        monkeypatch,
        "mlflow",
        start_run=start_run,
        log_params=lambda values: calls.append(("fields", values)),
        log_metrics=lambda values, step: calls.append(("numbers", values, step)),
        end_run=lambda status: calls.append(("end", status)),
    )
    run(tmp_path, "mlflow", interrupt_after=4)
    run(tmp_path, "mlflow", resume=True)
    assert [call for call in calls if call[0] == "start"] == [
        ("start", None, "name"),
        ("start", "7", "name"),
    ]
    parts = [call[1] for call in calls if call[0] == "fields"]
    assert [len(part) for part in parts] == [100, 30]
    assert {**parts[0], **parts[1]} == FIELDS
    assert [call[2] for call in calls if call[0] == "numbers"][-1] == 9
    ends = [call[1] for call in calls if call[0] == "end"]
    assert ends == ["KILLED", "FINISHED"]


@pytest.mark.parametrize("function", ["init", "log", "finish"])
def test_a_tracker_that_fails_is_dropped_with_one_warning(tmp_path, monkeypatch, caplog, function):
    def fail(*_arguments, **_named):
        raise ConnectionError("no network")

    session = {"log": lambda values, step: None, "finish": lambda exit_code: None}
    session[function] = fail
    start = fail if function == "init" else lambda **_named: SimpleNamespace(id="a", **session)
    fake(monkeypatch, "wandb", init=start)
    watcher = run(tmp_path, "wandb", "csv")
    (message,) = caplog.messages
    assert message.startswith("training.track wandb failed")
    assert message.endswith(": no network")
    assert watcher.lines[-1].reason == "finished"
    assert len(rows(tmp_path)) == len(lines(tmp_path))


def test_a_missing_package_is_named_before_the_training(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with raises(UserError, "training.track"):
        check_packages(("csv", "mlflow"))


def test_a_new_run_does_not_continue_an_old_entry(tmp_path):
    first, later = (TrackedRun(tmp_path, "name", {}, update) for update in (1, 5))
    assert later.saved_id("wandb") is None
    first.save_id("wandb", "a")
    first.save_id("mlflow", "b")
    assert (later.saved_id("wandb"), later.saved_id("mlflow")) == ("a", "b")
    assert first.saved_id("wandb") is None
