"""`regard plot`: a picture of what a translation looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from regard.cli import show
from regard.cli.typed import is_text
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.pipeline.captioner import Captioner
    from regard.pipeline.classifier import Classifier
    from regard.trace import Trace
    from regard.viewing.labels import LabelledMap


@dataclass(frozen=True)
class Options:
    """Translate one text, or take its target as given, and draw the attention."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    text: tyro.conf.Positional[str]
    """The source."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """A .png, .svg or .pdf file, or .json or .npz for the numbers; without it the picture is drawn
    in the terminal."""
    ensemble: tuple[Path, ...] = ()
    """Runs that write together with this one; a picture shows this one's attention."""
    target: str | None = None
    """Look at this target instead of the model's own."""
    kind: Literal["cross", "encoder", "decoder"] = "cross"
    """Who looks at whom: the target at the source (cross), or a side at itself."""
    layer: int | None = None
    """Draw this layer alone, counted from 1."""
    head: int | None = None
    """Draw this head alone, counted from 1."""
    mean: bool = False
    """Draw the mean of all layers and heads, or of those that are left."""
    cells: bool = False
    """Lay the true cells over a captioned picture, instead of letting each run into its
    neighbours."""


def run(arguments: list[str]) -> None:
    """Draw one attention map."""
    options = tyro.cli(Options, args=arguments, prog="regard plot")
    if options.output is not None:
        show.check_picture(options.output)
        _check_whole(options, options.output)
    for text in (options.text, options.target or ""):
        if not is_text(text):
            raise UserError(f"{text!a} is not UTF-8: give the text in that encoding")
    from regard.pipeline.captioner import Captioner
    from regard.pipeline.loading import load
    from regard.pipeline.translator import Translator

    model = load(options.run, *options.ensemble)
    if isinstance(model, Captioner):
        _plot_caption(model, options)
        return
    if options.cells:
        raise UserError("--cells is for runs that caption pictures: leave it out")
    if not isinstance(model, Translator):
        _plot_answer(model, options)
        return
    translator = model
    if options.target is None:
        result = translator.translate([options.text])[0]
    else:
        result = translator.score([(options.text, options.target)])[0]
    if result.trace is None:
        raise UserError("the text is blank: give something to translate")
    print(result.text)
    _check_kind(options, result.trace)
    _keep(result.trace, options, _draw)


def _check_kind(options: Options, trace: Trace) -> None:
    kinds = [each.kind for each in trace.attention]
    if options.kind not in kinds:
        there = f"has no attention of kind {options.kind}, but {', '.join(kinds)}"
        without = "is a model without attention: there is nothing to draw"
        raise UserError(f"{options.run} {there if kinds else without}")


def _keep(trace: Trace, options: Options, draw: Callable[[Trace, Options], None]) -> None:
    """The numbers where they are asked for, else what is drawn; and the name of the file."""
    if options.output is not None and options.output.suffix in show.NUMBERS:
        trace.save(options.output)
    else:
        draw(trace, options)
    if options.output is not None:
        print(options.output)


def _draw(trace: Trace, options: Options) -> None:
    """A map, in the terminal or as a picture."""
    if options.output is None:
        show.attention_map(_map(trace, options))
    else:
        show.save_picture(_map(trace, options), options.output)


def _plot_answer(classifier: Classifier, options: Options) -> None:
    """A sentence, tinted by what its answer took of it; or a map of the encoder's."""
    answer = classifier.classify(options.text)
    if answer.trace is None:
        raise UserError("the text is blank: give something to answer")
    if options.target is not None:
        raise UserError("--target is for runs that write texts: leave it out")
    print(answer.text)
    _check_kind(options, answer.trace)
    _keep(answer.trace, options, _draw_sentence if options.kind == "cross" else _draw)


def _draw_sentence(trace: Trace, options: Options) -> None:
    if options.output is None:
        show.tinted(trace)
    else:
        show.save_sentence(trace, options.output)


def _plot_caption(captioner: Captioner, options: Options) -> None:
    """A picture for every word, with what the word looked at."""
    if options.target is not None:
        raise UserError("--target is for runs that translate: leave it out")
    found = captioner.caption(options.text)
    trace = found.trace
    if trace is None or options.output is None:
        raise UserError("a caption's attention is drawn on its picture: name a file with -o")
    output = options.output

    def draw(trace: Trace, options: Options) -> None:
        picture = captioner.sources.read(options.text)
        show.save_overlay(trace, picture, output, smooth=not options.cells)

    print(found.text)
    _keep(trace, options, draw)


def _map(trace: Trace, options: Options) -> LabelledMap:
    from regard.viewing.labels import LabelledMap

    every = LabelledMap.of_trace(trace, options.kind)
    if options.kind != "cross":
        every = replace(every, title=options.kind)
    chosen = every.part(options.layer, options.head)
    return chosen.averaged() if options.mean else chosen


def _check_whole(options: Options, output: Path) -> None:
    usual = Options(options.run, options.text, output, options.ensemble, options.target)
    if output.suffix in show.NUMBERS and options != usual:
        raise UserError(
            f"{output} keeps the maps of every kind, layer and head: leave out --kind, --layer, "
            "--head and --mean, or draw a picture"
        )
