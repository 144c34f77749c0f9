"""`regard classify`: sources in, as many answers out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from regard.cli import show
from regard.cli.lines import chunks, opened, warn_of_broken, warn_of_long

if TYPE_CHECKING:
    from regard.pipeline.classifier import Answer

LINES_AT_A_TIME = 512


@dataclass(frozen=True)
class Options:
    """Answer every line of a file: with its label, or with its number. A blank line gets a blank
    answer."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    file: tyro.conf.Positional[str] = "-"
    """The sources, a line each; - is the standard input."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Where to write; without it to the terminal."""
    probabilities: bool = False
    """Print every label with its probability behind the answer, the likeliest first."""
    tint: bool = False
    """Print the source too, each piece in the shade of what the answer took of it."""
    trace: Path | None = None
    """Write a trace of every answer to this file, one JSON object a line."""


def run(arguments: list[str]) -> None:
    """Answer lines in their order."""
    options = tyro.cli(Options, args=arguments, prog="regard classify")
    from regard.data.lines import Problem, read_lines
    from regard.pipeline.classifier import Classifier

    classifier = Classifier.load(options.run)
    broken: list[Problem] = []
    long: list[int] = []
    number = 0
    lines = read_lines(options.file, broken.append)
    typed = options.file == "-" and sys.stdin.isatty()
    with ExitStack() as files:
        written = opened(files, options.output) or sys.stdout
        traces = opened(files, options.trace)
        for chunk in chunks(lines, 1 if typed else LINES_AT_A_TIME):
            attention = options.tint or traces is not None
            for answer in classifier.classify(chunk, attention=attention):
                number += 1
                if answer.is_long:
                    long.append(number)
                print(_line(answer, options.probabilities), file=written, flush=typed)
                if options.tint and answer.trace is not None:
                    show.tinted(answer.trace)
                if traces:
                    print(answer.trace.to_json() if answer.trace else "{}", file=traces)
    warn_of_broken(broken)
    warn_of_long(long, classifier.data.max_length, "what is beyond was not read")


def _line(answer: Answer, probabilities: bool) -> str:
    if not probabilities:
        return answer.text
    shares = [f"{label} {share:.4f}" for label, share in answer.probabilities]
    return "\t".join([answer.text, *shares])
