"""Cost of a recipe of any task."""

from __future__ import annotations

from regard.config import Experiment, resolve
from regard.tasks.all_tasks import task_of
from regard.tasks.training.cost import Cost


def cost_of(experiment: Experiment) -> Cost:
    """Return the cost of a recipe. UserError if its model cannot be built."""
    return task_of(experiment.data).estimate_cost(resolve(experiment))
