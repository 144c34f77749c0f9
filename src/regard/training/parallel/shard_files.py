"""Parts of a training state: each process writes and reads its own shards
(`torch.distributed.checkpoint`).

    state/parts-NAME/shard-00001-….safetensors     shards of the first process

The files are those of safetensors, so nothing is pickled. A folder of parts counts once the file of
the training state names it with the digests of its files. A save writes a new folder, and keeps
that of the state before it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import safe_open

from regard.errors import UserError
from regard.runtime import processes
from regard.shapes import Tensor
from regard.storage.files import UnwritableError, flush_names, make_folder
from regard.training.parallel.shards import is_shard, own_rows, rows_of

PREFIX = "parts-"
NAME = re.compile(PREFIX + "[0-9a-f]{32}")


@dataclass(frozen=True)
class Parts:
    """Folder of the parts, and the SHA-256 of each of its files by name."""

    folder: str
    digests: Mapping[str, str]


def write_parts(state: Path, tensors: Mapping[str, Tensor]) -> Parts:
    """Write the shards of all processes to a new folder in the folder of the state. All processes
    call this function. UnwritableError if one of them cannot write."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    folder = state / processes.from_first(f"{PREFIX}{uuid4().hex}")
    make_folder(folder)
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        save(dict(tensors), storage_writer=writer)
    except CheckpointException as error:
        failure = _failure(error)
        if isinstance(failure, OSError):
            reason = failure.strerror or failure
            raise UnwritableError(f"cannot write {folder}: {reason}") from error
        raise failure from error
    if processes.is_first():
        flush_names(folder)
        flush_names(state)
    names = processes.from_first(sorted(path.name for path in folder.iterdir()))
    digests = processes.gathered([_digest(folder / name) for name in processes.share(names)])
    return Parts(folder.name, dict(zip(names, digests, strict=True)))


def read_parts(state: Path, parts: Parts, tensors: Mapping[str, Tensor]) -> None:
    """Set the values of whole tensors, or of the shards of this process. If they are sharded, all
    processes call this function. UserError for the state of another model."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(state / parts.folder))
    are_sharded = any(map(is_shard, tensors.values()))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # with one process
            load(dict(tensors), storage_reader=reader, no_dist=not are_sharded)
    except CheckpointException as error:
        failure = _failure(error)
        if isinstance(failure, torch.distributed.DistError):  # another process ended
            raise failure from error
        reason = " ".join(str(failure).split())[:200]
        raise UserError(
            f"{state / parts.folder} cannot be read, or has the weights of another model: {reason}"
        ) from error


def read_rows(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Set the values of the shards of this process to rows of whole tensors in a file. UserError
    for tensors of other shapes."""
    with safe_open(path, framework="pt") as file:
        names = set(file.keys())
        for name, tensor in tensors.items():
            saved = file.get_slice(name) if name in names else None
            if saved is None or saved.get_shape() != list(tensor.shape):
                raise UserError(f"{path} holds the weights of another model: {name} differs")
            first, last = rows_of(tensor)
            own_rows(tensor).copy_(saved[first:last])


def check_parts(state: Path, parts: Parts) -> None:
    """Raise a UserError if a file of the parts is missing or was changed."""
    for name, digest in parts.digests.items():
        path = state / parts.folder / name
        if not path.is_file():
            raise UserError(f"{path}, a part of the training state, is missing: put it back")
        if _digest(path) != digest:
            raise UserError(
                f"{path} is damaged: its content differs from its digest in the training state; "
                "put an intact copy back"
            )


def remove_parts(state: Path, kept: Sequence[Parts]) -> None:
    """Remove all folders of parts but these."""
    names = {parts.folder for parts in kept}
    for folder in state.glob(f"{PREFIX}*"):
        if folder.name not in names:
            shutil.rmtree(folder, ignore_errors=True)


def parts_of(about: Any) -> Parts | None:
    """Return the parts in the metadata of a state, if there are any. ValueError for another
    name than that of a folder of parts."""
    if about is None:
        return None
    if not NAME.fullmatch(about["folder"]):
        raise ValueError(f"{about['folder']!a} is not the name of a folder of parts")
    return Parts(about["folder"], about["digests"])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _failure(error: Any) -> BaseException:
    """Return the error of the first process that failed."""
    (failure, _), *_ = error.failures.values()
    return failure
