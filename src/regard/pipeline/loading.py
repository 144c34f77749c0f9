"""The model of a run folder, whatever its task."""

from __future__ import annotations

from pathlib import Path

from regard.config import AnswerDataConfig
from regard.errors import UserError
from regard.pipeline.classifier import Classifier
from regard.pipeline.folder import RunFolder
from regard.pipeline.translator import Translator


def load(run: str | Path, *others: str | Path) -> Translator | Classifier:
    """The model of a run folder, ready to translate or to classify; several runs that translate
    write together. UserError where one is no run, or where they do not go together."""
    if not isinstance(RunFolder(Path(run)).experiment().data, AnswerDataConfig):
        return Translator.load(run, *others)
    if others:
        raise UserError(f"{run} is a classifier: only runs that translate write together")
    return Classifier.load(run)
