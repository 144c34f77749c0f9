"""Classification of lines, or of the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import ClassificationDataConfig
from regard.data.files.source_table import AddedColumn, is_table
from regard.data.recognition.header import TEXT_NAMES
from regard.errors import UserError
from regard.inference.faults import Limits
from regard.inference.lines import STREAM, LineSources, Source
from regard.inference.loop import Output, Outputs, Run
from regard.inference.parts import Items
from regard.inference.tables import SourceFile, lines_of, rows_of
from regard.runs.folder import RunFolder
from regard.runtime.memory_policy import pause_collection

if TYPE_CHECKING:
    from regard.tasks.classification.model import ClassificationModel, Prediction

LINES_AT_A_TIME = 512
NAMES = ("prediction", "probability")
"""Names of the added columns."""


@dataclass(frozen=True)
class ClassificationJob:
    """Classification of a file."""

    run: Path
    file: SourceFile
    outputs: Outputs
    probabilities: bool = False
    """Whether the probabilities of all labels are written."""
    tint: bool = False
    """Whether outputs have traces for the terminal, which only lines have."""
    device: str = "auto"

    @property
    def runs(self) -> tuple[Path, ...]:
        return (self.run,)

    def limits(self) -> Limits:
        from regard.tasks.classification.inputs import InputsAndTargets, source_form_of

        reader = InputsAndTargets.load(RunFolder(self.run), self.data).reader
        return Limits(
            list(source_form_of(reader, self.data).known_values),
            longest=self.data.max_length,
            long="the tokens after that were not read",
        )

    @cached_property
    def data(self) -> ClassificationDataConfig:
        """Section `data` of the run."""
        from regard.tasks.arguments import sections_of

        experiment = RunFolder(self.run).experiment()
        return sections_of(experiment, ClassificationDataConfig, str(self.run))[0]

    def input(self, warn: Callable[[str], None]) -> LineSources | Items[Source]:
        file, output = self.file, self.outputs.texts
        if file.file == STREAM or not is_table(Path(file.file)):
            return lines_of(file, output, LINES_AT_A_TIME, warn)
        if self.tint:
            raise UserError(f"--tint is for lines, but {file.file} is a table: leave it out")
        return rows_of(file, self.data, output, TEXT_NAMES)

    def open(self, warn: Callable[[str], None]) -> Classification:
        with pause_collection():
            from regard.tasks.classification.model import ClassificationModel

        model = ClassificationModel.load(self.run, device=self.device)
        if self.tint and not model.attends:
            raise UserError(
                f"--tint shows attention weights, but {self.run} has no attention: leave it "
                "out, or train with --model.head.kind attention"
            )
        return Classification(self, model, self.input(warn))


@dataclass
class Classification:
    """A classifier with its input."""

    job: ClassificationJob
    model: ClassificationModel
    source: LineSources | Items[Source]

    def __post_init__(self) -> None:
        self.columns = self._columns() if self.source.table is not None else ()

    def chunks(self, run: Run) -> Iterator[list[Source]]:
        return self.source.chunks(run)

    def outputs(self, chunk: list[Source], run: Run) -> Iterator[Output]:
        model, faults = self.model, run.faults
        faults.add_rows(self.source.table, chunk)
        texts = faults.fitting(model.source_form, ((source.line, source.text) for source in chunk))
        predictions, errors = self._predictions(texts)
        name = "standard input" if self.job.file.file == STREAM else self.job.file.file
        for place, error in errors.items():
            faults.add_error(f"{name}, line {chunk[place].line}: {error}")
        for source, prediction in zip(chunk, predictions, strict=True):
            faults.add_result(source.line, prediction, model)
            text = prediction.text
            if self.job.probabilities:
                labels = (f"{label} {share:.4f}" for label, share in prediction.probabilities)
                text = "\t".join([text, *labels])
            yield Output(
                text, source.row, self._cells(prediction), trace=prediction.trace, no_trace="{}"
            )

    def _predictions(self, texts: list[str]) -> tuple[list[Prediction], dict[int, str]]:
        """Return the predictions, blank for texts that cannot be read, and the errors of these
        texts by their indices."""
        from regard.tasks.source_form import SourceError

        attention = self.job.tint or self.job.outputs.trace is not None
        errors: dict[int, str] = {}
        while True:
            try:
                return self.model.classify(texts, attention=attention), errors
            except SourceError as error:
                errors[error.place] = error.reason
                texts[error.place] = ""

    def _columns(self) -> tuple[AddedColumn, ...]:
        """Return the added columns: the prediction, its probability, and with `probabilities` that
        of each label."""
        labels = self.model.labels
        is_number = not labels and self.model.inputs.targets.size == 1
        names = [NAMES[1]] if labels else []
        if self.job.probabilities:
            names += [f"{NAMES[1]} {label}" for label in labels]
        return (AddedColumn(NAMES[0], is_number), *(AddedColumn(name, True) for name in names))

    def _cells(self, prediction: Prediction) -> list[str]:
        """Return the cells of the added columns."""
        labels = self.model.labels
        if not self.columns or not labels:
            return [prediction.text]
        shares = {label: f"{share:.4f}" for label, share in prediction.probabilities}
        shown = labels if self.job.probabilities else ()
        return [
            prediction.text,
            shares.get(prediction.text, ""),
            *(shares.get(label, "") for label in shown),
        ]
