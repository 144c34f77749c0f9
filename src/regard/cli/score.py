"""`regard score`: log probabilities of given targets."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.cli.lines import warn_of_refused
from regard.cli.options import Device, Runs, parse
from regard.files import whole
from regard.memory_policy import pause_collection

PAIRS_AT_A_TIME = 1024


HELP_EXAMPLES = (
    ("regard score runs/letters pairs.tsv", "log probability of each target"),
    ("regard score runs/letters pairs.tsv --verbose", "log probability of each token too"),
)


@dataclass(frozen=True)
class Options:
    """Print the log probability (natural logarithm) of each target, one pair per line. A pair with
    more than 5,000 tokens on a side (or search.max_source of the run) has the score nan; then the
    exit status is 1."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    pairs: tyro.conf.Positional[Path]
    """Pairs: a file with source TAB target on each line, or the file of the sources."""
    target_path: Path | None = None
    """File of the targets, if the pairs are in two files."""
    ensemble: Runs = ()
    """Further runs of an ensemble, which scores with the mean of the probabilities."""
    trace: Path | None = None
    """File to write tokens, probabilities and attention to, a JSON object per pair and line."""
    verbose: bool = False
    """Print the log probability of each token too."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Score given targets; return 1 if a pair is too long."""
    options = parse(Options, arguments, "regard score")
    import sys

    with pause_collection():
        from regard.data.text.parallel import read_pairs
        from regard.tasks.translation.model import MAX_SCORED, TranslationModel

    translator = TranslationModel.load(options.run, *options.ensemble, device=options.device)
    corpus = read_pairs(options.pairs, target_path=options.target_path)
    for line in corpus.summary():
        print(line, file=sys.stderr)
    pairs = [(pair.source, pair.target) for pair in corpus.pairs]
    refused: list[int] = []
    with ExitStack() as files:
        traces = None
        if options.trace:
            path = files.enter_context(whole(options.trace))
            traces = files.enter_context(path.open("w", encoding="utf8"))
        for first in range(0, len(pairs), PAIRS_AT_A_TIME):
            part = pairs[first : first + PAIRS_AT_A_TIME]
            scored = translator.score(part, attention=bool(options.trace))
            for number, target in enumerate(scored, first):
                if target.is_refused:
                    refused.append(corpus.pairs[number].line)
                print(f"{target.score:.4f}\t{target.source}\t{target.text}")
                if options.verbose and target.trace:
                    for step in target.trace.steps:
                        print(f"    {step.log_probability:9.4f}  {step.token}")
                if traces and target.trace:
                    print(target.trace.to_json(), file=traces)
    longest = translator.experiment.search.max_source or MAX_SCORED
    warn_of_refused(
        refused, longest, "no score, because a side is too long; split the pairs into sentences"
    )
    return 1 if refused else 0
