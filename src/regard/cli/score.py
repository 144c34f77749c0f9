"""`regard score`: log probabilities of given targets."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.bulk import BulkOptions, ClusterRun, check_bulk, part_of
from regard.cli.lines import check_different, chunks, naming_lines, opened, warn_of_refused
from regard.cli.output import warn
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, Runs, parse
from regard.cli.progress import OnFinished, counting_outputs
from regard.cli.source_faults import FormFaults
from regard.cli.table_rows import check_lines_output
from regard.config import DataConfig
from regard.config.search import Mebibytes
from regard.data.examples import Pair
from regard.data.files.lines import LeftOut, LineProblem
from regard.runs.ensemble import all_members, members_of
from regard.runs.folder import RunFolder
from regard.runtime.memory_policy import pause_collection
from regard.storage.files import resolved

if TYPE_CHECKING:
    from regard.data.files.tables import TableSettings
    from regard.inference.parts import Items, Part
    from regard.tasks.source_form import SourceForm
    from regard.tasks.translation.model import TranslationModel

PAIRS_AT_A_TIME = 1024


HELP_EXAMPLES = (
    ("regard score runs/letters pairs.tsv", "log probability of each target"),
    ("regard score runs/letters pairs.tsv --verbose", "log probability of each token too"),
)


@dataclass(frozen=True)
class Options:
    """Print the log probability (natural logarithm) of each target, one pair per line. A pair with
    more than 5,000 tokens on a side (or search.max_source of the run), or with another number of
    features than the training sources, has the score nan; then the exit status is 1."""

    run: Positional[Path]
    """Run folder."""
    pairs: Positional[Path]
    """Pairs: a file with source TAB target on each line (of a run with features, its columns in
    training), or the file of the sources."""
    target_path: Path | None = None
    """File of the targets, if the pairs are in two files."""
    ensemble: Runs = ()
    """Further runs of an ensemble, which scores with the mean of the probabilities."""
    output: Path | None = None
    """File to write the scores to (default: print them)."""
    trace: Path | None = None
    """File to write tokens, probabilities and attention to, a JSON object per pair and line."""
    verbose: bool = False
    """Print the log probability of each token too."""
    max_memory: Mebibytes | None = None
    """Largest estimated memory in MiB that scoring one pair may take, its attention for --trace
    included (default: search.max_memory of the run, or half of the free memory)."""
    device: Device = "auto"
    bulk: BulkOptions = field(default_factory=BulkOptions)


def run(arguments: list[str]) -> int:
    """Score given targets; return 1 if a pair has no score."""
    options = parse(Options, arguments, "regard score")
    inputs = [str(path) for path in (options.pairs, options.target_path) if path is not None]
    check_different(inputs, options.output, options.trace)
    check_lines_output(options.output, "each line of the output has a score TAB source TAB target")
    check_bulk(options.bulk, inputs, options.output)
    with pause_collection():
        from regard.tasks.arguments import sections_of
        from regard.tasks.source_form import SourceForm
        from regard.tasks.translation.encoding import Tokenizers
        from regard.tasks.translation.limits import limit_of_scored

    runs = all_members((options.run, *options.ensemble))
    job = ScoreJob(options)
    if options.bulk.cluster is not None:
        cluster = ClusterRun("score", options, runs, inputs, (options.output, options.trace))
        faults = ScoreFaults.of(cluster.of_items(job, job.items(), PAIRS_AT_A_TIME))
    else:
        scoring = job.open()
        part = part_of(options.bulk, "", None, scoring.lines)
        with counting_outputs("scored", options.output) as on_finished:
            faults = scoring.score(part, options, on_finished)
    experiments = [RunFolder(path).experiment() for path in runs]
    limit = limit_of_scored(experiments[0].search, [each.model for each in experiments])
    data, _ = sections_of(experiments[0], DataConfig, str(runs[0]))
    source_form = SourceForm(data.feature_columns or (), Tokenizers.load(RunFolder(runs[0])).source)
    faults.warn(limit.tokens, source_form)
    return 1 if faults.refused or faults.form.unfit else 0


@dataclass(frozen=True)
class ScoreJob:
    """Scores of pairs, in parts."""

    options: Options

    def items(self) -> Items[Pair | LineProblem]:
        """Return the lines of the files, each as a pair or a problem."""
        from regard.data.text.parallel import each_line
        from regard.inference.parts import Items

        options, settings = self.options, self._settings()
        return Items(lambda: each_line(options.pairs, options.target_path, settings))

    def _settings(self) -> TableSettings | None:
        """Return the columns of the pairs: those of the training if the run reads features, so that
        a source has them; otherwise None for source TAB target."""
        from regard.tasks.evaluation import EvaluationOptions

        folder = RunFolder(members_of(self.options.run)[0])
        data = folder.experiment().data
        if getattr(data, "feature_columns", None) is None:
            return None
        path = self.options.pairs
        is_held_out = resolved(path) in map(resolved, (folder.dev, folder.test))
        return EvaluationOptions(held_out=is_held_out).table_settings(data, path)

    def open(self) -> Scoring:
        """Load the model."""
        with pause_collection():
            from regard.tasks.translation.model import TranslationModel

        options = self.options
        model = TranslationModel.load(options.run, *options.ensemble, device=options.device)
        if options.max_memory is not None:
            search = replace(model.experiment.search, max_memory=options.max_memory)
            model.experiment = replace(model.experiment, search=search)
        return Scoring(options, model, self.items())


@dataclass
class ScoreFaults:
    """Lines without a score."""

    problems: list[LineProblem] = field(default_factory=list)
    """Lines that are no pairs, without their texts."""
    refused: list[int] = field(default_factory=list)
    """Lines of pairs that are too long."""
    form: FormFaults = field(default_factory=FormFaults)
    num_pairs: int = 0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ScoreFaults:
        """Return the faults of a dictionary that `asdict` returned."""
        problems = [LineProblem(**problem) for problem in values["problems"]]
        form = FormFaults.of(values["form"])
        return cls(**{**values, "problems": problems, "form": form})

    @property
    def left_out(self) -> LeftOut:
        """Numbers of lines that are no pairs, by file and reason."""
        left_out = LeftOut()
        for problem in self.problems:
            left_out.add(problem)
        return left_out

    def warn(self, longest: int, form: SourceForm) -> None:
        """Report the lines. Sides of pairs have at most `longest` tokens."""
        self.form.warn(form, "no score")
        for sentence in self.left_out.summary():
            warn(sentence)
        warn_of_refused(
            self.refused,
            longest,
            "no score, because a side is too long; split the pairs into sentences",
        )


@dataclass
class Scoring:
    """A model with the pairs that it scores."""

    options: Options
    translator: TranslationModel
    lines: Items[Pair | LineProblem]

    def run(self, part: Part, outputs: Sequence[Path | None]) -> Mapping[str, Any]:
        """Write the scores and traces of a part to these files, and return its faults."""
        output, trace = outputs
        return asdict(self.score(part, replace(self.options, output=output, trace=trace)))

    def score(
        self, part: Part | None, options: Options, on_finished: OnFinished = lambda _: None
    ) -> ScoreFaults:
        """Score a part of the pairs, or all of them, into the files of the options. `on_finished`
        takes the number of pairs of each chunk."""
        from regard.data.text.parallel import no_pairs

        faults = ScoreFaults()
        with ExitStack() as files:
            output = opened(files, options.output) or sys.stdout
            traces = opened(files, options.trace)
            lines = self._pairs(part, faults)
            if part is None:  # all lines are read before the first score is printed
                lines = iter(list(lines))
                if not faults.num_pairs:
                    raise no_pairs((options.pairs, options.target_path), faults.left_out)
            for pairs in self._chunks(lines, options):
                form = self.translator.source_form
                is_fitting = [faults.form.add(pair.line, pair.source, form) for pair in pairs]
                texts = [
                    (pair.source if fits else "", pair.target)
                    for pair, fits in zip(pairs, is_fitting, strict=True)
                ]
                with naming_lines([pair.line for pair in pairs]):
                    scored = self.translator.score(texts, attention=bool(options.trace))
                for pair, target in zip(pairs, scored, strict=True):
                    if target.is_refused:
                        faults.refused.append(pair.line)
                    print(f"{target.score:.4f}\t{pair.source}\t{pair.target}", file=output)
                    if options.verbose and target.trace:
                        for step in target.trace.steps:
                            print(f"    {step.log_probability:9.4f}  {step.token}", file=output)
                    if traces and target.trace:
                        print(target.trace.to_json(), file=traces)
                on_finished(len(pairs))
        return faults

    def _chunks(self, lines: Iterator[Pair], options: Options) -> Iterator[list[Pair]]:
        """Yield lists of pairs, whose attention fits into the memory."""
        for chunk in chunks(lines, PAIRS_AT_A_TIME):
            if not options.trace:
                yield chunk
                continue
            rest = iter(chunk)
            texts = [(pair.source, pair.target) for pair in chunk]
            for part in self.translator.parts_of_pairs(texts):
                yield list(islice(rest, len(part)))

    def _pairs(self, part: Part | None, faults: ScoreFaults) -> Iterator[Pair]:
        """Yield the pairs of a part, and note the other lines."""
        for line in self.lines.of(part):
            if isinstance(line, Pair):
                faults.num_pairs += 1
                yield line
            else:
                faults.problems.append(replace(line, text=""))
