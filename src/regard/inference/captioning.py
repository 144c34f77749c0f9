"""Captions of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import SearchConfig
from regard.config.checks import is_text
from regard.data.recognition.kinds import IMAGE
from regard.errors import UserError
from regard.inference.faults import Faults, Limits
from regard.inference.loop import Output, Outputs, Run
from regard.inference.parts import Items
from regard.runtime.memory_policy import pause_collection
from regard.storage.files import shorten_name

if TYPE_CHECKING:
    import numpy as np

    from regard.data.files.source_table import AddedColumn
    from regard.tasks.captioning.model import CaptionModel


def images_in(name: str) -> list[str]:
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


@dataclass(frozen=True)
class CaptionJob:
    """Captions of images."""

    run: Path
    images: tuple[str, ...]
    named: frozenset[str]
    """Images that the user named; the others are from folders."""
    outputs: Outputs
    search: SearchConfig
    num_best: int = 1
    prefix: str | None = None
    """Text that each caption begins with."""
    device: str = "auto"

    @property
    def runs(self) -> tuple[Path, ...]:
        return (self.run,)

    def limits(self) -> Limits:
        return Limits()

    def input(self, warn: Callable[[str], None]) -> Items[str]:
        from regard.tasks.captioning import model

        del warn
        return Items(lambda: iter(self.images), model.IMAGES_AT_A_TIME)

    def open(self, warn: Callable[[str], None]) -> Captioning:
        with pause_collection():
            from regard.tasks.captioning.model import CaptionModel

        return Captioning(self, CaptionModel.load(self.run, device=self.device), self.input(warn))


@dataclass
class Captioning:
    """A captioner with the images that it captions."""

    job: CaptionJob
    model: CaptionModel
    source: Items[str]
    columns: tuple[AddedColumn, ...] = ()

    def chunks(self, run: Run) -> Iterator[list[str]]:
        return self.source.chunks(run)

    def outputs(self, chunk: list[str], run: Run) -> Iterator[Output]:
        images = list(self._read(chunk, run.faults))
        captions = self.model.generate(
            images,
            search=self.job.search,
            num_best=self.job.num_best,
            attention=self.job.outputs.trace is not None,
            prefix=self.job.prefix,
        )
        for (name, _), caption in zip(images, captions, strict=True):
            lines = []
            for hypothesis in (caption, *caption.alternatives):
                run.faults.cut += [name] * hypothesis.is_cut
                score = f"\t{hypothesis.score:.4f}" if self.job.num_best > 1 else ""
                lines.append(f"{name}{score}\t{hypothesis.text}")
            yield Output("\n".join(lines), trace=caption.trace)

    def _read(self, names: list[str], faults: Faults) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the model's inputs for all images that can be read, and count the others."""
        for name, content in zip(names, self.model.sources.contents(names), strict=True):
            if is_text(name) and not isinstance(content, str):
                yield name, content
                continue
            faults.add_image(
                str(content)
                if is_text(name)
                else f"the file name {shorten_name(name)!a} is not UTF-8: rename the file",
                is_named=name in self.job.named,
            )
