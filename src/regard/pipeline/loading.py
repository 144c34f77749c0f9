"""The model of a run folder, whatever its task."""

from __future__ import annotations

from pathlib import Path

from regard.config import AnswerDataConfig, DataConfig
from regard.errors import UserError
from regard.pipeline.arguments import check_path
from regard.pipeline.captioner import Captioner
from regard.pipeline.classifier import Classifier
from regard.pipeline.folder import RunFolder
from regard.pipeline.translator import Translator


def load(run: str | Path, *others: str | Path) -> Translator | Classifier | Captioner:
    """The model of a run folder, ready to translate, to classify or to caption; several runs that
    translate write together. UserError where one is no run, or where they do not go together."""
    for path in (run, *others):
        check_path("run", path)
    data = RunFolder(Path(run)).experiment().data
    if isinstance(data, DataConfig):
        return Translator.load(run, *others)
    if others:
        raise UserError(
            f"{run} was trained to {data.task}: only runs that translate write together"
        )
    return Classifier.load(run) if isinstance(data, AnswerDataConfig) else Captioner.load(run)
