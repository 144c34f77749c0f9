"""Tensors of a training state by name: weights.NAME, and of Adam step.NAME, exp_avg.NAME and
exp_avg_sq.NAME for each weight that was updated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from regard.storage.weights import read_tensors, set_weights, weights_of
from regard.training.parallel.shard_files import Parts, read_parts, read_rows
from regard.training.parallel.shards import is_shard

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Adam's moving means, of the shape of their weight."""


def tensors_of(model: nn.Module, adam: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of a training state. Those of weights that are divided among processes are
    shards."""
    tensors = {f"weights.{name}": weight for name, weight in weights_of(model).items()}
    for name, weight in model.named_parameters():
        for moment, value in adam.state.get(weight, {}).items():
            tensors[f"{moment}.{name}"] = value
    return tensors


def restore(model: nn.Module, adam: torch.optim.Optimizer, path: Path, parts: Parts | None) -> None:
    """Restore a model and Adam from the file of a state, and from its parts if it has any.
    UserError if they are those of another model."""
    tensors = read_tensors(path)
    if parts is not None:
        like = {f"weights.{name}": weight for name, weight in weights_of(model).items()}
        weights = dict(model.named_parameters())
        like |= {
            f"{moment}.{name}": weights[name] for name in _updated(tensors) for moment in MOMENTS
        }
        missing = {
            name: torch.empty_like(values, device="cpu")
            for name, values in like.items()
            if name not in tensors
        }
        read_parts(path.parent, parts, missing)
        tensors |= missing
    set_weights(model, _with_prefix("weights.", tensors), path)
    _set_moments(model, adam, tensors)


def restore_shards(
    model: nn.Module, adam: torch.optim.Optimizer, path: Path, parts: Parts | None
) -> None:
    """Restore the shards of this process from the parts of a state. A state without parts has whole
    tensors in its file, and this process reads its own rows of them. UserError if they are those of
    another model."""
    weights = dict(model.named_parameters())
    with safe_open(path, framework="pt") as file:
        for name in _updated(file.keys()):
            like = weights[name]
            adam.state[like] = {"step": file.get_tensor(f"step.{name}").to(like.device)}
            adam.state[like] |= {moment: torch.zeros_like(like) for moment in MOMENTS}
    tensors = {name: tensor.detach() for name, tensor in tensors_of(model, adam).items()}
    shards = {name: tensor for name, tensor in tensors.items() if is_shard(tensor)}
    buffers = {n: t for n, t in tensors.items() if n.startswith("weights.") and n not in shards}
    read_rows(path, buffers)
    if parts is None:
        read_rows(path, shards)
    else:
        read_parts(path.parent, parts, shards)


def _updated(names: Iterable[str]) -> list[str]:
    """Return the names of the weights that were updated."""
    return [name.removeprefix("step.") for name in names if name.startswith("step.")]


def _set_moments(
    model: nn.Module, adam: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restore Adam. Its state dict identifies weights by position, the saved moments by name."""
    names = {id(weight): name for name, weight in model.named_parameters()}
    (group,) = adam.param_groups
    state: dict[int, dict[str, Tensor]] = {}
    for place, weight in enumerate(group["params"]):
        for moment in ("step", *MOMENTS):
            value = tensors.get(f"{moment}.{names[id(weight)]}")
            if value is not None:
                state.setdefault(place, {})[moment] = value
    adam.load_state_dict({**adam.state_dict(), "state": state})


def _with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
