"""Checks of shapes, types and devices at the public calls of attention.

Batch axes broadcast as in PyTorch: keys of batch 1, or without a batch axis, are used for all
queries.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard.numerics.linear import Linear
from regard.runtime.modes import is_cast
from regard.shapes import Tensor

Axes = tuple[Any, ...]
"""Sizes of axes: integers, or torch.SymInt during an export."""


def check_inputs(queries: Tensor, prepared: Any, values: Tensor, mask: Any) -> None:
    """Check one call of an attention module. A prepared tensor is checked by its score, which knows
    its axes. ValueError if the plain formula cannot be computed."""
    keys = None if isinstance(prepared, Tensor) else getattr(prepared, "projected", None)
    if keys is None:
        check_vectors(queries=queries, values=values)
    else:  # AdditiveKeys
        check_vectors(queries=queries, keys=keys, values=values)
        check_num_keys(keys, values)
    batch: Axes = queries.shape[:-2]
    if values.shape[:-2] != batch:
        batch = batch_of(queries=queries, values=values)
    if keys is not None and keys.shape[:-2] != batch:
        batch = batch_of(queries=queries, keys=keys, values=values)
    elif isinstance(prepared, Tensor) and mask is not None and prepared.shape[:-2] != batch:
        batch = _broadcast([batch, prepared.shape[:-2]]) or batch
    if mask is not None:
        check_mask(mask, (*batch, queries.size(-2), values.size(-2)), queries.device)


def check_vectors(**vectors: Tensor) -> None:
    """Check tensors "*batch position size" of floats on one device."""
    device = None
    for name, tensor in vectors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.dim() < 2:
            raise ValueError(
                f"{name}: expected at least two axes (position, size), got shape "
                f"{tuple(tensor.shape)}; add an axis for the positions: {name}[None]"
            )
        if not tensor.is_floating_point():
            raise ValueError(
                f"{name}: expected floating-point numbers, got {tensor.dtype}; use {name}.float()"
            )
        device = _check_device(name, tensor, device)


def check_scored(queries: Tensor, keys: Tensor, vector: Tensor, **values: Tensor) -> None:
    """Check projected queries and keys, the vector of an additive score, and any values."""
    check_vectors(queries=queries, keys=keys, **values)
    size = queries.size(-1)
    if keys.size(-1) != size:
        raise ValueError(
            f"keys: expected vectors of size {size} as the queries', got size {keys.size(-1)}; "
            "project both to one size"
        )
    if not isinstance(vector, Tensor):
        raise TypeError(f"vector: expected a tensor, got {type(vector).__name__}")
    if vector.shape != (size,) or not vector.is_floating_point():
        raise ValueError(
            f"vector: expected {size} floating-point numbers, one for each of the keys, got "
            f"{vector.dtype} of shape {tuple(vector.shape)}"
        )
    _check_device("vector", vector, queries.device)


def check_projected(name: str, vectors: Tensor, size: int, weight: Tensor, owner: object) -> None:
    """Check vectors that a module multiplies by a weight."""
    if (
        isinstance(vectors, Tensor)
        and vectors.dim() >= 2
        and vectors.shape[-1] == size
        and vectors.dtype is weight.dtype
        and vectors.device == weight.device
    ):
        return
    check_vectors(**{name: vectors})
    module = type(owner).__name__
    if vectors.size(-1) != size:
        raise ValueError(
            f"{name}: {module} was built for vectors of size {size}, got size "
            f"{vectors.size(-1)} (shape {tuple(vectors.shape)})"
        )
    if vectors.device != weight.device or (vectors.dtype != weight.dtype and not is_cast(vectors)):
        raise ValueError(
            f"{name}: expected {weight.dtype} on {weight.device} as the weights of {module}, got "
            f"{vectors.dtype} on {vectors.device}"
        )


def check_input(name: str, vectors: Tensor, linear: nn.Module, owner: object) -> None:
    """Check vectors that a linear layer of a module projects. A layer that was replaced or has
    hooks checks its inputs itself: they may have another size or type."""
    is_changed = bool(linear._forward_pre_hooks) or "forward" in vars(linear)
    if isinstance(linear, nn.Linear) and type(linear) in (Linear, nn.Linear) and not is_changed:
        check_projected(name, vectors, linear.in_features, linear.weight, owner)


def check_positions(state: Any, queries: Tensor) -> None:
    """Check the numbers of target positions, integers "batch target"."""
    if not isinstance(state, Tensor):
        raise TypeError(f"state: expected a tensor of integers, got {type(state).__name__}")
    if state.is_floating_point() or state.is_complex() or state.dtype == torch.bool:
        raise ValueError(f"state: expected integers, numbers of positions, got {state.dtype}")
    _check_device("state", state, queries.device)
    if not broadcasts_to(state.shape, queries.shape[:-1]):
        raise ValueError(
            f"state: expected {tuple(queries.shape[:-1])} (batch, target), the number of each "
            f"query's position, got {tuple(state.shape)}"
        )


def check_num_keys(keys: Tensor, values: Tensor) -> None:
    """Check that every key has a value."""
    num_keys = keys.size(-2)
    if values.size(-2) != num_keys:
        raise ValueError(
            f"values: expected {num_keys}, one for each key, got {values.size(-2)} (shape "
            f"{tuple(values.shape)})"
        )


def check_mask(mask: Any, axes: Axes, device: torch.device) -> None:
    """Check a mask that broadcasts to "*batch target source"."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask: expected a bool tensor, got {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask: expected bool (True = may be attended to), got {mask.dtype}; {_remedy(mask)}"
        )
    _check_device("mask", mask, device)
    shape = mask.shape
    if shape == axes:
        return
    if not broadcasts_to(shape, axes):
        wanted = tuple(axes)
        advice = ""
        if len(wanted) == 3 and tuple(shape) == (wanted[0], wanted[2]):
            advice = "; for one row a source use mask[:, None]"
        raise ValueError(
            f"mask: expected a shape that broadcasts to {wanted} (*batch, target, source), got "
            f"{tuple(shape)}{advice}"
        )


def broadcasts_to(shape: Axes, axes: Axes) -> bool:
    """Whether a shape broadcasts to these axes without new ones."""
    missing = len(axes) - len(shape)
    if missing < 0:
        return False
    for size, limit in zip(shape, axes[missing:], strict=True):
        if size != limit and size != 1:
            return False
    return True


def batch_of(**vectors: Tensor) -> Axes:
    """Return the batch axes that tensors "*batch position size" broadcast to."""
    batch = _broadcast([tensor.shape[:-2] for tensor in vectors.values()])
    if batch is None:
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in vectors.items())
        *names, last = vectors
        raise ValueError(
            f"{', '.join(names)} and {last}: expected batch axes (all but the last two) that "
            f"broadcast, got {shapes}"
        )
    return batch


def _broadcast(shapes: list[Axes]) -> Axes | None:
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None


def _check_device(name: str, tensor: Tensor, device: torch.device | None) -> torch.device:
    if device is not None and tensor.device != device:
        raise ValueError(
            f"{name}: expected a tensor on {device} as the queries, got one on {tensor.device}; "
            f"use {name}.to(queries.device)"
        )
    return tensor.device


def _remedy(mask: Tensor) -> str:
    if mask.is_floating_point():
        return (
            "use mask != 0 for a mask of ones and zeros, mask == 0 for a mask of 0 and -inf that "
            "is added to scores"
        )
    return "use mask != 0"
