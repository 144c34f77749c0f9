"""`regard compare`: compare runs on the same pairs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.output import say, warn
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import parse
from regard.cli.progress import PreparationView
from regard.cli.tables import format_table
from regard.config.checks import Count, CountOrZero
from regard.errors import UsageError, UserError

if TYPE_CHECKING:
    from regard.studies.compare import Study


@dataclass(frozen=True)
class Options:
    """Compare runs on the same pairs: the mean of each score with its deviation over seeds, and the
    significance of the differences from the first run. Runs that differ only in seeds are one
    system."""

    runs: Positional[tuple[Path, ...]]
    """Two or more run folders, or the folder of a sweep, and after them optionally a file of pairs
    (default: the test split that the runs share). The folder of an ensemble stands for its
    members."""
    output: Path | None = None
    """Figure to write (.png, .svg or .pdf)."""
    csv: Path | None = None
    """Table to write (.csv)."""
    sentences: CountOrZero = 5
    """Number of outputs to print that differ most from those of the first system."""
    samples: Count = 1000
    """Number of samples of each significance test."""


def run(arguments: list[str]) -> None:
    """Print the table of scores and the outputs that differ most, and write table and figure."""
    options = parse(Options, arguments, "regard compare")
    from regard.studies.compare import compare
    from regard.viewing import comparison, figure

    if options.output is not None:
        figure.check_suffix(options.output)
    if not options.runs:
        raise UsageError("name two or more run folders, or the folder of a sweep")
    *runs, last = options.runs
    if not last.exists():
        raise UserError(f"{last} does not exist: expected a run folder or a file of pairs")
    is_run = (last / "config.yaml").exists() or last.is_dir()
    with PreparationView() as on_progress:
        study = compare(
            [*runs, last] if is_run else runs,
            None if is_run else last,
            num_samples=options.samples,
            num_differences=options.sentences,
            on_progress=on_progress,
        )
    for path in study.incomplete:
        warn(f"the training of {path} is not complete: its best weights so far are compared")
    print("\n".join(format_table(study.shown_rows())))
    _print_notes(study, options)
    for row in study.differences:
        say(f"\nSource:    {row.source}\nReference: {' | '.join(row.references)}")
        say(f"{study.systems[0].name}: {row.baseline_text}\n{row.system}: {row.text}")
    if options.csv is not None:
        study.save(options.csv)
    if options.output is not None:
        first = study.systems[0]
        panels = {
            metric: {system.name: system.scores(metric) for system in study.systems}
            for metric in first.shown_metrics
        }
        comparison.save(panels, options.output)


def _print_notes(study: Study, options: Options) -> None:
    from regard.runs.ensemble import is_ensemble
    from regard.tasks.evaluation import bleu_note

    first = study.systems[0]
    if first.shown_metrics != first.metrics:
        print(bleu_note(first.num_words, str(options.csv or "results.json")))
    for path in filter(is_ensemble, options.runs):
        print(
            f"{path} is an ensemble: its members are compared, not their mean; scores of the "
            f"ensemble: regard evaluate {shlex.quote(str(path))}"
        )
    if len(study.systems) < 2:
        print("the runs differ only in seeds, so they are one system: no test of significance")
        return
    print(f"p: paired bootstrap and approximate randomisation against {first.name}")
    if any(len(system.runs) > 1 for system in study.systems):
        print("tests and outputs of a system with several seeds: its run with the median score")
