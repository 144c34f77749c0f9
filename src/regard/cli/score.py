"""`regard score`: how probable given targets are, token by token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.files import whole


@dataclass(frozen=True)
class Options:
    """Print the log probability (natural logarithm) of each pair's target, a line a pair."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    pairs: tyro.conf.Positional[Path]
    """Pairs: a file with tabs, or the source side of two files."""
    target_path: Path | None = None
    """The target side, where the pairs are in two files."""
    trace: Path | None = None
    """Write each pair's tokens, probabilities and attention here, a JSON object a line."""
    verbose: bool = False
    """Print each token's log probability too."""


def run(arguments: list[str]) -> None:
    """Score given targets."""
    options = tyro.cli(Options, args=arguments, prog="regard score")
    import sys

    from regard.data.text import read_pairs
    from regard.pipeline.translator import Translator

    translator = Translator.load(options.run)
    corpus = read_pairs(options.pairs, target_path=options.target_path)
    for line in corpus.summary():
        print(line, file=sys.stderr)
    scored = translator.score([(pair.source, pair.target) for pair in corpus.pairs])
    for each in scored:
        print(f"{each.score:.4f}\t{each.source}\t{each.text}")
        if options.verbose and each.trace:
            for step in each.trace.steps:
                print(f"    {step.log_probability:9.4f}  {step.token}")
    if options.trace:
        lines = (each.trace.to_json() for each in scored if each.trace)
        with whole(options.trace) as path:
            path.write_text("\n".join(lines) + "\n", encoding="utf8")
