"""`regard data`: download or generate data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from regard.cli.options import parse
from regard.config.checks import NumExamples, Seed
from regard.files import make_folder, whole
from regard.names import Dataset


@dataclass(frozen=True)
class Options:
    """Download Tatoeba's English-German pairs, or generate data: number words; letters to copy,
    reverse or sort; baskets with drinks; series with a mark; or images of shapes with captions."""

    name: tyro.conf.Positional[Dataset]
    """Data to download or generate."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write, or folder of shapes (default: data/NAME.tsv or data/shapes)."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """tatoeba: a downloaded .txt or .zip file, instead of a download."""
    size: NumExamples = 10_000
    """Generated data: number of pairs or images."""
    seed: Seed = 1
    """Generated data: random seed."""


def run(arguments: list[str]) -> None:
    """Write one file of pairs and print its name."""
    options = parse(Options, arguments, "regard data")
    if options.name == "shapes":
        _shapes(options.output or Path("data") / "shapes", options)
        return
    output = options.output or Path("data") / f"{options.name}.tsv"
    make_folder(output.parent)
    if options.name == "tatoeba":
        from regard.cli.progress import counting
        from regard.data.download import tatoeba

        with counting("downloading") as progress:
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


def _shapes(folder: Path, options: Options) -> None:
    """Write images, captions.csv with five captions for each image, and scenes.tsv with the
    description of each scene."""
    from regard.cli.progress import counting
    from regard.data.generated.scenes import captions, draw, scenes

    make_folder(folder)
    images = scenes(options.size, options.seed)
    names = [f"{number:06d}.png" for number in range(1, len(images) + 1)]
    with counting("drawing") as progress:
        for number, (name, scene) in enumerate(zip(names, images, strict=True), start=1):
            with whole(folder / name) as path:
                draw(scene).save(path, format="PNG")
            progress(number, len(images))
    named_scenes = list(zip(names, images, strict=True))
    rows = [f'{name},"{caption}"' for name, scene in named_scenes for caption in captions(scene)]
    with whole(folder / "scenes.tsv") as path:
        path.write_text(
            "".join(f"{name}\t{scene}\n" for name, scene in named_scenes), encoding="utf8"
        )
    with whole(folder / "captions.csv") as path:
        path.write_text("\n".join(["file,caption", *rows]) + "\n", encoding="utf8")
    print(f"{folder / 'captions.csv'}: {len(images)} images, {len(rows)} captions")
