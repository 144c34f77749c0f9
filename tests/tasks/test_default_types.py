"""Trainings and loaded models whatever PyTorch's default type and device are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.config import SearchConfig
from regard.pipeline.train import train
from tests.small_runs import EXPERIMENTS

DEFAULTS = [torch.float64, torch.float16, torch.bfloat16, "meta"]


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)


def set_default(default: torch.dtype | str) -> None:
    if isinstance(default, str):
        torch.set_default_device(default)
    else:
        torch.set_default_dtype(default)


def results(folder: Path, task: str) -> list[object]:
    """Return outputs with all numbers of their traces."""
    model = regard.load(folder)
    if task == "labels":
        outputs = model.classify(["red so 3", "blue"])
        return [*outputs, *(each.trace for each in outputs)]
    if task == "captions":
        (image,) = model.sources.features_of([model.sources.read("large red circle top left")])
        (output,) = model.generate([("image", image)], search=SearchConfig(beam=3))
        return [output, output.trace]
    outputs = [
        *model.translate(["a b c", "d"]),
        model.translate("e f", search=SearchConfig(beam=3), num_best=2),
        model.translate("a b", search=SearchConfig(precision="int8")),
        *model.score([("a b", "b a")]),
    ]
    return [*outputs, *(each.trace for each in outputs)]


@pytest.fixture(scope="module", params=EXPERIMENTS)
def task(request, trained):
    """Name of the task, its run, and the run's outputs."""
    run = trained(request.param)
    return request.param, run, results(run, request.param)


@pytest.mark.parametrize("default", DEFAULTS, ids=str)
def test_loaded_models_give_the_same_numbers(task, default):
    name, run, expected = task
    set_default(default)
    for ours, theirs in zip(results(run, name), expected, strict=True):
        assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("default", [torch.float64, "meta"], ids=str)
def test_training_gives_the_same_weights(task, default, tmp_path):
    name, run, _ = task
    experiment = EXPERIMENTS[name](tmp_path)
    set_default(default)
    train(experiment, tmp_path / "run")
    found = torch.get_default_dtype(), torch.get_default_device().type
    assert found == ((default, "cpu") if default is torch.float64 else (torch.float32, default))
    set_default(torch.float32)
    torch.set_default_device(None)
    weights = load_file(tmp_path / "run" / "model.safetensors")
    for name, weight in load_file(run / "model.safetensors").items():
        assert torch.equal(weights[name], weight)
