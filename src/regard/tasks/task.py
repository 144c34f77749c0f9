"""Contract of a task: everything that the verbs of `regard.pipeline` and the commands need from it.

A task imports its parts when they are needed, so that loading one task loads no other, and a
trained model is loaded without the training code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from regard.names import AttentionKind, Figure, TaskName

if TYPE_CHECKING:
    import numpy as np

    from regard.config import Experiment
    from regard.data.examples import Corpus, Pair
    from regard.runs.folder import RunFolder
    from regard.runs.progress import OnProgress
    from regard.runs.splits import Split
    from regard.tasks.cost import Cost
    from regard.tasks.evaluation import Evaluation, EvaluationOptions
    from regard.tasks.setup import TrainingSetup
    from regard.tasks.tracing import LazyTrace

Model = TypeVar("Model")


@dataclass(frozen=True)
class OutputToPlot:
    """Output for one source, with what a figure of its attention needs."""

    text: str
    lazy_trace: LazyTrace | None
    """Trace of the output; None for a blank source."""
    image: Callable[[], np.ndarray] | None = None
    """Function that returns the image of an overlay."""


@dataclass(frozen=True)
class EvaluationWording:
    """Words of an evaluation's report."""

    counts: str
    """Format of the counts, with the fields `sources` and `pairs`."""
    source: str
    output: str
    value: str = "6.2f"
    """Format of a score."""


@runtime_checkable
class Task(Protocol[Model]):
    """A task, whose trained model is a `Model`."""

    @property
    def name(self) -> TaskName:
        """Name of the task, as in `data.task`."""

    @property
    def evaluation_options(self) -> tuple[str, ...]:
        """Names of the options of `regard evaluate` that apply to the task."""

    @property
    def takes_targets(self) -> bool:
        """Whether the attention of a given target can be computed."""

    @property
    def default_kind(self) -> AttentionKind:
        """Kind of attention in a figure by default."""

    @property
    def wording(self) -> EvaluationWording:
        """Words of an evaluation's report."""

    def prepare(
        self,
        experiment: Experiment,
        split: Split,
        resumed: RunFolder | None,
        on_progress: OnProgress | None,
    ) -> TrainingSetup:
        """Prepare a training. `resumed` is the run to resume."""

    def load(self, runs: Sequence[str | Path], device: str) -> Model:
        """Load a run, or several runs as an ensemble."""

    def read(self, model: Model, path: Path, options: EvaluationOptions) -> Corpus:
        """Read the pairs to evaluate on."""

    def evaluate(
        self,
        model: Model,
        pairs: Sequence[Pair],
        options: EvaluationOptions,
        on_progress: OnProgress | None = None,
    ) -> Evaluation:
        """Score a model on pairs."""

    def cost(self, experiment: Experiment) -> Cost:
        """Return the cost of a recipe."""

    def output(self, model: Model, source: str, target: str | None) -> OutputToPlot:
        """Return the output for a source, or a given target, with its attention."""

    def figure(self, kind: AttentionKind) -> Figure:
        """Return the form of figures of this kind of attention."""
