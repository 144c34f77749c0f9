"""`regard score`: how probable given targets are, token by token."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.cli.lines import warn_of_refused
from regard.cli.options import Device, Runs, parse
from regard.files import whole

PAIRS_AT_A_TIME = 1024


@dataclass(frozen=True)
class Options:
    """Print the log probability (natural logarithm) of each pair's target, a line a pair. A pair
    with more than 5,000 tokens on a side (or search.max_source of the run) gets nan, and the exit
    status is 1."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    pairs: tyro.conf.Positional[Path]
    """Pairs: a file with tabs, or the source side of two files."""
    target_path: Path | None = None
    """The target side, where the pairs are in two files."""
    ensemble: Runs = ()
    """Runs that score together with this one, by the mean of their probabilities."""
    trace: Path | None = None
    """Write each pair's tokens, probabilities and attention here, a JSON object a line."""
    verbose: bool = False
    """Print each token's log probability too."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Score given targets; 1 where one of them is too long."""
    options = parse(Options, arguments, "regard score")
    import sys

    from regard.data.text.parallel import read_pairs
    from regard.tasks.translation.translator import MAX_SCORED, Translator

    translator = Translator.load(options.run, *options.ensemble, device=options.device)
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
            for number, each in enumerate(scored, first):
                if each.is_refused:
                    refused.append(corpus.pairs[number].line)
                print(f"{each.score:.4f}\t{each.source}\t{each.text}")
                if options.verbose and each.trace:
                    for step in each.trace.steps:
                        print(f"    {step.log_probability:9.4f}  {step.token}")
                if traces and each.trace:
                    print(each.trace.to_json(), file=traces)
    longest = translator.experiment.search.max_source or MAX_SCORED
    warn_of_refused(refused, longest, "on a side and got no score: cut these pairs into sentences")
    return 1 if refused else 0
