"""A training that is repeated gives equal weights, and a difference is found."""

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.cli.training import reproduce as command
from regard.errors import UserError
from regard.pipeline.reproduce import Recorded
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.storage.weights import read_metadata, write_tensors
from tests.small_runs import smaller


@pytest.fixture
def run(tmp_path):
    train(smaller(epochs=1, log_every=1), tmp_path / "run")
    return tmp_path / "run"


def pairs_run(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a b {n}\tb a {n}\n" for n in range(40)))
    experiment = smaller(updates=2)
    data = replace(experiment.data, path=path, synthetic=None, dev_size=5, test_size=5)
    train(replace(experiment, data=data), tmp_path / "run")
    return path


def change(path, update):
    """Change one weight of a run, with the digest of the file, and one line of its log."""
    file = path / "model.safetensors"
    weights, metadata = load_file(file), read_metadata(file)
    name = min(weights)
    weights[name].view(-1)[0] += 0.5
    write_tensors(file, weights, {"run": metadata["run"]})
    log = path / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if line["update"] == update and line["kind"] == "train":
            line["loss"] += 1
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


def test_a_repetition_has_equal_weights_and_an_equal_log(run, tmp_path):
    recorded = Recorded.read(run)
    recorded.repeat(tmp_path / "again")
    result = recorded.compare(tmp_path / "again")
    assert result.is_equal
    assert result.largest is None
    assert result.first_difference is None


def test_a_changed_weight_and_a_changed_line_are_found(run, tmp_path):
    name = change(run, update=3)
    recorded = Recorded.read(run)
    recorded.repeat(tmp_path / "again")
    result = recorded.compare(tmp_path / "again")
    assert not result.is_equal
    assert result.num_equal == result.num_tensors - 1
    assert result.largest == (name, pytest.approx(0.5))
    assert result.first_difference == 3


def test_weights_of_other_shapes_are_not_equal(run, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(run, again)
    file = again / "model.safetensors"
    weights, metadata = load_file(file), read_metadata(file)
    longer, missing, *_ = sorted(weights)
    weights[longer] = torch.zeros(3, 7)
    del weights[missing]
    write_tensors(file, weights, {"run": metadata["run"]})
    result = Recorded.read(run).compare(again)
    assert result.num_equal == result.num_tensors - 2
    assert result.largest == (longer, math.inf)


def test_the_command_says_whether_the_weights_are_equal(run, capsys):
    assert command.run([str(run)]) == 0
    assert f"of {run}, bit by bit" in capsys.readouterr().out
    change(run, update=2)
    assert command.run([str(run)]) == 1
    out = capsys.readouterr().out
    assert "not equal: 1 of" in out
    assert "the logs differ from update 2 on" in out


def test_other_threads_are_set_and_other_versions_are_named(run):
    file = RunFolder(run).environment
    (session,) = json.loads(file.read_text())
    session["threads"], session["versions"]["torch"] = torch.get_num_threads() + 1, "1.0"
    file.write_text(json.dumps([session]))
    recorded = Recorded.read(run)
    assert recorded.differences() == [f"torch: was 1.0, is {torch.__version__}"]


def test_several_processes_have_the_threads_and_no_limit_of_hours(tmp_path, monkeypatch):
    train(smaller(updates=1, hours=5.0), tmp_path / "run")
    file = RunFolder(tmp_path / "run").environment
    (session,) = json.loads(file.read_text())
    file.write_text(json.dumps([{**session, "processes": 2, "threads": 7}]))
    launched = []

    def launch(arguments, number):
        values = dict(zip(arguments[2::2], arguments[3::2], strict=True))
        experiment = Recorded.read(Path(arguments[1])).experiment
        launched.append((experiment, number, os.environ["OMP_NUM_THREADS"]))
        shutil.copytree(tmp_path / "run", values["--output"])
        return 0

    monkeypatch.setattr("regard.pipeline.launch.launch", launch)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert command.run([str(tmp_path / "run")]) == 0
    ((experiment, number, threads),) = launched
    assert (experiment.training.hours, number, threads) == (None, 2, "7")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("x y\ty x\n"), "was changed after the training: put it back"),
        (lambda path: path.unlink(), "is missing: put it back"),
    ],
)
def test_changed_and_missing_data_are_named(tmp_path, change, message):
    path = pairs_run(tmp_path)
    change(path)
    with pytest.raises(UserError, match=message):
        Recorded.read(tmp_path / "run")


def test_unfinished_runs_and_runs_without_an_environment_are_rejected(run):
    folder = RunFolder(run)
    log = folder.log.read_text()
    folder.log.write_text(log.rsplit("\n", 2)[0] + "\n")
    with pytest.raises(UserError, match="is not complete"):
        Recorded.read(run)
    folder.log.write_text(log)
    folder.environment.write_text("[{}]")
    with pytest.raises(UserError, match="is damaged"):
        Recorded.read(run)
    folder.environment.unlink()
    with pytest.raises(UserError, match=r"has no environment.json"):
        Recorded.read(run)


def test_sessions_that_differ_are_named(run):
    file = RunFolder(run).environment
    (session,) = json.loads(file.read_text())
    file.write_text(json.dumps([{**session, "processes": 2}, session]))
    (message,) = Recorded.read(run).differences()
    assert message.startswith("processes: its sessions had 2 and 1")
