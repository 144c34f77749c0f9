"""Estimate of the memory that an update takes, before training begins.

    peak = weights, gradients and Adam's moments + batch + tensors that the backward pass needs

The saved tensors of a few sentences of a batch are counted and extrapolated to all of them. Their
sum is doubled for gradients and temporary results. Measured peaks of recurrent, convolutional and
Transformer models with batches of 4,096 and 8,192 tokens were 0.5 to 1.2 times the estimate.
"""

from __future__ import annotations

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
    """Return the number of bytes of the tensors that the backward pass of the first sentences
    needs."""
    device = next(model.parameters()).device
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    sizes = dict[int, int]()

    def count(tensor: Shaped[Tensor, "*any"]) -> Shaped[Tensor, "*any"]:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    part = batch.select(torch.arange(number)).to(device)
    was_training, buffers = model.training, [(x, x.clone()) for x in model.buffers()]
    model.train()
    try:
        with (
            torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor),
            torch.autocast(device.type, torch.bfloat16, precision == "bfloat16"),
        ):
            loss = objective(model, part, Progress(1, 1), torch.default_generator)
    finally:
        model.train(was_training)
        for buffer, value in buffers:  # batch normalisation has counted the sentences
            buffer.copy_(value)
    del loss
    return sum(sizes.values())
