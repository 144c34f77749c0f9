"""`regard data`: fetch or make pairs, as a file with tabs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from regard.files import make_folder, whole


@dataclass(frozen=True)
class Options:
    """Fetch Tatoeba's English-German pairs, or make pairs: number words, or letters to copy,
    reverse or sort."""

    name: tyro.conf.Positional[Literal["tatoeba", "numbers", "copy", "reverse", "sort"]]
    """What to get."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Where to write it; without it data/NAME.tsv."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """tatoeba: a .txt or .zip that is here already, instead of a download."""
    size: int = 10_000
    """Generated data: how many pairs."""
    seed: int = 1
    """Generated data: of the random choice."""


def run(arguments: list[str]) -> None:
    """Write one file of pairs and say where."""
    options = tyro.cli(Options, args=arguments, prog="regard data")
    output = options.output or Path("data") / f"{options.name}.tsv"
    make_folder(output.parent)
    if options.name == "tatoeba":
        from regard.cli.progress import counting
        from regard.data.sources import tatoeba

        with counting("fetching") as progress:
            corpus = tatoeba.fetch(output, from_path=options.from_, progress=progress)
        for line in corpus.summary():
            print(line)
        count = len(corpus.pairs)
    else:
        from regard.data.generated import generate

        pairs = generate(options.name, options.size, options.seed)
        text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
        with whole(output) as path:
            path.write_text(text, encoding="utf8")
        count = len(pairs)
    print(f"{output}: {count} pairs")
