"""All tasks. A new task is a folder beside this file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.config import Data
from regard.tasks.captioning.task import CaptioningTask
from regard.tasks.classification.task import ClassificationTask
from regard.tasks.task import Task
from regard.tasks.translation.task import TranslationTask

ALL: tuple[Task[Any], ...] = (TranslationTask(), ClassificationTask(), CaptioningTask())
TASKS: Mapping[str, Task[Any]] = {task.name: task for task in ALL}
"""The tasks by their names in `data.task`."""


def task_of(data: Data) -> Task[Any]:
    """Return the task of a recipe's data."""
    return TASKS[data.task]
