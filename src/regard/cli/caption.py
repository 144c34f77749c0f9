"""`regard caption`: caption images."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
from regard.errors import UserError
from regard.files import shorten_name
from regard.memory_policy import pause_collection

if TYPE_CHECKING:
    import numpy as np

    from regard.tasks.captioning.model import CaptionModel


HELP_EXAMPLES = (
    ("regard caption runs/captions a.jpg b.jpg", "one caption for each image"),
    (
        "regard caption runs/captions a.jpg --beam 5 -o out.tsv",
        "beam search, into a file",
    ),
)


@dataclass(frozen=True)
class Options:
    """Caption images: a line with name and caption for each. Images that cannot be read are
    reported and left out. Search options default to the run's recipe."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    images: tyro.conf.Positional[tuple[str, ...]]
    """Image files; for a run on generated scenes also scenes as text."""
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
    check_different(options.images, options.output, options.trace)
    with pause_collection():
        from regard.tasks.captioning.model import IMAGES_AT_A_TIME, CaptionModel

    captioner = CaptionModel.load(options.run, device=options.device)
    num_read = 0
    with ExitStack() as files:
        output = opened(files, options.output) or sys.stdout
        traces = opened(files, options.trace)
        for names in chunks(options.images, IMAGES_AT_A_TIME):
            images = list(_read(captioner, names))
            num_read += len(images)
            captions = captioner.generate(
                images,
                search=options.search,
                num_best=options.nbest,
                attention=traces is not None,
            )
            for (name, _), caption in zip(images, captions, strict=True):
                for hypothesis in (caption, *caption.alternatives):
                    score = f"\t{hypothesis.score:.4f}" if options.nbest > 1 else ""
                    print(f"{name}{score}\t{hypothesis.text}", file=output)
                if traces is not None and caption.trace is not None:
                    print(caption.trace.to_json(), file=traces)
            output.flush()
    return 1 if num_read < len(options.images) else 0


def _read(captioner: CaptionModel, names: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the model's inputs for all images that can be read, and report the others."""
    for name, content in zip(names, captioner.sources.contents(names), strict=True):
        if not is_text(name):
            warn(f"the file name {shorten_name(name)!a} is not UTF-8: rename the file")
        elif isinstance(content, str):
            warn(content)
        else:
            yield name, content
