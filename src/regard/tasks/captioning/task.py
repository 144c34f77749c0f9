"""Captioning as a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
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
    from regard.tasks.captioning.model import CaptionModel
    from regard.tasks.evaluation import Evaluation, EvaluationOptions
    from regard.tasks.training.cost import Cost
    from regard.tasks.training.setup import TrainingSetup


REPORT_TEXTS = ReportTexts("image", "caption", "Image:", "Caption:")


@dataclass(frozen=True)
class CaptioningTask:
    """Image to text, generated token by token."""

    name: TaskName = "caption"
    evaluation_options: tuple[str, ...] = ("search", *FILE_OPTIONS)
    takes_targets: bool = False
    default_attention_kind: AttentionKind = "image"
    report_texts: ReportTexts = REPORT_TEXTS

    def prepare(
        self,
        experiment: Experiment,
        split: Split,
        resumed: RunFolder | None,
        on_progress: OnProgress | None,
    ) -> TrainingSetup:
        from regard.tasks.captioning.training import prepare

        return prepare(experiment, split, resumed, on_progress)

    def load(self, runs: Sequence[str | Path], device: str) -> CaptionModel:
        from regard.tasks.captioning.model import CaptionModel

        run, *others = runs
        check_single(run, others)
        return CaptionModel.load(run, device=device)

    def read(self, model: CaptionModel, path: Path, options: EvaluationOptions) -> Corpus:
        from regard.data.images.annotations import read_captions
        from regard.data.text.parallel import read_pairs

        if options.held_out:
            return read_pairs(path)
        settings = options.table_settings(model.data, path)
        return read_captions(path, model.data.images, settings=settings).to_score

    def evaluate(
        self,
        model: CaptionModel,
        pairs: Sequence[Pair],
        options: EvaluationOptions,
        on_progress: OnProgress | None = None,
    ) -> Evaluation:
        from regard.tasks.captioning.evaluation import evaluate

        return evaluate(model, pairs, options, on_progress=on_progress)

    def estimate_cost(self, experiment: Experiment) -> Cost:
        from regard.tasks.captioning.cost import estimate_cost

        return estimate_cost(experiment)

    def output_to_plot(self, model: CaptionModel, source: str, target: str | None) -> OutputToPlot:
        del target
        caption = model.caption(source)
        image = partial(model.sources.show, source)
        return OutputToPlot(caption.text, caption.lazy_trace, image)

    def figure_of(self, kind: AttentionKind) -> Figure:
        return "overlay" if kind == "image" else "heatmap"
