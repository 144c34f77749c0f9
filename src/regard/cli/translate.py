"""`regard translate`: translate lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

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
from regard.config.checks import BeamSize
from regard.errors import UserError
from regard.memory_policy import pause_collection
from regard.names import LinkUnit

if TYPE_CHECKING:
    from regard.tasks.generation import GeneratedText
    from regard.tasks.translation.model import TranslationModel

LINES_AT_A_TIME = 1024


@dataclass(frozen=True)
class Options:
    """Translate each line. A blank line has a blank translation. So does a line of more tokens than
    --max-source; then the exit status is 1. Search options default to the run's recipe."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    file: tyro.conf.Positional[str] = "-"
    """File of sources, one per line; - is the standard input."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write the translations to (default: print them)."""
    search: SearchFields = field(default_factory=SearchConfig)
    nbest: BeamSize = 1
    """Number of translations of each line. With more than one, a line of the output has line
    number TAB score TAB text."""
    alignments: Path | None = None
    """File to write alignment links to, one line per translation, as source-target pairs from 0
    (Pharaoh format)."""
    links: LinkUnit | None = None
    """Units that links connect (default: pieces if the tokens are characters, otherwise words)."""
    trace: Path | None = None
    """File to write the traces of the translations to, a JSON object per line."""
    ensemble: Runs = ()
    """Further runs of an ensemble: the search takes the mean of the probabilities."""
    verbose: bool = False
    """Print each step with its attention weights."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Translate lines in their order; return 1 if a line is too long."""
    options = parse(Options, arguments, "regard translate")
    check_different([options.file], options.output, options.alignments, options.trace)
    with pause_collection():
        from regard.data.files.lines import LineProblem, read_lines
        from regard.tasks.translation.model import TranslationModel

    translator = TranslationModel.load(options.run, *options.ensemble, device=options.device)
    if options.alignments and not translator.attends:
        raise UserError(
            f"--alignments is {options.alignments}, but links are attention weights, and the model "
            "has no attention to the source: leave --alignments out"
        )
    broken: list[LineProblem] = []
    long: list[int] = []
    refused: list[int] = []
    lines = _warn_of_tabs(read_lines(options.file, broken.append))
    unit = options.links or _unit(translator)
    attention = bool(options.alignments or options.trace or options.verbose)
    typed = options.file == "-" and sys.stdin.isatty()
    with ExitStack() as files:
        output = opened(files, options.output) or sys.stdout
        alignments, traces = opened(files, options.alignments), opened(files, options.trace)
        number = 0
        for chunk in chunks(lines, 1 if typed else LINES_AT_A_TIME):
            for translation in translator.translate(
                chunk, search=options.search, num_best=options.nbest, attention=attention
            ):
                if options.verbose:
                    print(_steps(translation), file=output)
                print(_line(translation, number, options.nbest), file=output, flush=typed)
                if alignments:
                    print(_links(translation, unit), file=alignments)
                if traces:
                    print(translation.trace.to_json() if translation.trace else "{}", file=traces)
                number += 1
                if translation.is_refused:
                    refused.append(number)
                elif translation.is_long:
                    long.append(number)
    warn_of_problems(broken)
    outcome = "they are longer than all training sources, so translations may be poor"
    warn_of_long(long, translator.data.max_length, outcome)
    warn_of_refused(
        refused,
        translator.max_source(options.search),
        "no output (search.max_source); split the lines into sentences, or raise --max-source",
    )
    return 1 if refused else 0


def _unit(translator: TranslationModel) -> LinkUnit:
    """Return the default units of links."""
    sides = translator.tokenizers.source, translator.tokenizers.target
    return "pieces" if any(side.settings.kind == "characters" for side in sides) else "words"


def _warn_of_tabs(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, with a warning for the first line that has a tab."""
    warned = False
    for number, line in enumerate(lines, 1):
        if "\t" in line and not warned:
            warn(
                f"line {number} has a tab, but each line is one source: give a file of sources "
                "alone, such as the output of `cut -f 1`"
            )
            warned = True
        yield line


def _line(translation: GeneratedText, number: int, num_best: int) -> str:
    if num_best == 1:
        return translation.text
    return "\n".join(
        f"{number}\t{hypothesis.score:.4f}\t{hypothesis.text}"
        for hypothesis in (translation, *translation.alternatives)
    )


def _steps(translation: GeneratedText) -> str:
    """Return a line for each step, with the mean attention weights on the source, and the text."""
    trace = translation.trace
    if trace is None:
        return f"Generated: {translation.text}"
    maps = [block.weights.mean(axis=(0, 1)) for block in trace.attention if block.kind == "cross"]
    lines = []
    for number, piece in enumerate(trace.target.pieces):
        weights = ", ".join(f"{weight:.3f}" for weight in maps[0][number]) if maps else ""
        lines.append(f"[Step {number}] {piece}, attn: [{weights}]")
    words = ", ".join(repr(piece) for piece in trace.target.pieces)
    return "\n".join([*lines, f"Generated: [{words}]"])


def _links(translation: GeneratedText, unit: LinkUnit) -> str:
    """Return alignment links in Pharaoh format; empty for a blank line."""
    from regard.metrics.alignment import map_links, pharaoh
    from regard.trace import of_kind

    trace = translation.lazy_trace
    if trace is None:
        return ""
    return pharaoh(map_links(of_kind(trace.maps, "cross"), trace.source, trace.target, unit=unit))
