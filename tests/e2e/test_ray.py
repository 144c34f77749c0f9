"""A sweep on a Ray cluster of two nodes, each with one core."""

import csv
import json
import logging
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from regard.cli.main import run as regard
from regard.cluster.sweep_workers import Signal, train_on_node
from regard.studies.sweep import jobs_of

TINY = ["numbers", "--data.synthetic-size", "100", "--model.size", "8", "--training.updates", "2"]
TINY += ["--data.test-size", "0"]  # no evaluation on a test split


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no Ray cluster at 127.0.0.1:1: start one with `ray start --head`"),
        ("ray://127.0.0.1:1", "expected HOST:PORT, auto or local"),
        ("nonsense", "no Ray cluster at nonsense"),
    ],
)
def test_an_address_without_a_cluster_is_one_line(address, message, tmp_path, capsys):
    words = ["sweep", *TINY, "-o", str(tmp_path / "sweep"), "--vary", "training.seed=1"]
    assert regard([*words, "--address", address]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["absent", "."])
def test_a_node_without_the_folder_of_the_sweep_is_named(tmp_path, folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (job,) = jobs_of(["training.seed=1"], Path("sweep"))
    signal = Signal(None)
    result = train_on_node({"number": 0}, (job,), TINY, 1, tmp_path / folder, signal)["result"]
    assert result.job == job
    assert "does not have" in result.problem
    assert result.problem.endswith("all nodes need the same folders, as on a shared file system")


@pytest.fixture
def address(monkeypatch):
    """The address of a running cluster. Nothing of it is left after the test."""
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()
        logging.getLogger("ray.tune").setLevel(logging.NOTSET)


def test_a_sweep_on_two_nodes_has_the_runs_of_local_workers(address, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    in_the_way = tmp_path / "sweep" / "training.seed=2" / "test.tsv"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("in the way")
    words = ["sweep", *TINY, "-o", "sweep", "--vary", "training.seed=1,2", "--address", address]
    assert regard(words) == 1
    captured = capsys.readouterr()
    assert "2 of 2" in captured.out
    assert "training.seed=2 failed: node " in captured.err
    assert "has no weights, but has test.tsv" in captured.err
    folder = tmp_path / "sweep"
    assert not (folder / "ray").exists()
    with (folder / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    log = (folder / "training.seed=1" / "log.jsonl").read_text().splitlines()
    assert float(rows[0]["dev score"]) == json.loads(log[-1])["score"]
    assert rows[1]["problem"].startswith("node ")
    assert regard(["train", *TINY, "--training.seed", "1", "-o", "alone"]) == 0
    weights = [tmp_path / run / "model.safetensors" for run in ("sweep/training.seed=1", "alone")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
