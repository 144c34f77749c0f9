"""`regard export`: convert a run for another engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.cli.output import say
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import parse
from regard.names import Engine


@dataclass(frozen=True)
class Options:
    """Convert a run for another engine, with its tokenizers and all settings that translating
    needs. Requires the extra `export`."""

    run: Positional[Path]
    """Run folder."""
    to: Engine
    """Format: onnx for recurrent models, ctranslate2 for Transformers."""
    output: Path | None = None
    """Folder to write to (default: RUN/onnx or RUN/ctranslate2)."""


def run(arguments: list[str]) -> None:
    """Write the files and print their names."""
    options = parse(Options, arguments, "regard export")
    from regard.pipeline.export import export

    folder = options.output or options.run / options.to
    names = export(options.run, options.to, folder)
    say(f"{folder}: {', '.join(names)}")
