"""Updates that need more memory than there is: their batches are computed in parts.

    FOLDER/state/splits.json    {"update": number of parts of each of its batches}

The gradients of the parts are added up and divided as those of the whole batch. The file is written
before the weights change. A resumed run reads it, so it repeats the same sums even if there is more
memory then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from regard.errors import UserError, is_out_of_memory
from regard.runtime import processes
from regard.runtime.memory_policy import release_freed_memory
from regard.storage.files import SPLITS, make_folder, whole

Result = TypeVar("Result")
log = logging.getLogger(__name__)


class Splits:
    """Numbers of parts of the batches of updates; 1 unless the memory did not suffice."""

    def __init__(self, folder: Path | None, *, resume: bool) -> None:
        """Read the numbers of the run to resume. Without a folder nothing is read or written.
        UserError if the file is damaged."""
        self._path = folder / SPLITS if folder else None
        self._parts: dict[int, int] = {}
        if self._path and resume and self._path.exists():
            self._parts = _read(self._path)
        elif self._path:
            self._path.unlink(missing_ok=True)

    def compute(
        self,
        gradients: Callable[[list[Any]], Result],
        module: nn.Module,
        batches: list[Any],
        update: int,
    ) -> Result:
        """Compute the gradients of an update's batches. If an allocation fails, they are computed
        again in twice as many parts.

        RuntimeError or MemoryError if single sentences need more memory than there is, or with
        several processes, which cannot repeat an update alone."""
        parts = known = self._parts.get(update, 1)
        while True:
            try:
                result = gradients([part for batch in batches for part in parts_of(batch, parts)])
            except (MemoryError, RuntimeError) as error:
                is_single = parts >= max(len(batch) for batch in batches)
                if not is_out_of_memory(error) or is_single or processes.number() > 1:
                    raise
            else:
                if parts > known:
                    self._record(update, parts)
                return result
            module.zero_grad(set_to_none=True)
            release_freed_memory()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            parts *= 2

    def _record(self, update: int, parts: int) -> None:
        log.warning(
            "update %d: not enough memory for its batch, so it is computed in %d parts; a smaller "
            "data.batch_tokens or data.batch_sentences is faster",
            update,
            parts,
        )
        self._parts[update] = parts
        if self._path:
            make_folder(self._path.parent)
            with whole(self._path) as unfinished:
                unfinished.write_text(json.dumps(self._parts), encoding="utf8")


def parts_of(batch: Any, number: int) -> list[Any]:
    """Divide a batch into at most this number of parts of about equal size."""
    if number == 1:
        return [batch]
    return [batch.select(rows) for rows in torch.arange(len(batch)).chunk(number)]


def _read(path: Path) -> dict[int, int]:
    try:
        return {int(update): int(parts) for update, parts in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is damaged ({reason}): put it back") from error
