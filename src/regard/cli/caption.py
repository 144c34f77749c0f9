"""`regard caption`: caption images."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from regard.cli.lines import check_different, chunks, opened
from regard.cli.options import Device
from regard.cli.output import warn
from regard.cli.searching import SearchFields, parse
from regard.cli.typed import is_text
from regard.config import SearchConfig
from regard.config.checks import BeamSize
from regard.data.files.columns import IMAGE
from regard.errors import UserError
from regard.files import shorten_name
from regard.memory_policy import pause_collection

if TYPE_CHECKING:
    import numpy as np

    from regard.tasks.captioning.model import CaptionModel


SHOWN = 3
"""Number of images of a folder in one message."""
HELP_EXAMPLES = (
    ("regard caption runs/captions a.jpg b.jpg", "one caption for each image"),
    ("regard caption runs/captions photos", "all images of a folder"),
    (
        "regard caption runs/captions a.jpg --beam 5 -o out.tsv",
        "beam search, into a file",
    ),
)


@dataclass(frozen=True)
class Options:
    """Caption images: a line with name and caption for each. All images of a folder are captioned,
    sorted by name. Images that cannot be read are reported and left out, and the exit status is 1.
    Search options default to the run's recipe."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    images: tyro.conf.Positional[tuple[str, ...]]
    """Image files, or folders of images; for a run on generated scenes also scenes as text."""
    search: SearchFields = field(default_factory=SearchConfig)
    nbest: BeamSize = 1
    """Number of captions for each image, best first."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """File to write the captions to (default: print them)."""
    trace: Path | None = None
    """File to write the traces of the captions to, a JSON object per line."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Caption images in their order; return 1 if some cannot be read."""
    options = parse(Options, arguments, "regard caption")
    if not options.images:
        raise UserError("no images: name at least one image file")
    images = [name for argument in options.images for name in _images(argument)]
    check_different(images, options.output, options.trace)
    with pause_collection():
        from regard.tasks.captioning.model import IMAGES_AT_A_TIME, CaptionModel

    captioner = CaptionModel.load(options.run, device=options.device)
    num_read, unread = 0, Unread(frozenset(images) - frozenset(options.images))
    with ExitStack() as files:
        output = opened(files, options.output) or sys.stdout
        traces = opened(files, options.trace)
        for names in chunks(images, IMAGES_AT_A_TIME):
            contents = list(_read(captioner, names, unread))
            num_read += len(contents)
            captions = captioner.generate(
                contents,
                search=options.search,
                num_best=options.nbest,
                attention=traces is not None,
            )
            for (name, _), caption in zip(contents, captions, strict=True):
                for hypothesis in (caption, *caption.alternatives):
                    score = f"\t{hypothesis.score:.4f}" if options.nbest > 1 else ""
                    print(f"{name}{score}\t{hypothesis.text}", file=output)
                if traces is not None and caption.trace is not None:
                    print(caption.trace.to_json(), file=traces)
            output.flush()
    unread.warn()
    return 1 if num_read < len(images) else 0


def _images(name: str) -> list[str]:
    """Return the images of a folder, sorted, or the name itself. UserError for a folder without
    images."""
    folder = Path(name)
    try:
        if not folder.is_dir():
            return [name]
        files = [file for file in folder.iterdir() if file.is_file() and IMAGE.search(file.name)]
    except (OSError, ValueError):  # a description of a scene can be too long for a name
        return [name]
    if not files:
        raise UserError(
            f"{shorten_name(folder)} has no images: expected files such as .jpg or .png"
        )
    return sorted(map(str, files))


@dataclass
class Unread:
    """Images that cannot be read. Those of a folder are reported together."""

    of_folders: Container[str]
    messages: list[str] = field(default_factory=list)

    def add(self, name: str, message: str) -> None:
        """Report an image, or note it if it is from a folder."""
        if name in self.of_folders:
            self.messages.append(message)
        else:
            warn(message)

    def warn(self) -> None:
        """Report the images of folders in one line."""
        if not self.messages:
            return
        number = len(self.messages)
        more = f" and {number - SHOWN} more" if number > SHOWN else ""
        noun = "1 image" if number == 1 else f"{number} images"
        warn(f"left out {noun}: {'; '.join(self.messages[:SHOWN])}{more}")


def _read(
    captioner: CaptionModel, names: list[str], unread: Unread
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the model's inputs for all images that can be read, and report the others."""
    for name, content in zip(names, captioner.sources.contents(names), strict=True):
        if not is_text(name):
            unread.add(name, f"the file name {shorten_name(name)!a} is not UTF-8: rename the file")
        elif isinstance(content, str):
            unread.add(name, content)
        else:
            yield name, content
