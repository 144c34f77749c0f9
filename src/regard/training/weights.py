"""Weights in files: whole or not at all, tied ones once, nothing pickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import UserError
from regard.files import whole


def save_weights(model: nn.Module, path: Path) -> None:
    """Write a model's weights, tied ones once."""
    write_tensors(path, weights_of(model), {})


def load_weights(model: nn.Module, path: Path) -> None:
    """Set a model's weights to those of a file; UserError where they are another model's."""
    set_weights(model, read_tensors(path), path)


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """The arithmetic mean of what several files hold, name by name, added up in float64. UserError
    where they are not the weights of one kind of model."""
    first, *rest = files
    kind = read_tensors(first)
    sums = {name: tensor.double() for name, tensor in kind.items()}
    for path in rest:
        tensors = read_tensors(path)
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
    """A model's weights by name, tied ones once."""
    state = model.state_dict()
    return {name: state[name] for name in _names(model).values()}


def set_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Set a model's weights; UserError where they, from this file, are another model's."""
    found = {n: weights[stored] for n, stored in _names(model).items() if stored in weights}
    unknown = {name: weights[name] for name in weights.keys() - found.keys()}
    try:
        model.load_state_dict({**found, **unknown})
    except RuntimeError as error:
        why = " ".join(str(error).split())
        raise UserError(f"{path} holds the weights of another model: {why}") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors, and texts about them, whole or not at all."""
    dense = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with whole(path) as unfinished:
        save_file(dense, unfinished, metadata={"format": "pt", **metadata})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file; UserError where it holds none."""
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read as weights: {error}") from error


def _names(model: nn.Module) -> dict[str, str]:
    """Every name of the state dict with the name that its tensor is stored under: its first."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    return {name: first.setdefault(id(tensor), name) for name, tensor in state.items()}


def _shape(tensors: Mapping[str, Tensor], name: str) -> str:
    return "x".join(map(str, tensors[name].shape)) or "one number" if name in tensors else "missing"
