"""`regard export`: a run in the files of another engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from regard.cli.options import parse
from regard.cli.output import say
from regard.names import Engine


@dataclass(frozen=True)
class Options:
    """Write a run for another engine into a new folder, with its tokenizers and what else it takes
    to translate there. Needs the extra `export`."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    to: Engine
    """onnx for recurrent models, ctranslate2 for Transformers."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The new folder; without it, RUN/onnx or RUN/ctranslate2."""


def run(arguments: list[str]) -> None:
    """Write the files and name them."""
    options = parse(Options, arguments, "regard export")
    from regard.pipeline.export import export

    folder = options.output or options.run / options.to
    names = export(options.run, options.to, folder)
    say(f"{folder}: {', '.join(names)}")
