"""Log probabilities of given targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import DataConfig
from regard.data.examples import Pair
from regard.data.files.lines import LeftOut, LineProblem
from regard.inference.faults import Limits
from regard.inference.loop import Output, Outputs, Run, naming_lines, within_memory
from regard.inference.parts import Items, chunks
from regard.inference.translation import data_of, known_features
from regard.runs.folder import RunFolder
from regard.runtime.memory_policy import pause_collection
from regard.storage.files import resolved

if TYPE_CHECKING:
    from regard.data.files.source_table import AddedColumn
    from regard.data.files.tables import TableSettings
    from regard.tasks.generation import GeneratedText
    from regard.tasks.translation.model import TranslationModel

PAIRS_AT_A_TIME = 1024


@dataclass(frozen=True)
class ScoreJob:
    """Scores of pairs."""

    runs: tuple[Path, ...]
    """Run folder, or the members of an ensemble."""
    pairs: Path
    """File of pairs, or of sources."""
    target_path: Path | None
    """File of the targets, if the pairs are in two files."""
    outputs: Outputs
    verbose: bool = False
    """Whether the log probability of each token is written."""
    max_memory: int | None = None
    """Largest estimated memory in MiB for a pair; None for that of the run."""
    device: str = "auto"

    def limits(self) -> Limits:
        from regard.tasks.translation.limits import limit_of_scored

        experiments = [RunFolder(path).experiment() for path in self.runs]
        models = [experiment.model for experiment in experiments]
        return Limits(
            known_features(self.runs[0], self.data),
            unfit="no score",
            most=limit_of_scored(experiments[0].search, models).tokens,
            refused="no score, because a side is too long; split the pairs into sentences",
        )

    @cached_property
    def data(self) -> DataConfig:
        """Section `data` of the first run."""
        return data_of(self.runs[0])

    def input(self, warn: Callable[[str], None]) -> Items[Pair | LineProblem]:
        """Return the lines of the files, each as a pair or a problem."""
        from regard.data.text.parallel import each_line

        del warn
        settings = self._settings()
        return Items(lambda: each_line(self.pairs, self.target_path, settings), PAIRS_AT_A_TIME)

    def open(self, warn: Callable[[str], None]) -> Scoring:
        with pause_collection():
            from regard.tasks.translation.model import TranslationModel

        model = TranslationModel.load(*self.runs, device=self.device)
        if self.max_memory is not None:
            search = replace(model.experiment.search, max_memory=self.max_memory)
            model.experiment = replace(model.experiment, search=search)
        return Scoring(self, model, self.input(warn))

    def _settings(self) -> TableSettings | None:
        """Return the columns of the pairs: those of the training if the run reads features, so that
        a source has them; otherwise None for source TAB target."""
        from regard.tasks.evaluation import EvaluationOptions

        if self.data.feature_columns is None:
            return None
        folder = RunFolder(self.runs[0])
        is_held_out = resolved(self.pairs) in map(resolved, (folder.dev, folder.test))
        return EvaluationOptions(held_out=is_held_out).table_settings(self.data, self.pairs)


@dataclass
class Scoring:
    """A translation model with the pairs that it scores."""

    job: ScoreJob
    model: TranslationModel
    source: Items[Pair | LineProblem]
    columns: tuple[AddedColumn, ...] = ()

    def chunks(self, run: Run) -> Iterator[list[Pair]]:
        pairs = self._pairs(run)
        if run.part is None:  # all lines are read before the first score is printed
            pairs = iter(self._all(list(pairs), run))
        parts = chunks(pairs, PAIRS_AT_A_TIME)
        return within_memory(parts, self._parts) if self.job.outputs.trace else parts

    def outputs(self, chunk: list[Pair], run: Run) -> Iterator[Output]:
        lines, form = [pair.line for pair in chunk], self.model.source_form
        sources = run.faults.fitting(form, ((pair.line, pair.source) for pair in chunk))
        texts = [(source, pair.target) for source, pair in zip(sources, chunk, strict=True)]
        with naming_lines(lines):
            scored = self.model.score(texts, attention=bool(self.job.outputs.trace))
        for pair, target in zip(chunk, scored, strict=True):
            if target.is_refused:
                run.faults.add_refused(pair.line)
            trace = target.trace if self.job.outputs.trace else None
            yield Output(self._text(pair, target), trace=trace)

    def _text(self, pair: Pair, target: GeneratedText) -> str:
        text = f"{target.score:.4f}\t{pair.source}\t{pair.target}"
        if not self.job.verbose or target.trace is None:
            return text
        steps = (f"    {step.log_probability:9.4f}  {step.token}" for step in target.trace.steps)
        return "\n".join([text, *steps])

    def _all(self, pairs: list[Pair], run: Run) -> list[Pair]:
        """Return the pairs. UserError for an empty list."""
        from regard.data.text.parallel import no_pairs

        if pairs:
            return pairs
        left_out = LeftOut()
        for problem in run.faults.dropped:
            left_out.add(problem)
        raise no_pairs((self.job.pairs, self.job.target_path), left_out)

    def _pairs(self, run: Run) -> Iterator[Pair]:
        """Yield the pairs of a part, and count the other lines."""
        for line in self.source.of(run.part):
            if isinstance(line, Pair):
                yield line
            else:
                run.faults.dropped.append(replace(line, text=""))

    def _parts(self, chunk: list[Pair]) -> Iterator[list[tuple[str, str]]]:
        return self.model.parts_of_pairs([(pair.source, pair.target) for pair in chunk])
