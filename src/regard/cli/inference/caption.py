"""`regard caption`: caption images."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from regard.cli.inference.bulk import BulkOptions, check_bulk, run_job
from regard.cli.output import check_different
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, check_task
from regard.cli.parsing.searching import parse
from regard.config import SearchConfig
from regard.config.checks import BeamSize
from regard.errors import UserError
from regard.inference.captioning import CaptionJob, images_in
from regard.inference.loop import Outputs
from regard.inference.tables import check_lines_output

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

    run: Positional[Path]
    """Run folder."""
    images: Positional[tuple[str, ...]]
    """Image files, or folders of images; for a run on generated scenes also scenes as text."""
    search: SearchConfig = field(default_factory=SearchConfig)
    prefix: str | None = None
    """Text that each caption begins with."""
    nbest: BeamSize = 1
    """Number of captions for each image, best first."""
    output: Path | None = None
    """File to write the captions to (default: print them)."""
    trace: Path | None = None
    """File to write the traces of the captions to, a JSON object per line."""
    device: Device = "auto"
    bulk: BulkOptions = field(default_factory=BulkOptions)


def run(arguments: list[str]) -> int:
    """Caption images in their order; return 1 if some cannot be read."""
    options = parse(Options, arguments, "regard caption")
    if not options.images:
        raise UserError("no images: name at least one image file")
    images = [name for argument in options.images for name in images_in(argument)]
    check_different(images, options.output, options.trace)
    check_lines_output(options.output, "each line of the output has an image TAB caption")
    check_task(options.run, "caption")
    check_bulk(options.bulk, images, options.output)
    job = CaptionJob(
        options.run,
        tuple(images),
        frozenset(options.images),
        Outputs(options.output, trace=options.trace),
        options.search,
        options.nbest,
        options.prefix,
        options.device,
    )
    faults = run_job("caption", job, options, images)
    return 1 if faults.num_refused else 0
