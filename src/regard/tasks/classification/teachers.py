"""Teachers of a classifier."""

from __future__ import annotations

from pathlib import Path

from regard.config import ClassificationDataConfig
from regard.errors import UserError
from regard.models.heads import HeadModel
from regard.tasks.classification.inputs import InputsAndTargets, SeriesInputs
from regard.tasks.classification.model import ClassificationModel
from regard.tasks.training.teachers import check_longest
from regard.tasks.training.tokenizers import tokenizer_difference


def load_teacher(data: ClassificationDataConfig, inputs: InputsAndTargets, path: Path) -> HeadModel:
    """Load a classifier for the distillation of another one. UserError unless both have the same
    inputs and labels."""
    teacher = ClassificationModel.load(path, device="cpu")
    difference = _difference(inputs, teacher.inputs)
    if difference:
        raise UserError(
            f"{path} does not fit this model: {difference}. Train the teacher "
            "with the same training data"
        )
    check_longest(path, teacher.experiment.model, data.max_length)
    return teacher.model


def _difference(ours: InputsAndTargets, theirs: InputsAndTargets) -> str:
    if ours.targets != theirs.targets:
        return "their labels differ"
    if ours.reader.features != theirs.reader.features:
        return (
            f"their inputs have {ours.reader.features} and {theirs.reader.features} numbers at "
            "each position"
        )
    first, second = ours.reader, theirs.reader
    if isinstance(first, SeriesInputs) or isinstance(second, SeriesInputs):
        return "" if type(first) is type(second) else "only one of them reads texts"
    return tokenizer_difference(first.tokenizer, second.tokenizer)
