"""Contract of a task: everything that the functions of `regard.pipeline` and the commands call.

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
    from regard.corpora.splits import Split
    from regard.data.examples import Corpus, Pair
    from regard.runs.folder import RunFolder
    from regard.runtime.progress import OnProgress
    from regard.tasks.evaluation import Evaluation, EvaluationOptions
    from regard.tasks.tracing import LazyTrace
    from regard.tasks.training.cost import Cost
    from regard.tasks.training.setup import TrainingSetup

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
class ReportTexts:
    """Texts and number formats of an evaluation's report."""

    source_noun: str
    """Noun for a source, in the singular; empty if sources are not counted."""
    pair_noun: str
    """Noun for a pair, in the singular."""
    source_label: str
    """Text before the source of an example."""
    output_label: str
    """Text before the model's output of an example."""
    score_format: str = "6.2f"
    """Format specification of a score."""


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
        """Whether `output_to_plot` uses a target. Other tasks ignore it."""

    @property
    def default_attention_kind(self) -> AttentionKind:
        """Kind of attention in a figure by default."""

    @property
    def report_texts(self) -> ReportTexts:
        """Texts and number formats of an evaluation's report."""

    def prepare(
        self,
        experiment: Experiment,
        split: Split,
        resumed: RunFolder | None,
        on_progress: OnProgress | None,
    ) -> TrainingSetup:
        """Build the model and the batches of a training. `resumed` is the run to resume; None for a
        new run. UserError if the recipe and the data do not fit, or if a file of the run to resume
        cannot be read."""

    def load(self, runs: Sequence[str | Path], device: str) -> Model:
        """Load a run, or several runs as an ensemble. UserError if a folder has no run of this
        task, if the runs cannot be an ensemble, or if the device does not exist."""

    def read(self, model: Model, path: Path, options: EvaluationOptions) -> Corpus:
        """Read the pairs to evaluate on. UserError if the file cannot be read, or if it has no pair
        of this task."""

    def evaluate(
        self,
        model: Model,
        pairs: Sequence[Pair],
        options: EvaluationOptions,
        on_progress: OnProgress | None = None,
    ) -> Evaluation:
        """Score a model on pairs. UserError if the model can read no source, or cannot predict a
        target, or if a search option does not apply to it."""

    def estimate_cost(self, experiment: Experiment) -> Cost:
        """Return the parameters of a recipe's model and the arithmetic of its training. UserError
        if the model cannot be built."""

    def output_to_plot(self, model: Model, source: str, target: str | None) -> OutputToPlot:
        """Return the output for a source with its attention, or `target` with its attention if it
        is not None. UserError if the model cannot read the source."""

    def figure_of(self, kind: AttentionKind) -> Figure:
        """Return the form of the figures of this kind of attention."""
