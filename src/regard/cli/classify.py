"""`regard classify`: sources in, as many answers out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from regard.cli import show
from regard.cli.lines import check_different, chunks, opened, warn_of_long, warn_of_problems
from regard.cli.options import Device, parse
from regard.cli.output import warn
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.tasks.classification.classifier import Answer, Classifier

LINES_AT_A_TIME = 512


@dataclass(frozen=True)
class Options:
    """Answer every line of a file: with its label, or with its number. A blank line gets a blank
    answer, as does one that cannot be read, which is named."""

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
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Answer lines in their order; 1 where one of them is not the numbers that it should be."""
    options = parse(Options, arguments, "regard classify")
    check_different([options.file], options.output, options.trace)
    from regard.data.files.lines import LineProblem, read_lines
    from regard.data.files.tables import SEPARATORS, suffix_of
    from regard.tasks.classification.classifier import Classifier

    classifier = Classifier.load(options.run, device=options.device)
    if options.tint and not classifier.attends:
        raise UserError(
            f"--tint shows what an answer looked at, and those of {options.run} look at nothing: "
            "leave it out, or train with model.pool attention"
        )
    if suffix_of(Path(options.file)) in SEPARATORS:
        warn(f"{options.file} is a table: its lines are answered whole. Give texts, a line each")
    broken: list[LineProblem] = []
    long: list[int] = []
    number = refused = 0
    name = "standard input" if options.file == "-" else options.file
    lines = read_lines(options.file, broken.append)
    typed = options.file == "-" and sys.stdin.isatty()
    with ExitStack() as files:
        written = opened(files, options.output) or sys.stdout
        traces = opened(files, options.trace)
        for chunk in chunks(lines, 1 if typed else LINES_AT_A_TIME):
            attention = options.tint or traces is not None
            answers, said = _answers(classifier, chunk, attention)
            for place, why in said.items():
                warn(f"{name}, line {number + place + 1}: {why}")
            refused += len(said)
            for answer in answers:
                number += 1
                if answer.is_long:
                    long.append(number)
                print(_line(answer, options.probabilities), file=written, flush=typed)
                if options.tint and answer.trace is not None:
                    show.tinted(answer.trace)
                if traces:
                    print(answer.trace.to_json() if answer.trace else "{}", file=traces)
    warn_of_problems(broken)
    warn_of_long(long, classifier.data.max_length, "what is beyond was not read")
    return 1 if refused else 0


def _answers(
    classifier: Classifier, lines: list[str], attention: bool
) -> tuple[list[Answer], dict[int, str]]:
    """The answers, blank for lines that cannot be read, and why these cannot, by their places."""
    from regard.tasks.classification.inputs import SourceError

    lines = list(lines)
    refused: dict[int, str] = {}
    while True:
        try:
            return classifier.classify(lines, attention=attention), refused
        except SourceError as error:
            refused[error.place] = str(error)
            lines[error.place] = ""


def _line(answer: Answer, probabilities: bool) -> str:
    if not probabilities:
        return answer.text
    shares = [f"{label} {share:.4f}" for label, share in answer.probabilities]
    return "\t".join([answer.text, *shares])
