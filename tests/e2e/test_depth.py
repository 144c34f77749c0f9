"""Deep recurrent models, trained from the command line."""

import json

import numpy as np

from regard.metrics.attention import diagonality
from tests.e2e.test_letters import maps, regard, trained

DEEP = ("--model.encoder.layers", "6", "--model.decoder.layers", "6", "--model.encoder.size", "64")
DEEP += ("--model.encoder.connections", "residual", "--model.decoder.connections", "residual")


def test_six_residual_layers_learn_to_copy(tmp_path):
    """Without residual connections, none of the sequences is copied by LSTM layers."""
    run = tmp_path / "copy"
    trained(
        *("copy", "--output", run, "--data.synthetic-size", 3000, "--data.dev-size", 50),
        *("--data.test-size", 200, "--model.decoder.wiring", "luong", *DEEP),
    )
    regard("evaluate", run)
    (result,) = json.loads((run / "results.json").read_text())["test.tsv"]
    scores = {score["name"]: score["value"] for score in result["scores"]}
    assert scores["exact match"] >= 95
    assert np.mean([diagonality(weights) for weights in maps(run, tmp_path / "t.jsonl")]) > 0.6
