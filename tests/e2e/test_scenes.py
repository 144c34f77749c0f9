"""The recipe of drawn scenes: truth of its captions, and attention to the named shapes."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def test_captions_are_true_and_attend_to_the_named_shape(tmp_path):
    """At least 95 % of the captions of unseen scenes are true, and 90 % for each number of shapes,
    of which the test has 67 scenes. Attention in the box of a described shape is at least three
    times the box's share of the picture.

    The training has the recipe's own settings, but five of its twelve epochs, which need less
    dropout, and takes much of the suite's time. It runs as a person's would, in processes with as
    many threads as there are cores, and without checks of the types of shapes."""
    run = tmp_path / "run"
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    train = ["train", "shapes-caption", "--training.epochs", "5", "--model.dropout", "0.1"]
    train += ["--output", run]
    for command in (train, ["evaluate", run]):
        subprocess.run(
            [sys.executable, "-m", "regard", *map(str, command)], env=environment, check=True
        )
    (result,) = json.loads((run / "results.json").read_text())["test.tsv"]
    scores = {score["name"]: score["value"] for score in result["scores"]}
    assert scores["true"] >= 95, scores
    for number in ("1 shape", "2 shapes", "3 shapes"):
        assert scores[f"true, {number}"] >= 90, scores
    assert scores["attention"] >= 3
