"""Training on a GPU compared with the CPU, the use of its runs, and resuming."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.errors import UserError
from tests.gpu import devices
from tests.gpu.comparison import all_precisions
from tests.gpu.training import FAMILIES, TEXTS, UPDATES, experiment, run, use

CPU = torch.device("cpu")
RANDOM = ("forcing", "minimum_risk")
"""Trainings with random numbers of the device."""
BOUNDS = {"float32": 2e-3, "bfloat16": 0.05}
"""Largest relative difference of the losses of a few updates."""


def losses(folder):
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "train"]


@pytest.mark.parametrize("precision", sorted(BOUNDS.keys() & all_precisions()))
@pytest.mark.parametrize("family", devices.some(FAMILIES))
def test_training_equals_the_cpu(device, tmp_path, family, precision):
    settings = experiment(family, precision=precision)
    run(settings, tmp_path / "device", device)
    result = torch.tensor(losses(tmp_path / "device"))
    assert len(result) == UPDATES
    assert result.isfinite().all()
    if family in RANDOM:
        return
    run(experiment(family, precision="float32"), tmp_path / "cpu", CPU)
    wanted = torch.tensor(losses(tmp_path / "cpu"))
    bound = BOUNDS[precision]
    torch.testing.assert_close(result, wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("family", devices.some(TEXTS))
def test_a_run_gives_the_texts_of_the_cpu(device, tmp_path, monkeypatch, family):
    """A run that was trained on the CPU translates and scores on both."""
    run(experiment(family), tmp_path / "run", CPU)
    texts = ["a b c", "d", "e f g h"]
    results = []
    for place in (CPU, device):
        use(monkeypatch, place)
        model = regard.load(tmp_path / "run")
        outputs = model.translate(texts)
        scores = [each.score for each in model.score([(text, "a b") for text in texts])]
        results.append(([each.text for each in outputs], scores))
        maps = [torch.as_tensor(block.weights) for each in outputs for block in each.maps]
        assert all(weights.isfinite().all() for weights in maps)
        monkeypatch.undo()
    assert results[1][0] == results[0][0]
    assert results[1][1] == pytest.approx(results[0][1], rel=1e-3)


@pytest.fixture
def deterministic():
    """Deterministic algorithms of PyTorch."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("family", devices.some(FAMILIES))
def test_resuming_gives_equal_weights(device, deterministic, tmp_path, record_property, family):
    """The difference is small and reported if an operator has no deterministic algorithm."""
    try:
        difference = resumed(device, tmp_path / "strict", family)
    except (RuntimeError, UserError) as error:
        if "deterministic" not in str(error):
            raise
        record_property("not deterministic", f"{family}: {str(error).splitlines()[0][:200]}")
        torch.use_deterministic_algorithms(True, warn_only=True)
        difference = resumed(device, tmp_path / "other", family)
        record_property("difference after resuming", f"{family}: {difference:.2g}")
        assert difference < 1e-2
    else:
        assert difference == 0


def resumed(device, folder, family):
    """Return the largest difference between the weights of a whole and of a resumed training."""
    whole, parts = folder / "whole", folder / "parts"
    run(experiment(family, dropout=0.1), whole, device)
    run(experiment(family, dropout=0.1, updates=UPDATES // 2), parts, device)
    run(experiment(family, dropout=0.1), parts, device, resume=True)
    wanted = load_file(whole / "model.safetensors")
    result = load_file(parts / "model.safetensors")
    return max(float((result[name] - tensor).abs().max()) for name, tensor in wanted.items())
