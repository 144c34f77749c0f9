"""`regard data`: download or generate data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import parse
from regard.config.checks import NumExamples, Seed
from regard.errors import UserError
from regard.names import (
    Dataset,
    Download,
    Example,
    ExampleTable,
    GeneratedLabels,
    GeneratedPairs,
)
from regard.storage.files import make_folder, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.data.generated.scenes import Scene

SIZE = 10_000
"""Default number of pairs or images, except of the example files."""
EXAMPLES: dict[Example, tuple[str, int, str]] = {
    "letters": ("letters.csv", 2000, "Greek words in Latin letters"),
    "words": ("words.tsv", 5000, "dates and times in figures, as they are spoken"),
    "labels": ("labels.csv", 1200, "requests to an assistant, with their intents"),
    "captions": ("captions", 300, "images of a shape, with captions"),
    "values": ("values.csv", 2000, "series of readings, with the highest of each"),
    "inflection": ("inflection.csv", 2000, "nouns with case and number, and their forms"),
}
"""File or folder of each example, its default size and its contents."""
FEATURES = {"inflection": " --data.feature-columns case number"}
"""Options that train an example whose sources have features."""
OTHERS = {
    "tatoeba": "English and German sentences of Tatoeba; downloaded",
    "numbers": "English number words to German ones",
    "copy": "letters to the same letters",
    "reverse": "letters to the same letters in reverse order",
    "sort": "letters to the same letters in alphabetical order",
    "drinks": "products with prices to the mean price of the drinks",
    "drinks-total": "products with prices to the total price of the drinks",
    "series": "series with a mark to the marked number",
    "shapes": "images of one to three shapes with captions",
}
"""Contents of the other data."""


@dataclass(frozen=True)
class Options:
    """Generate an example file for the recipe of this name (letters, words, labels, captions or
    values) or for features of the source (inflection), download Tatoeba's English-German pairs, or
    generate the data of a recipe. Without arguments, list the data by task."""

    name: Positional[Dataset]
    """Data to download or generate."""
    output: Path | None = None
    """File to write, or folder of images (default: data/NAME with the suffix of its format)."""
    from_: Path | None = None
    """tatoeba: a downloaded .txt or .zip file, instead of a download."""
    size: NumExamples | None = None
    """Generated data: number of examples (default: 10,000; of an example file, enough for its
    recipe)."""
    seed: Seed = 1
    """Generated data: random seed."""


def run(arguments: list[str]) -> None:
    """Write one file of examples and print its name, or list the data."""
    if not arguments:
        print("\n".join(_list()))
        return
    options = parse(Options, arguments, "regard data")
    match options.name:
        case "shapes" | "captions":
            _images(options)
        case "letters" | "words" | "labels" | "values" | "inflection":
            _table(options.name, options)
        case _:
            _pairs(options.name, options)


def _list() -> list[str]:
    """Return the lines of the list: the examples with their commands, and the other data."""
    lines = ["Example files, with the commands that train them:"]
    for name, (file, size, title) in EXAMPLES.items():
        path = Path("data") / file
        table = path / "captions.csv" if name == "captions" else path
        lines += [
            f"  {name:10} {title} ({size:,})",
            f"  {'':10} regard data {name} && regard train {table}{FEATURES.get(name, '')}",
        ]
    lines += ["", "Data of the other recipes:"]
    lines += [f"  {name:10} {title}" for name, title in OTHERS.items()]
    return [
        *lines,
        "",
        "`regard data NAME` writes the data to data/; `regard data --help` lists the options.",
    ]


def _output(options: Options) -> Path:
    """Return the file or folder to write. UserError for a file of another format."""
    file = EXAMPLES[options.name][0] if options.name in EXAMPLES else f"{options.name}.tsv"
    default = Path("data") / ("shapes" if options.name == "shapes" else file)
    suffixes = (".csv", ".tsv", ".txt") if options.name in EXAMPLES else (".tsv", ".txt")
    output, is_file = options.output or default, options.name not in ("shapes", "captions")
    if is_file and output.suffix and output.suffix not in suffixes:
        raise UserError(f"--output is {output}: expected a file {' or '.join(suffixes)}")
    return output


def _size(options: Options) -> int:
    default = EXAMPLES[options.name][1] if options.name in EXAMPLES else SIZE
    return options.size or default


def _table(name: ExampleTable, options: Options) -> None:
    """Write an example file and print the command that trains it."""
    from regard.data.generated.example_files import example_file

    output = _output(options)
    file = example_file(name, _size(options), options.seed)
    make_folder(output.parent)
    delimiter = "\t" if output.suffix in (".tsv", ".txt") else None
    with whole(output) as path:
        path.write_text(file.text(delimiter), encoding="utf8")
    command = f"regard train {output}{FEATURES.get(name, '')}"
    print(f"{output}: {file.num_examples:,} examples; train it: {command}")


def _pairs(name: Download | GeneratedPairs | GeneratedLabels, options: Options) -> None:
    """Write a file of SOURCE TAB TARGET."""
    output = _output(options)
    make_folder(output.parent)
    if name == "tatoeba":
        from regard.cli.progress import counting
        from regard.data.download import tatoeba

        with counting("downloading") as progress:
            corpus = tatoeba.fetch(output, from_path=options.from_, progress=progress)
        for line in corpus.summary():
            print(line)
        count = len(corpus.pairs)
    else:
        from regard.data.generated import generate

        pairs = generate(name, _size(options), options.seed)
        text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
        with whole(output) as path:
            path.write_text(text, encoding="utf8")
        count = len(pairs)
    print(f"{output}: {count} pairs")


def _images(options: Options) -> None:
    """Write images, captions.csv with five captions for each image, and scenes.tsv with the
    description of each scene."""
    from regard.cli.progress import counting
    from regard.data.generated.scenes import captions, draw

    folder = _output(options)
    scenes = _scenes(options)
    make_folder(folder)
    names = [f"{number:06d}.png" for number in range(1, len(scenes) + 1)]
    with counting("drawing") as progress:
        for number, (name, scene) in enumerate(zip(names, scenes, strict=True), start=1):
            with whole(folder / name) as path:
                draw(scene).save(path, format="PNG")
            progress(number, len(scenes))
    named_scenes = list(zip(names, scenes, strict=True))
    rows = [f'{name},"{caption}"' for name, scene in named_scenes for caption in captions(scene)]
    with whole(folder / "scenes.tsv") as path:
        path.write_text(
            "".join(f"{name}\t{scene}\n" for name, scene in named_scenes), encoding="utf8"
        )
    table = folder / "captions.csv"
    with whole(table) as path:
        path.write_text("\n".join(["file,caption", *rows]) + "\n", encoding="utf8")
    command = f"; train it: regard train {table}" if options.name == "captions" else ""
    print(f"{table}: {len(scenes)} images, {len(rows)} captions{command}")


def _scenes(options: Options) -> Sequence[Scene]:
    """Return the scenes to draw: of one shape for the example file, otherwise of one to three."""
    from regard.data.generated.scenes import NUMBERS, scenes

    num_shapes = (1,) if options.name == "captions" else NUMBERS
    return scenes(_size(options), options.seed, num_shapes)
