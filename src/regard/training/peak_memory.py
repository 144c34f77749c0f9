"""Estimate of the memory that an update takes, before training begins.

    peak = weights, gradients and Adam's moments + batch + tensors that the backward pass needs

The saved tensors of a few sentences of a batch are counted and extrapolated to all of them. Their
sum is doubled for gradients and temporary results. Measured peaks of recurrent, convolutional and
Transformer models with batches of 4,096 and 8,192 tokens were 0.5 to 1.2 times the estimate.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.names import Precision
from regard.shapes import Shaped, Tensor
from regard.storage.weights import TRAINED
from regard.training.objectives.objective import Objective
from regard.training.schedule import Progress

MEASURED = (2, 4)
"""Numbers of sentences whose saved tensors are counted."""
TEMPORARY = 2
"""Memory of an update, without weights, over that of its saved tensors."""


def peak_of_update(model: nn.Module, objective: Objective, batch: Any, precision: Precision) -> int:
    """Return the estimated number of bytes of an update on this batch. The model, its mode and the
    random numbers that follow are unchanged."""
    weights = sum(
        weight.numel() * weight.element_size() * (TRAINED if weight.requires_grad else 1)
        for weight in model.parameters()
    )
    few, more = (min(number, len(batch)) for number in MEASURED)
    devices = {weight.device for weight in model.parameters() if weight.is_cuda}
    with torch.random.fork_rng(devices=[device.index or 0 for device in devices]):
        saved = [_saved_bytes(model, objective, batch, number, precision) for number in (few, more)]
    slope = max(0.0, (saved[1] - saved[0]) / max(1, more - few))
    return weights + round(TEMPORARY * (saved[0] + slope * (len(batch) - few)))


def _saved_bytes(
    model: nn.Module, objective: Objective, batch: Any, number: int, precision: Precision
) -> int:
    """Return the largest number of bytes of tensors that backward passes of the first sentences
    need at one time."""
    device = next(model.parameters()).device
    saved = _Saved({weight.untyped_storage().data_ptr() for weight in model.parameters()})
    part = batch.select(torch.arange(number)).to(device)
    was_training, buffers = model.training, [(x, x.clone()) for x in model.buffers()]
    model.train()
    try:
        with (
            torch.autograd.graph.saved_tensors_hooks(saved.keep, lambda kept: kept.tensor),
            torch.autocast(device.type, torch.bfloat16, precision == "bfloat16"),
        ):
            loss = objective(model, part, Progress(1, 1), torch.default_generator)
    finally:
        model.train(was_training)
        for buffer, value in buffers:  # batch normalisation has counted the sentences
            buffer.copy_(value)
    del loss
    return saved.peak


class _Saved:
    """Counts the bytes of saved tensors, each storage once, until their graph is freed: a loss that
    is computed in blocks frees the graph of each block."""

    def __init__(self, own: Set[int]) -> None:
        """`own`: addresses of weights, which are not counted."""
        self._own, self._users = own, Counter[int]()
        self._bytes = self.peak = 0

    def keep(self, tensor: Shaped[Tensor, "*any"]) -> _Kept:
        kept, storage = _Kept(tensor), tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if address not in self._own:
            self._count(address, 1, size)
            weakref.finalize(kept, self._count, address, -1, size)
        return kept

    def _count(self, address: int, users: int, size: int) -> None:
        before = self._users[address]
        self._users[address] += users
        self._bytes += size * ((before + users > 0) - (before > 0))
        self.peak = max(self.peak, self._bytes)


@dataclass(frozen=True, eq=False)
class _Kept:
    tensor: Shaped[Tensor, "*any"]
