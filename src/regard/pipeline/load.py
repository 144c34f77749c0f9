"""The model of a run folder, whatever its task."""

from __future__ import annotations

from pathlib import Path

from regard.config import AnswerDataConfig, DataConfig
from regard.errors import UserError
from regard.runs.folder import RunFolder
from regard.tasks.arguments import check_path
from regard.tasks.captioning.captioner import Captioner
from regard.tasks.classification.classifier import Classifier
from regard.tasks.translation.translator import Translator


def load(
    run: str | Path, *others: str | Path, device: str = "auto"
) -> Translator | Classifier | Captioner:
    """Load the model of a run folder, ready to translate, to classify or to caption, or several
    runs as an ensemble that translates.

    `device` is cpu, cuda, a GPU such as cuda:1, or auto for a GPU if torch sees one. UserError if a
    folder holds no run, if the runs do not fit together, or if the device is not there."""
    for path in (run, *others):
        check_path("run", path)
    data = RunFolder(Path(run)).experiment().data
    if isinstance(data, DataConfig):
        return Translator.load(run, *others, device=device)
    if others:
        raise UserError(
            f"{run} was trained to {data.task}: only runs that translate write together"
        )
    if isinstance(data, AnswerDataConfig):
        return Classifier.load(run, device=device)
    return Captioner.load(run, device=device)
