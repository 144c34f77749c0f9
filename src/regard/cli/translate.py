"""`regard translate`: lines in, as many lines out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from regard.cli import show
from regard.cli.lines import (
    check_different,
    chunks,
    opened,
    warn_of_long,
    warn_of_problems,
    warn_of_refused,
)
from regard.cli.options import Device, Runs
from regard.cli.output import warn
from regard.cli.searching import SearchFields, parse
from regard.config import SearchConfig
from regard.config.checks import Beam
from regard.names import LinkUnit

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translation, Translator

LINES_AT_A_TIME = 1024


@dataclass(frozen=True)
class Options:
    """Translate a file, or what is typed or piped in. A blank line gives a blank line, as does a
    line of more tokens than --max-source; then the exit status is 1. Options of the search default
    to the run's recipe."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    file: tyro.conf.Positional[str] = "-"
    """A file of text, one sentence a line; - is the standard input."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Write the translations here instead of printing them."""
    search: SearchFields = field(default_factory=SearchConfig)
    nbest: Beam = 1
    """Print so many for each line, as line number, score and text with tabs between."""
    alignments: Path | None = None
    """Write links here, a line each, as source-target pairs from 0 (Pharaoh format)."""
    links: LinkUnit | None = None
    """What links join: words, or pieces. Without it pieces where a recipe cuts to characters, else
    words."""
    trace: Path | None = None
    """Write all that each output looked at here, a JSON object a line."""
    ensemble: Runs = ()
    """Runs that write together with this one: the mean of their probabilities is searched."""
    verbose: bool = False
    """Print each step with its attention."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Translate lines in their order; 1 where one of them is too long."""
    options = parse(Options, arguments, "regard translate")
    check_different([options.file], options.output, options.alignments, options.trace)
    from regard.data.files.lines import LineProblem, read_lines
    from regard.tasks.translation.translator import Translator

    translator = Translator.load(options.run, *options.ensemble, device=options.device)
    broken: list[LineProblem] = []
    long: list[int] = []
    refused: list[int] = []
    lines = _warning_of_tabs(read_lines(options.file, broken.append))
    unit = options.links or _unit(translator)
    attention = bool(options.alignments or options.trace or options.verbose)
    typed = options.file == "-" and sys.stdin.isatty()
    with ExitStack() as files:
        written = opened(files, options.output) or sys.stdout
        alignments, traces = opened(files, options.alignments), opened(files, options.trace)
        number = 0
        for chunk in chunks(lines, 1 if typed else LINES_AT_A_TIME):
            for translation in translator.translate(
                chunk, search=options.search, num_best=options.nbest, attention=attention
            ):
                if options.verbose:
                    print(show.steps(translation), file=written)
                print(_line(translation, number, options.nbest), file=written, flush=typed)
                if alignments:
                    print(show.links(translation, unit), file=alignments)
                if traces:
                    print(translation.trace.to_json() if translation.trace else "{}", file=traces)
                number += 1
                if translation.is_refused:
                    refused.append(number)
                elif translation.is_long:
                    long.append(number)
    warn_of_problems(broken)
    outcome = "the model never learned from any so long, and may lose its way"
    warn_of_long(long, translator.data.max_length, outcome)
    warn_of_refused(
        refused,
        translator.max_source(options.search),
        "(search.max_source) and got no output: cut them into sentences, or raise --max-source",
    )
    return 1 if refused else 0


def _unit(translator: Translator) -> LinkUnit:
    """What links join where nobody says it."""
    sides = translator.tokenizers.source, translator.tokenizers.target
    return "pieces" if any(side.settings.kind == "characters" for side in sides) else "words"


def _warning_of_tabs(lines: Iterable[str]) -> Iterator[str]:
    warned = False
    for number, line in enumerate(lines, 1):
        if "\t" in line and not warned:
            warn(
                f"line {number} has a tab: lines are translated whole, whatever their columns. "
                "Give sources alone, as `cut -f 1` does"
            )
            warned = True
        yield line


def _line(translation: Translation, number: int, num_best: int) -> str:
    if num_best == 1:
        return translation.text
    return "\n".join(
        f"{number}\t{each.score:.4f}\t{each.text}"
        for each in (translation, *translation.alternatives)
    )
