"""The batches of an update whose loss is not finite, written to a file for a closer look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.shapes import Shaped, Tensor
from regard.storage.files import make_folder
from regard.storage.weights import write_tensors
from regard.training.schedule import Progress
from regard.training.settings import Batches


def batches_of(batches: Batches, progress: Progress, accumulate: int) -> list[Any]:
    """Return the batches of an update."""
    first = (progress.batch - 1) // accumulate * accumulate
    return list(islice(batches.epoch(progress.epoch, first), progress.batch - first))


def write_batches(path: Path, batches: list[Any]) -> None:
    """Write the tensors of batches. A name has the number of the batch, from 0, and its fields:
    `0.source.ids`. UnwritableError if the file cannot be written."""
    make_folder(path.parent)
    tensors = {
        f"{number}.{name}": tensor
        for number, batch in enumerate(batches)
        for name, tensor in _tensors(batch)
    }
    write_tensors(path, tensors, {})


def _tensors(record: Any) -> Iterator[tuple[str, Shaped[Tensor, "*any"]]]:
    for entry in fields(record):
        value = getattr(record, entry.name)
        if isinstance(value, Tensor):
            yield entry.name, value
        elif is_dataclass(value):
            yield from ((f"{entry.name}.{name}", tensor) for name, tensor in _tensors(value))
