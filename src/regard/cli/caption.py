"""`regard caption`: caption images."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.bulk import BulkOptions, ClusterRun, check_bulk, part_of
from regard.cli.lines import check_different, chunks, opened, warn_of_cut
from regard.cli.output import warn
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import Device, check_task
from regard.cli.parsing.searching import parse
from regard.cli.parsing.typed import is_text
from regard.cli.progress import OnFinished, counting_outputs
from regard.cli.table_rows import check_lines_output
from regard.config import SearchConfig
from regard.config.checks import BeamSize
from regard.data.recognition.columns import IMAGE
from regard.errors import UserError, listed
from regard.runtime.memory_policy import pause_collection
from regard.storage.files import shorten_name

if TYPE_CHECKING:
    import numpy as np

    from regard.inference.parts import Items, Part
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
    images = [name for argument in options.images for name in _images(argument)]
    check_different(images, options.output, options.trace)
    check_lines_output(options.output, "each line of the output has an image TAB caption")
    check_task(options.run, "caption")
    check_bulk(options.bulk, images, options.output)
    job = CaptionJob(options, tuple(images))
    if options.bulk.cluster is not None:
        from regard.tasks.captioning.model import IMAGES_AT_A_TIME

        outputs = options.output, options.trace
        cluster = ClusterRun("caption", options, [options.run], images, outputs, are_many=True)
        faults = CaptionFaults(**cluster.of_items(job, job.items(), IMAGES_AT_A_TIME))
    else:
        captioning = job.open()
        part = part_of(options.bulk, "", None, captioning.images)
        with counting_outputs("captioned", options.output) as on_finished:
            faults = captioning.caption(part, options, on_finished)
    faults.warn()
    return 1 if faults.num_unread else 0


@dataclass(frozen=True)
class CaptionJob:
    """Captions of images, in parts."""

    options: Options
    images: tuple[str, ...]

    def items(self) -> Items[str]:
        """Return the names of the images."""
        from regard.inference.parts import Items

        return Items(lambda: iter(self.images))

    def open(self) -> Captioning:
        """Load the model."""
        with pause_collection():
            from regard.tasks.captioning.model import CaptionModel

        captioner = CaptionModel.load(self.options.run, device=self.options.device)
        return Captioning(self.options, captioner, self.items())


@dataclass
class Captioning:
    """A model with the images that it captions."""

    options: Options
    captioner: CaptionModel
    images: Items[str]

    def run(self, part: Part, outputs: Sequence[Path | None]) -> Mapping[str, Any]:
        """Write the captions and traces of a part to these files, and return its faults."""
        output, trace = outputs
        return asdict(self.caption(part, replace(self.options, output=output, trace=trace)))

    def caption(
        self, part: Part | None, options: Options, on_finished: OnFinished = lambda _: None
    ) -> CaptionFaults:
        """Caption a part of the images, or all of them, into the files of the options.
        `on_finished` takes the number of images of each chunk."""
        from regard.tasks.captioning.model import IMAGES_AT_A_TIME

        faults, named = CaptionFaults(), frozenset(options.images)
        with ExitStack() as files:
            output = opened(files, options.output) or sys.stdout
            traces = opened(files, options.trace)
            for names in chunks(self.images.of(part), IMAGES_AT_A_TIME):
                contents = list(_read(self.captioner, names, faults, named))
                captions = self.captioner.generate(
                    contents,
                    search=options.search,
                    num_best=options.nbest,
                    attention=traces is not None,
                    prefix=options.prefix,
                )
                for (name, _), caption in zip(contents, captions, strict=True):
                    for hypothesis in (caption, *caption.alternatives):
                        faults.cut += [name] * hypothesis.is_cut
                        score = f"\t{hypothesis.score:.4f}" if options.nbest > 1 else ""
                        print(f"{name}{score}\t{hypothesis.text}", file=output)
                    if traces is not None and caption.trace is not None:
                        print(caption.trace.to_json(), file=traces)
                output.flush()
                on_finished(len(names))
        return faults


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
class CaptionFaults:
    """Images that cannot be read. Those of a folder are reported together."""

    messages: list[str] = field(default_factory=list)
    """Messages about images that the user named."""
    of_folders: list[str] = field(default_factory=list)
    """Messages about images of folders."""
    num_unread: int = 0
    cut: list[str] = field(default_factory=list)
    """Images of captions that were cut at the maximum length, once for each caption."""

    def add(self, message: str, *, is_named: bool) -> None:
        """Add an image, which the user named, or which is from a folder."""
        self.num_unread += 1
        (self.messages if is_named else self.of_folders).append(message)

    def warn(self) -> None:
        """Report the images: those of folders in one line."""
        for message in self.messages:
            warn(message)
        if number := len(self.of_folders):
            noun = "1 image" if number == 1 else f"{number} images"
            warn(f"left out {noun}: {listed(self.of_folders, SHOWN, '; ')}")
        warn_of_cut(len(self.cut), listed(list(dict.fromkeys(map(shorten_name, self.cut))), SHOWN))


def _read(
    captioner: CaptionModel, names: list[str], faults: CaptionFaults, named: frozenset[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the model's inputs for all images that can be read, and note the others."""
    for name, content in zip(names, captioner.sources.contents(names), strict=True):
        if not is_text(name):
            message = f"the file name {shorten_name(name)!a} is not UTF-8: rename the file"
            faults.add(message, is_named=name in named)
        elif isinstance(content, str):
            faults.add(content, is_named=name in named)
        else:
            yield name, content
