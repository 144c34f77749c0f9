"""Translation as a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.names import FILE_OPTIONS, AttentionKind, Figure, TaskName
from regard.tasks.task import OutputToPlot, ReportTexts

if TYPE_CHECKING:
    from regard.config import Experiment
    from regard.corpora.splits import Split
    from regard.data.examples import Corpus, Pair
    from regard.runs.folder import RunFolder
    from regard.runtime.progress import OnProgress
    from regard.tasks.evaluation import Evaluation, EvaluationOptions
    from regard.tasks.training.cost import Cost
    from regard.tasks.training.setup import TrainingSetup
    from regard.tasks.translation.model import TranslationModel


REPORT_TEXTS = ReportTexts("source", "pair", "Source:", "Predicted:")


@dataclass(frozen=True)
class TranslationTask:
    """Text to text, generated token by token."""

    name: TaskName = "translate"
    evaluation_options: tuple[str, ...] = (
        *("search", "target_path", "lowercase", "tokenized", "error_rates", "ensemble"),
        *FILE_OPTIONS,
    )
    takes_targets: bool = True
    default_attention_kind: AttentionKind = "cross"
    report_texts: ReportTexts = REPORT_TEXTS

    def prepare(
        self,
        experiment: Experiment,
        split: Split,
        resumed: RunFolder | None,
        on_progress: OnProgress | None,
    ) -> TrainingSetup:
        from regard.tasks.translation.training import prepare

        return prepare(experiment, split, resumed, on_progress)

    def load(self, runs: Sequence[str | Path], device: str) -> TranslationModel:
        from regard.tasks.translation.model import TranslationModel

        return TranslationModel.load(*runs, device=device)

    def read(self, model: TranslationModel, path: Path, options: EvaluationOptions) -> Corpus:
        from regard.data.text.parallel import read_pairs

        settings = options.table_settings(model.data, path)
        return read_pairs(path, target_path=options.target_path, settings=settings)

    def evaluate(
        self,
        model: TranslationModel,
        pairs: Sequence[Pair],
        options: EvaluationOptions,
        on_progress: OnProgress | None = None,
    ) -> Evaluation:
        from regard.tasks.translation.evaluation import evaluate

        return evaluate(model, pairs, options, on_progress=on_progress)

    def estimate_cost(self, experiment: Experiment) -> Cost:
        from regard.tasks.translation.cost import estimate_cost

        return estimate_cost(experiment)

    def output_to_plot(
        self, model: TranslationModel, source: str, target: str | None
    ) -> OutputToPlot:
        if target is None:
            result, limit = model.translate(source), model.source_limit()
        else:
            (result,), limit = model.score([(source, target)]), model.scored_limit
        if result.is_refused:
            raise UserError(
                f"the text has more than {limit.tokens} tokens ({limit.field}): use a shorter text"
            )
        return OutputToPlot(result.text, result.lazy_trace)

    def figure_of(self, kind: AttentionKind) -> Figure:
        del kind
        return "heatmap"
