"""A sweep on a Ray cluster of two nodes, each with one core."""

import csv
import json
import logging

import pytest
import ray
from ray.cluster_utils import Cluster

from regard.cli.main import run as regard

TINY = ["numbers", "--data.synthetic-size", "100", "--model.size", "8", "--training.updates", "2"]
TINY += ["--data.test-size", "0"]  # no evaluation on a test split


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
