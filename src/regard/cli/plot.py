"""`regard plot`: a picture of what a translation looked at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from regard.cli import show
from regard.errors import UserError


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


def run(arguments: list[str]) -> None:
    """Draw one attention map."""
    options = tyro.cli(Options, args=arguments, prog="regard plot")
    if options.output is not None:
        show.check_picture(options.output)
    for text in (options.text, options.target or ""):
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise UserError(f"{text!a} is not UTF-8: give the text in that encoding")
    from regard.pipeline.translator import Translator

    translator = Translator.load(options.run, *options.ensemble)
    if options.target is None:
        result = translator.translate([options.text])[0]
    else:
        result = translator.score([(options.text, options.target)])[0]
    if result.trace is None:
        raise UserError("the text is blank: give something to translate")
    print(result.text)
    if not any(each.kind == "cross" for each in result.trace.attention):
        raise UserError(f"{options.run} is a model without attention: there is nothing to draw")
    if options.output is None:
        show.attention_map(result.trace)
    else:
        show.save_picture(result.trace, options.output)
        print(options.output)
