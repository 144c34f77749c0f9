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
    MOSTLY,
    LineInput,
    UnknownWords,
    check_different,
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
    from regard.data.files.lines import LineProblem
    from regard.tasks.generation import GeneratedText
    from regard.tasks.translation.model import TranslationModel

LINES_AT_A_TIME = 1024


HELP_EXAMPLES = (
    ("regard translate runs/letters words.txt", "one translation for each line"),
    (
        "regard translate runs/letters --beam 5 --nbest 3",
        "three translations of each line",
    ),
    ("regard translate runs/letters --follow", "for a program that waits for each line"),
)


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
    follow: bool = False
    """For a program that writes a line and waits for its translation: translate each line by
    itself, report its faults at once, and continue to read a file as it grows."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Translate lines in their order; return 1 if a line is too long."""
    options = parse(Options, arguments, "regard translate")
    check_different([options.file], options.output, options.alignments, options.trace)
    if options.follow and (options.nbest > 1 or options.verbose or options.output):
        raise UserError(
            "--follow prints one line for each input line: leave out --nbest, --verbose and "
            "--output"
        )
    with pause_collection():
        from regard.tasks.translation.model import TranslationModel

    translator = TranslationModel.load(options.run, *options.ensemble, device=options.device)
    if options.alignments and not translator.attends:
        raise UserError(
            f"--alignments is {options.alignments}, but links are attention weights, and the model "
            "has no attention to the source: leave --alignments out"
        )
    faults = _Faults(options, translator)
    unit = options.links or _unit(translator)
    attention = bool(options.alignments or options.trace or options.verbose)
    with ExitStack() as files:
        source = LineInput.open(options.file, files, faults.broken.append, follow=options.follow)
        output = opened(files, options.output) or sys.stdout
        alignments, traces = opened(files, options.alignments), opened(files, options.trace)
        has_features = bool(translator.data.feature_columns)
        lines = source.lines if has_features else _warn_of_tabs(source.lines)
        number = 0
        for chunk in source.available(lines, 1 if options.follow else LINES_AT_A_TIME):
            for translation in translator.translate(
                chunk, search=options.search, num_best=options.nbest, attention=attention
            ):
                if options.verbose:
                    print(_steps(translation), file=output)
                print(_line(translation, number, options.nbest), file=output)
                if alignments:
                    print(_links(translation, unit), file=alignments)
                if traces:
                    print(translation.trace.to_json() if translation.trace else "{}", file=traces)
                number += 1
                faults.add(number, translation)
            output.flush()
            if options.follow:
                faults.warn()
    faults.warn()
    return 1 if faults.num_refused else 0


@dataclass
class _Faults:
    """Lines of the input that were not translated as they are, until `warn` reports them."""

    options: Options
    translator: TranslationModel
    broken: list[LineProblem] = field(default_factory=list)
    long: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    unknown: UnknownWords = field(default_factory=UnknownWords)
    num_refused: int = 0

    def add(self, number: int, translation: GeneratedText) -> None:
        """Add the line with this number, from 1, if its translation reports a fault."""
        if translation.is_refused:
            self.refused.append(number)
            self.num_refused += 1
            return
        if translation.is_long:
            self.long.append(number)
        if translation.unknown > MOSTLY:
            self.unknown.add(number, self.translator.unknown_in(translation.source))

    def warn(self) -> None:
        """Report the lines since the last report."""
        warn_of_problems(self.broken)
        warn_of_long(
            self.long,
            self.translator.data.max_length,
            "they are longer than all training sources, so translations may be poor",
        )
        warn_of_refused(
            self.refused,
            self.translator.max_source(self.options.search),
            "no output (search.max_source); split the lines into sentences, or raise --max-source",
        )
        self.unknown.warn()
        for lines in (self.broken, self.long, self.refused):
            lines.clear()


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
    """Return a line for each step, with the mean attention weights on the source and, of a model
    that copies, the probability to copy; then the text."""
    trace = translation.trace
    if trace is None:
        return f"Generated: {translation.text}"
    maps = [block.weights.mean(axis=(0, 1)) for block in trace.attention if block.kind == "cross"]
    lines = []
    for number, piece in enumerate(trace.target.pieces):
        weights = ", ".join(f"{weight:.3f}" for weight in maps[0][number]) if maps else ""
        copied = trace.steps[number].copied
        gate = "" if copied is None else f", copied: {copied:.3f}"
        lines.append(f"[Step {number}] {piece}, attn: [{weights}]{gate}")
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
