"""Loading the model of a run of any task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from regard.runs.ensemble import all_members
from regard.runs.folder import RunFolder
from regard.tasks.all_tasks import task_of
from regard.tasks.arguments import check_path

if TYPE_CHECKING:
    from regard.tasks.captioning.model import CaptionModel
    from regard.tasks.classification.model import ClassificationModel
    from regard.tasks.translation.model import TranslationModel

Model: TypeAlias = "TranslationModel | ClassificationModel | CaptionModel"


def load(run: str | Path, *others: str | Path, device: str = "auto") -> Model:
    """Load the model of a run folder, ready to translate, classify or caption; or load several
    runs, or the folder of an ensemble, as an ensemble that translates.

    `device` is cpu, cuda, a GPU such as cuda:1, or auto (a GPU if there is one). UserError if a
    folder holds no run, if the runs cannot be an ensemble, or if the device does not exist."""
    for path in (run, *others):
        check_path("run", path)
    first, *rest = all_members((run, *others))
    task = task_of(RunFolder(first).experiment().data)
    model: Model = task.load((first, *rest), device)
    return model
