"""`regard caption`: pictures in, a caption for each."""

from __future__ import annotations

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
from regard.config.checks import Beam
from regard.errors import UserError
from regard.files import shortened

if TYPE_CHECKING:
    import numpy as np

    from regard.tasks.captioning.captioner import Captioner


@dataclass(frozen=True)
class Options:
    """Write a caption for every picture, with its name before it. Pictures that cannot be read are
    named and left out."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    pictures: tyro.conf.Positional[tuple[str, ...]]
    """Files of pictures; for a run on drawn scenes also scenes as text."""
    search: SearchFields = field(default_factory=SearchConfig)
    nbest: Beam = 1
    """How many captions for each picture, best first."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Write to this file instead of the terminal."""
    trace: Path | None = None
    """Write a trace of every caption to this file, one JSON object a line."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Caption pictures in their order; 1 where some could not be read."""
    options = parse(Options, arguments, "regard caption")
    if not options.pictures:
        raise UserError("no pictures were named: give at least one file")
    check_different(options.pictures, options.output, options.trace)
    from regard.tasks.captioning.captioner import PICTURES_AT_A_TIME, Captioner

    captioner = Captioner.load(options.run, device=options.device)
    num_read = 0
    with ExitStack() as files:
        written, traces = opened(files, options.output), opened(files, options.trace)
        for names in chunks(options.pictures, PICTURES_AT_A_TIME):
            seen = list(_seen(captioner, names))
            num_read += len(seen)
            captions = captioner.write(
                seen,
                search=options.search,
                num_best=options.nbest,
                attention=traces is not None,
            )
            for (name, _), found in zip(seen, captions, strict=True):
                for each in (found, *found.alternatives):
                    score = f"\t{each.score:.4f}" if options.nbest > 1 else ""
                    print(f"{name}{score}\t{each.text}", file=written)
                if traces is not None and found.trace is not None:
                    print(found.trace.to_json(), file=traces)
    return 1 if num_read < len(options.pictures) else 0


def _seen(captioner: Captioner, names: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    """What the model sees of the pictures that can be read; the others are named."""
    for name, seen in zip(names, captioner.sources.made(names), strict=True):
        if not is_text(name):
            warn(f"the file name {shortened(name)!a} is not UTF-8: rename the file")
        elif isinstance(seen, str):
            warn(seen)
        else:
            yield name, seen
