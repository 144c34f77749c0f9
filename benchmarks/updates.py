"""Updates of training with the model, batches and settings of a recipe."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

NUM_BATCHES = 4


@dataclass(frozen=True)
class Setup:
    """Model, batches and settings of a training before its first update."""

    model: Any
    batches: Any
    settings: Any


class BeforeTrainingError(Exception):
    """Ends a training before its first update."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.setup = setup


def setup_of(
    recipe: str, data: Path | None = None, changes: Mapping[str, object] | None = None
) -> Setup:
    """Return the model, batches and settings of a recipe with changed settings: on the files of
    Multi30k in the folder `data`, or on the files that the recipe names."""
    from regard import recipes
    from regard.pipeline import train as training

    def capture(model: Any, batches: Any, settings: Any, **_: Any) -> None:
        raise BeforeTrainingError(Setup(model, batches, settings))

    experiment = recipes.with_settings(recipes.load(recipes.find(recipe)), changes or {})
    if data is not None:
        files = {
            "path": data / "train.en.gz",
            "target_path": data / "train.de.gz",
            "dev_path": data / "val.en.gz",
            "dev_target_path": data / "val.de.gz",
        }
        experiment = replace(experiment, data=replace(experiment.data, **files))
    with TemporaryDirectory() as folder, patch.object(training, "run_loop", capture):
        try:
            training.train(experiment, Path(folder) / "run")
        except BeforeTrainingError as error:
            return error.setup
    raise SystemExit(f"{recipe}: the training did not begin")


def updates(setup: Setup, precision: str, num_batches: int = NUM_BATCHES) -> Callable[[], None]:
    """Return a function that changes the weights of a copy of the model with some batches."""
    from regard.training.loop import forward_and_backward
    from regard.training.parallel.replicas import replica_of
    from regard.training.schedule import Progress

    model = deepcopy(setup.model).train()
    settings = replace(setup.settings, precision=precision)
    replica, adam = replica_of(model, settings.objective, "none"), settings.optimiser.build(model)
    batches = list(islice(setup.batches.epoch(1), num_batches))

    def run() -> None:
        for number, batch in enumerate(batches, start=1):
            progress = Progress(update=number, total=1000, epoch=1, ends_epoch=False)
            forward_and_backward(replica, settings, progress, [batch])
            settings.optimiser.step(adam, progress)

    return run
