"""Objectives of models that generate texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.compiled.losses import BLOCKWISE
from regard.config import TrainingConfig
from regard.tasks.training.objectives import objective_of
from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.distillation import Distillation, Teachers
from regard.training.objectives.objective import NextToken


def test_the_objective_has_the_settings_of_the_recipe():
    config = TrainingConfig(
        objective="distillation",
        teachers=(Path("x"),),
        teacher_weight=0.3,
        divergence="jensen_shannon",
        temperature=2.0,
    )
    teachers = Teachers((torch.nn.Linear(1, 1),), ("a",))
    expected = Distillation(
        NextToken(CrossEntropy(functions=BLOCKWISE)), teachers, "jensen_shannon", 0.3, 2.0
    )
    assert objective_of(config, teachers=teachers) == expected
    with pytest.raises(ValueError, match="expected teachers"):
        objective_of(config)
