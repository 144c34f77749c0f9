"""`regard plot`: a picture of what an output looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from regard.cli import show
from regard.cli.options import Device, Runs, parse
from regard.cli.typed import is_text
from regard.errors import UserError
from regard.names import AttentionKind

if TYPE_CHECKING:
    from regard.tasks.captioning.captioner import Captioner
    from regard.tasks.classification.classifier import Answer, Classifier
    from regard.tasks.translation.translator import Translation, Translator
    from regard.trace import Trace
    from regard.viewing.labels import LabelledMap

    Model = Translator | Classifier | Captioner


@dataclass(frozen=True)
class Options:
    """Translate, classify or caption one source, and draw what the output looked at: a map; of a
    label or a number the sentence, tinted; of a caption the picture, once for every word."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    text: tyro.conf.Positional[str]
    """The source: a text or, where the run captions, the file of a picture."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """A .png, .svg or .pdf file, or .json or .npz for the numbers; without it the picture is drawn
    in the terminal."""
    ensemble: Runs = ()
    """Runs that write together with this one; a picture shows this one's attention."""
    target: str | None = None
    """Look at this target instead of the model's own translation."""
    kind: AttentionKind | None = None
    """Who looks at whom: the output at the source (cross) or at a picture (image), a side at itself
    (encoder, decoder), the output at vectors that are of no source (memory). Without it cross or
    image."""
    layer: int | None = None
    """Draw this layer alone, counted from 1."""
    head: int | None = None
    """Draw this head alone, counted from 1."""
    mean: bool = False
    """Draw the mean of all layers and heads, or of those that are left."""
    cells: bool = False
    """Lay the true cells over a captioned picture, instead of letting each run into its
    neighbours."""
    device: Device = "auto"

    @property
    def keeps_numbers(self) -> bool:
        """Whether the trace is wanted, and no picture of it."""
        return self.output is not None and self.output.suffix in show.NUMBERS


def run(arguments: list[str]) -> None:
    """Draw what one output looked at."""
    options = parse(Options, arguments, "regard plot")
    if options.output is not None:
        show.check_picture(options.output)
    for text in (options.text, options.target or ""):
        if not is_text(text):
            raise UserError(f"{text!a} is not UTF-8: give the text in that encoding")
    from regard.pipeline.load import load

    model = load(options.run, *options.ensemble, device=options.device)
    _check_flags(model, options)
    found = _found(model, options)
    if getattr(found, "is_refused", False):
        raise UserError(
            "the text has too many tokens for this run (search.max_source, by default twice "
            "data.max_length): give a shorter one"
        )
    if found.trace is None:
        raise UserError(f"the text is blank: give something to {model.data.task}")
    draw = _drawing(model, found.trace, options)
    print(found.text)
    draw()
    if options.output is not None:
        print(options.output)


def _check_flags(model: Model, options: Options) -> None:
    """UserError for a flag that says nothing of this kind of run, or of what is drawn of it."""
    from regard.tasks.captioning.captioner import Captioner
    from regard.tasks.classification.classifier import Classifier
    from regard.tasks.translation.translator import Translator

    bare = replace(options, kind=None, layer=None, head=None, mean=False, cells=False)
    if options.keeps_numbers and options != bare:
        raise UserError(
            f"{options.output} keeps the maps of every kind, layer and head: leave out --kind, "
            "--layer, --head, --mean and --cells, or draw a picture"
        )
    on_picture = isinstance(model, Captioner) and options.kind in (None, "image")
    is_sentence = isinstance(model, Classifier) and options.kind in (None, "cross")
    if options.target is not None and not isinstance(model, Translator):
        raise UserError("--target is for runs that translate: leave it out")
    if on_picture and options.output is None:
        raise UserError("a caption's attention is drawn on its picture: name a file with -o")
    if options.cells and not on_picture:
        raise UserError("--cells is for captions that are drawn on their picture: leave it out")
    if options.mean and on_picture:
        raise UserError(
            "--mean is for maps, and what is laid over a picture is the mean already: leave it out"
        )
    if is_sentence and options != replace(options, layer=None, head=None, mean=False):
        raise UserError(
            "--layer, --head and --mean are for maps, and a sentence is tinted by one look alone: "
            "leave them out, or choose another --kind"
        )


def _found(model: Model, options: Options) -> Translation | Answer:
    from regard.tasks.captioning.captioner import Captioner
    from regard.tasks.classification.classifier import Classifier

    if isinstance(model, Captioner):
        return model.caption(options.text)
    if isinstance(model, Classifier):
        return model.classify(options.text)
    if options.target is None:
        return model.translate(options.text)
    return model.score([(options.text, options.target)])[0]


def _drawing(model: Model, trace: Trace, options: Options) -> Callable[[], None]:
    """What draws, or keeps the numbers; UserError where the trace has not what is asked for."""
    from regard.tasks.captioning.captioner import Captioner
    from regard.tasks.classification.classifier import Classifier
    from regard.viewing.labels import LabelledMap

    output = options.output
    if output is not None and options.keeps_numbers:
        return partial(trace.save, output)
    kind = options.kind or ("image" if isinstance(model, Captioner) else "cross")
    _check_kind(kind, trace, options)
    if isinstance(model, Captioner) and kind == "image" and output is not None:
        looks = LabelledMap.of_words(trace, kind).part(options.layer, options.head)
        picture = model.sources.show(options.text)
        return partial(show.save_overlay, looks, picture, output, smooth=not options.cells)
    if isinstance(model, Classifier) and kind == "cross":
        return (
            partial(show.tinted, trace)
            if output is None
            else partial(show.save_sentence, trace, output)
        )
    drawn = _map(kind, trace, options)
    return (
        partial(show.attention_map, drawn)
        if output is None
        else partial(show.save_picture, drawn, output)
    )


def _check_kind(kind: AttentionKind, trace: Trace, options: Options) -> None:
    kinds = list(dict.fromkeys(each.kind for each in trace.attention))
    if kind not in kinds:
        there = f"has no attention of kind {kind}, but {', '.join(kinds)}"
        without = "is a model without attention: there is nothing to draw"
        raise UserError(f"{options.run} {there if kinds else without}")


def _map(kind: AttentionKind, trace: Trace, options: Options) -> LabelledMap:
    from regard.viewing.labels import LabelledMap

    every = LabelledMap.of_trace(trace, kind)
    if kind != "cross":
        every = replace(every, title=kind)
    chosen = every.part(options.layer, options.head)
    return chosen.averaged() if options.mean else chosen
