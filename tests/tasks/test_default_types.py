"""Trainings and loaded models whatever PyTorch's default type and device are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.config import (
    CaptionDataConfig,
    ClassificationDataConfig,
    Experiment,
    SearchConfig,
    TrainingConfig,
)
from regard.pipeline.train import train
from tests import configs
from tests.small_runs import small

DEFAULTS = [torch.float64, torch.float16, torch.bfloat16, "meta"]
TRAINING = TrainingConfig(epochs=1, learning_rate=0.01, device="cpu")


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


def translation() -> Experiment:
    experiment = small(epochs=1)
    return replace(experiment, data=replace(experiment.data, synthetic_size=100))


def transformer() -> Experiment:
    return replace(translation(), model=configs.transformer(size=14, heads=7, layers=1))


def convolution() -> Experiment:
    kinds = "gated_convolution", "gated_convolution"
    return replace(translation(), model=configs.translation(*kinds, size=14, layers=1))


def captions() -> Experiment:
    data = CaptionDataConfig(
        synthetic="shapes",
        synthetic_size=24,
        dev_size=10,
        test_size=10,
        image_size=32,
        batch_sentences=16,
    )
    model = configs.captioner(size=12, channels=(4, 8, 8), embedding=8)
    return Experiment(name="shapes", data=data, model=model, training=TRAINING)


def labels(path: Path) -> Experiment:
    lines = [f"{word} so {n}\t{word}s" for n in range(20) for word in ("red", "blue")]
    path.write_text("\n".join(lines) + "\n")
    data = ClassificationDataConfig(path=path, target="label", dev_size=4, test_size=4)
    model = configs.classifier(size=16, bidirectional=True)
    return Experiment(name="labels", data=data, model=model, training=TRAINING)


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


TASKS = {
    "translation": translation,
    "transformer": transformer,
    "convolution": convolution,
    "captions": captions,
}


@pytest.fixture(scope="module", params=[*TASKS, "labels"])
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    task = request.param
    experiment = labels(folder / "labels.tsv") if task == "labels" else TASKS[task]()
    train(experiment, folder / "run")
    return task, experiment, folder / "run", results(folder / "run", task)


@pytest.mark.parametrize("default", DEFAULTS, ids=str)
def test_loaded_models_give_the_same_numbers(trained, default):
    task, _, folder, expected = trained
    set_default(default)
    for ours, theirs in zip(results(folder, task), expected, strict=True):
        assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("default", [torch.float64, "meta"], ids=str)
def test_training_gives_the_same_weights(trained, default, tmp_path):
    _, experiment, folder, _ = trained
    set_default(default)
    train(experiment, tmp_path / "run")
    found = torch.get_default_dtype(), torch.get_default_device().type
    assert found == ((default, "cpu") if default is torch.float64 else (torch.float32, default))
    set_default(torch.float32)
    torch.set_default_device(None)
    weights = load_file(tmp_path / "run" / "model.safetensors")
    for name, weight in load_file(folder / "model.safetensors").items():
        assert torch.equal(weights[name], weight)
