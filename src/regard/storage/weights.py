"""Weights in files: complete or absent, tied weights stored once, without pickles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import UserError, listed
from regard.numerics.linear import meta_device
from regard.storage.files import UnwritableError, check_readable, whole
from regard.storage.record import Record

METADATA = "regard"
"""Name of the text that holds all metadata, as JSON."""
SHOWN = 3
"""Number of weights that one message lists."""
TRAINED = 4
"""Numbers that training stores for a weight: the weight, its gradient and Adam's two moments."""

UNBUILDABLE = (RuntimeError, MemoryError, OverflowError, ValueError, TypeError)
"""Exceptions that torch raises for sizes that no model can have."""

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def save_weights(model: nn.Module, path: Path, run: str = "") -> None:
    """Write a model's weights, tied ones once, with the identity of their run if it has one."""
    write_tensors(path, weights_of(model), {"run": run} if run else {})


def load_model(build: Callable[[], AnyModule], path: Path) -> AnyModule:
    """Build the model of a run folder and load the weights in this file into it.

    UserError if the weights do not belong to the run, are not finite, or fit another model than
    the configuration describes. Shapes are compared before memory for the model is allocated."""
    weights = read_weights(path)
    with suppress(*UNBUILDABLE), meta_device():  # backbones need a real device
        check_fit(weights_of(build()), weights, path)
    try:
        model = build()
    except UNBUILDABLE as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{path.with_name('config.yaml')} describes a model that cannot be built: {reason}"
        ) from error
    set_weights(model, weights, path)
    return model


def load_weights(model: nn.Module, path: Path) -> None:
    """Set a model's weights to those of a file. UserError for weights of another model."""
    set_weights(model, read_weights(path), path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the weights in a file of a run folder by name.

    UserError if they do not belong to the run in that folder, or are not finite."""
    record = Record.read(path.parent)
    if record is not None:
        record.check_metadata(path, read_metadata(path))
    weights = read_tensors(path)
    for name, weight in weights.items():
        if weight.is_floating_point() and not weight.float().isfinite().all():
            raise UserError(
                f"{path}: {name} holds values that are not finite in float32: train again, with a "
                "lower learning rate, or put the run's own file back"
            )
    return weights


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the arithmetic mean of the weights of several files by name, summed in
    float64. UserError if the files hold weights of different models."""
    first, *rest = files
    kind = read_weights(first)
    sums = {name: tensor.double() for name, tensor in kind.items()}
    for path in rest:
        tensors = read_weights(path)
        for name in sorted(kind.keys() | tensors.keys()):
            ours, theirs = _shape(kind, name), _shape(tensors, name)
            if ours != theirs:
                raise UserError(
                    f"{path} cannot be averaged with {first}: {name} is {theirs} there, and {ours} "
                    "here. Average weights of one kind of model"
                )
            sums[name] += tensors[name]
    return {name: (sums[name] / len(files)).to(tensor.dtype) for name, tensor in kind.items()}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's weights by name, tied weights once."""
    state = model.state_dict()
    return {name: state[name] for name in _names(model).values()}


def set_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Set a model's weights to these, from a file. UserError for weights of another model."""
    check_fit(weights_of(model), weights, path)
    model.load_state_dict({name: weights[stored] for name, stored in _names(model).items()})


def check_fit(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor], path: Path) -> None:
    """Raise a UserError if the weights of a file differ in name, shape or kind of number from those
    that a model expects."""
    problems = []
    for name in [*expected, *sorted(weights.keys() - expected.keys())]:
        ours, theirs = _shape(expected, name), _shape(weights, name)
        if name not in expected:
            problems.append(f"{name} is unknown")
        elif ours != theirs:
            problems.append(f"{name} is {theirs}, expected {ours}")
        elif expected[name].is_floating_point() != weights[name].is_floating_point():
            problems.append(f"{name} is {_dtype(weights[name])}, expected {_dtype(expected[name])}")
    if problems:
        shown = listed(problems, SHOWN, "; ")
        raise UserError(f"{path} holds the weights of another model: {shown}")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors, metadata and a digest of both to a file, which is complete or absent."""
    dense = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    about = {**metadata, "sha256": digest_of_weights(dense, metadata)}
    with whole(path) as unfinished:
        try:  # one text, as safetensors writes several in random order
            save_file(dense, unfinished, metadata={METADATA: json.dumps(about)})
        except SafetensorError as error:  # which hides an OSError
            raise UnwritableError(f"cannot write {path}: {error}") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return all tensors of a file. UserError if it holds none or was changed."""
    metadata = read_metadata(path)
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise UserError(_unreadable(path, error)) from error
    digest = metadata.pop("sha256", None)
    if digest is not None and digest != digest_of_weights(tensors, metadata):
        raise UserError(
            f"{path} is damaged: its content differs from its own digest; put an intact copy back"
        )
    return tensors


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a file of tensors. UserError if it holds no tensors."""
    check_readable(path)  # safetensors takes a file without permission for a missing one
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
        ours = json.loads(metadata.pop(METADATA, "{}"))
        return {**metadata, **ours}
    except (SafetensorError, OSError, ValueError, TypeError, RecursionError) as error:
        raise UserError(_unreadable(path, error)) from error


def digest_of_weights(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> str:
    """Return the SHA-256 of names, types, shapes and values, and of the metadata."""
    digest = hashlib.sha256(json.dumps(sorted((metadata or {}).items())).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _unreadable(path: Path, error: Exception) -> str:
    return f"{path} cannot be read as weights: {' '.join(str(error).split())}"


def _names(model: nn.Module) -> dict[str, str]:
    """Map every name of the state dict to the name that its tensor is stored under: the first."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    return {name: first.setdefault(id(tensor), name) for name, tensor in state.items()}


def _shape(tensors: Mapping[str, Tensor], name: str) -> str:
    return "x".join(map(str, tensors[name].shape)) or "one number" if name in tensors else "missing"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
