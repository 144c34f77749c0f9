"""Shards: the rows of weights, gradients and moments that each process has.

With sharding, a weight is a DTensor of PyTorch. Without it, these functions return their arguments,
or work on whole tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import nn

from regard.runtime import processes
from regard.shapes import Float, Shaped, Tensor


def is_sharded(model: nn.Module) -> bool:
    """Return whether the weights of a model are divided among processes."""
    return any(map(is_shard, model.parameters()))


def is_shard(tensor: Tensor) -> bool:
    """Return whether this process has a shard of the tensor only."""
    return hasattr(tensor, "placements")  # importing DTensor takes a second


def own_rows(tensor: Shaped[Tensor, "*any"]) -> Shaped[Tensor, "*any"]:
    """Return the rows of a tensor that this process has, without a copy."""
    return cast(Any, tensor).to_local() if is_shard(tensor) else tensor


def rows_of(tensor: Shaped[Tensor, "*any"]) -> tuple[int, int]:
    """Return the first row that this process has, and the one after the last: all processes but the
    last ones have equally many."""
    num_rows = len(tensor)
    if not is_shard(tensor):
        return 0, num_rows
    share = -(-num_rows // processes.number())
    first = min(share * processes.rank(), num_rows)
    return first, min(first + share, num_rows)


def whole_tensor(tensor: Shaped[Tensor, "*any"]) -> Shaped[Tensor, "*any"]:
    """Return a tensor with the rows of all processes. All processes call this function."""
    return cast(Any, tensor).full_tensor() if is_shard(tensor) else tensor


def total_norm(gradients: Sequence[Shaped[Tensor, "*any"]]) -> Float[Tensor, ""]:
    """Return the norm of all gradients together, over the shards of all processes."""
    norm = nn.utils.get_total_norm([own_rows(gradient) for gradient in gradients])
    if not any(map(is_shard, gradients)):
        return norm
    return processes.add_up(norm.square()).sqrt()


def all_finite(model: nn.Module) -> bool:
    """Return whether all weights are finite numbers, in the shards of all processes."""
    are_finite = all(bool(own_rows(weight).isfinite().all()) for weight in model.parameters())
    if is_sharded(model):
        return not processes.largest(int(not are_finite))
    return are_finite
