"""The record of the environment of a training."""

import hashlib
import json
import sys
from dataclasses import replace

import torch

import regard
from regard.pipeline import evaluate
from regard.pipeline.train import train
from regard.runs.environment import Environment, read_sessions
from regard.runs.folder import RunFolder
from tests.small_runs import smaller

CPU = torch.device("cpu")


def test_a_training_records_every_session(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/regard", "train", "my pairs.tsv"])
    experiment = smaller(updates=2, seed=7)
    train(experiment, tmp_path / "run")
    longer = replace(experiment, training=replace(experiment.training, updates=3))
    train(longer, tmp_path / "run", resume=True)
    first, second = read_sessions(RunFolder(tmp_path / "run"))
    assert first.command == second.command == "regard train 'my pairs.tsv'"
    assert first.seed == 7
    assert first.threads == torch.get_num_threads()
    assert first.versions["torch"] == torch.__version__
    assert first.processes == 1
    assert not first.differences(second)


def test_an_evaluation_records_the_environment_and_the_data(tmp_path):
    train(smaller(updates=2), tmp_path / "run")
    model, folder = regard.load(tmp_path / "run"), RunFolder(tmp_path / "run")
    options = evaluate.EvaluationOptions(search=model.experiment.search)
    pairs = evaluate.read(model, folder.test, options).pairs
    for _ in range(2):  # the second replaces the first, though its time differs
        evaluate.save(folder, evaluate.evaluate(model, pairs, options), folder.test)
    (entry,) = json.loads(folder.results.read_text())["test.tsv"]
    digest = hashlib.sha256(folder.test.read_bytes()).hexdigest()
    assert entry["environment"]["data"] == {str(folder.test): digest}
    assert entry["environment"]["cpu"]


def test_differences_name_what_changed():
    here = Environment.now(CPU, seed=1)
    there = replace(here, threads=here.threads + 1, versions=here.versions | {"numpy": "1.0"})
    assert here.differences(here) == []
    assert here.differences(there) == [
        f"threads: was {here.threads}, is {here.threads + 1}",
        f"numpy: was {here.versions['numpy']}, is 1.0",
    ]
