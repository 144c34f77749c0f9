"""Classification as a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.names import FILE_OPTIONS, AttentionKind, Figure, TaskName
from regard.tasks.arguments import check_single
from regard.tasks.task import OutputToPlot, ReportTexts

if TYPE_CHECKING:
    from regard.config import Experiment
    from regard.corpora.splits import Split
    from regard.data.examples import Corpus, Pair
    from regard.runs.folder import RunFolder
    from regard.runtime.progress import OnProgress
    from regard.tasks.classification.model import ClassificationModel
    from regard.tasks.evaluation import Evaluation, EvaluationOptions
    from regard.tasks.training.cost import Cost
    from regard.tasks.training.setup import TrainingSetup


REPORT_TEXTS = ReportTexts("", "example", "Source:", "Predicted:", "8.4g")


@dataclass(frozen=True)
class ClassificationTask:
    """Source (text, items or a series) to a label or numbers."""

    name: TaskName = "classify"
    evaluation_options: tuple[str, ...] = FILE_OPTIONS
    takes_targets: bool = False
    default_attention_kind: AttentionKind = "cross"
    report_texts: ReportTexts = REPORT_TEXTS

    def prepare(
        self,
        experiment: Experiment,
        split: Split,
        resumed: RunFolder | None,
        on_progress: OnProgress | None,
    ) -> TrainingSetup:
        from regard.tasks.classification.training import prepare

        del on_progress
        return prepare(experiment, split, resumed)

    def load(self, runs: Sequence[str | Path], device: str) -> ClassificationModel:
        from regard.tasks.classification.model import ClassificationModel

        run, *others = runs
        check_single(run, others)
        return ClassificationModel.load(run, device=device)

    def read(self, model: ClassificationModel, path: Path, options: EvaluationOptions) -> Corpus:
        from regard.data.labels.readers import read_labelled
        from regard.data.text.parallel import read_pairs

        settings = options.table_settings(model.data, path)
        if options.held_out:
            return read_pairs(path, settings=settings)
        corpus = read_labelled(path, settings, frozenset(model.labels) or None)
        return corpus.with_units_compared(str(path), model.units)

    def evaluate(
        self,
        model: ClassificationModel,
        pairs: Sequence[Pair],
        options: EvaluationOptions,
        on_progress: OnProgress | None = None,
    ) -> Evaluation:
        from regard.tasks.classification.evaluation import evaluate

        del options
        return evaluate(model, pairs, on_progress=on_progress)

    def estimate_cost(self, experiment: Experiment) -> Cost:
        from regard.tasks.classification.cost import estimate_cost

        return estimate_cost(experiment)

    def output_to_plot(
        self, model: ClassificationModel, source: str, target: str | None
    ) -> OutputToPlot:
        del target
        prediction = model.classify(source)
        return OutputToPlot(prediction.text, prediction.lazy_trace)

    def figure_of(self, kind: AttentionKind) -> Figure:
        return "sentence" if kind == "cross" else "heatmap"
