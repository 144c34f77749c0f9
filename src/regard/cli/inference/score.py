"""`regard score`: log probabilities of given targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.cli.inference.bulk import BulkOptions, check_bulk, run_job
from regard.cli.output import check_different, showing_acceleration
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, Runs, parse
from regard.config.search import Mebibytes
from regard.inference.loop import Outputs
from regard.inference.scoring import ScoreJob
from regard.inference.tables import check_lines_output
from regard.runs.ensemble import all_members

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
    """Print the log probability of each token too, and on the standard error which modules of the
    model are accelerated."""
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
    job = ScoreJob(
        all_members((options.run, *options.ensemble)),
        options.pairs,
        options.target_path,
        Outputs(options.output, trace=options.trace),
        options.verbose,
        options.max_memory,
        options.device,
    )
    with showing_acceleration(is_shown=options.verbose):
        faults = run_job("score", job, options, inputs)
    return 1 if faults.num_refused else 0
