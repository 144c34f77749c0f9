"""Small experiments of every family, trained on the device or on the CPU."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import regard.runtime.device
from regard.config import CaptionDataConfig, ClassificationDataConfig, Experiment, TrainingConfig
from regard.pipeline.train import train
from tests import configs
from tests.gpu import devices
from tests.small_runs import smaller

UPDATES = 6 if devices.is_gpu() else 2
TEXTS = {
    "bahdanau": configs.recurrent(size=16, embedding=8, wiring="bahdanau", attention={"size": 8}),
    "luong": configs.recurrent(size=16, embedding=8, feeding="attentional"),
    "gru": configs.recurrent(size=16, embedding=8, cell="gru", bidirectional=True, layers=2),
    "transformer": configs.transformer(size=16, layers=2, heads=2, feed_forward=24),
    "rotary": configs.transformer(
        size=16, layers=1, heads=2, feed_forward=24, positions="rotary", tied="output"
    ),
    "convolution": configs.translation("gated_convolution", "gated_convolution", size=16),
    "bytenet": configs.translation("dilated_convolution", "dilated_convolution", size=16),
    "pointer": configs.recurrent(size=16, embedding=8, copy="pointer_generator"),
}
OBJECTIVES = {
    "forcing": dict(teacher_forcing=0.5),
    "r_drop": dict(r_drop=1.0),
    "minimum_risk": dict(objective="minimum_risk", reward="gleu", samples=3),
}
FAMILIES = (*TEXTS, *OBJECTIVES, "classifier", "captioner")


def experiment(family: str, *, dropout: float = 0.0, **training: Any) -> Experiment:
    """Return the experiment of a family."""
    settings = (
        dict(epochs=10, updates=UPDATES, learning_rate=0.01, log_every=1, validate_every=UPDATES)
        | training
    )
    if family == "classifier":
        data = ClassificationDataConfig(
            synthetic="drinks", synthetic_size=100, dev_size=10, source="items", target="number"
        )
        model: Any = configs.classifier("bag_of_words", size=16)
        result = Experiment(data=data, model=model, training=TrainingConfig(**settings))
    elif family == "captioner":
        images = CaptionDataConfig(
            synthetic="shapes",
            synthetic_size=30,
            dev_size=5,
            test_size=5,
            image_size=16,
            batch_sentences=5,
        )
        model = configs.captioner(channels=(4, 8, 8), size=12, embedding=8)
        result = Experiment(data=images, model=model, training=TrainingConfig(**settings))
    else:
        result = smaller(**settings | OBJECTIVES.get(family, {}))
        result = replace(result, model=TEXTS.get(family, TEXTS["luong"]))
        result = replace(result, data=replace(result.data, dev_size=5, test_size=5))
    return replace(result, model=replace(result.model, dropout=dropout))


def run(experiment: Experiment, folder: Path, device: torch.device, *, resume: bool = False) -> Any:
    """Train on a device, which need not have a name in recipes."""
    with pytest.MonkeyPatch.context() as patch:
        use(patch, device)
        return train(experiment, folder, resume=resume)


def use(patch: pytest.MonkeyPatch, device: torch.device) -> None:
    """Let every name of a device mean this one."""
    original = regard.runtime.device.device_named
    for name, module in list(sys.modules.items()):
        if name.startswith("regard.") and getattr(module, "device_named", None) is original:
            patch.setattr(module, "device_named", lambda *_: device)
