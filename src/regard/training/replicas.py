"""The model of each of several processes, and its share of every update.

    gradient = sum over processes of the gradient of the share's loss / count of the whole batch

Every process reads the same batches and takes every Nth target. Replicas have equal weights at the
start and equal gradients in every update, so their weights stay equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard import processes
from regard.shapes import Tensor
from regard.training.objective import Loss, Objective
from regard.training.schedule import Progress

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""Tensors of Adam's state."""


class LossModule(nn.Module):
    """Model and objective as one module: the layer from features to logits is computed by the loss,
    outside the model's own `forward`, and its gradient must be added up too."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self._objective = objective

    def forward(self, batch: Any, progress: Progress, generator: torch.Generator) -> Loss:
        return self._objective(self.model, batch, progress, generator)


def replica_of(model: nn.Module, objective: Objective) -> nn.Module:
    """Return the module that computes losses. With several processes, its backward pass replaces
    each gradient by the mean over the processes."""
    module = LossModule(model, objective)
    if processes.number() == 1:
        return module
    # A share may leave weights out, such as those of an expert that no token chose.
    return DistributedDataParallel(module, find_unused_parameters=True)


def share_of(batch: Any) -> tuple[Any, bool]:
    """Return the share of this process of a batch. A batch with fewer targets than processes has
    no share for some of them: these get a share that must not count, because every process takes
    part in the sum of the gradients. The second result is whether the share counts."""
    if processes.number() == 1:
        return batch, True
    rows = processes.share(range(len(batch)))
    counts = len(rows) > 0
    return batch.select(torch.tensor(list(rows) if counts else [0])), counts


def copy_from_first(model: nn.Module, adam: torch.optim.Optimizer) -> None:
    """Give the weights and Adam's moments of the first process to all."""
    if processes.number() == 1:
        return
    copy_weights_from_first(model)
    weights = dict(model.named_parameters())
    trained = processes.from_first([name for name, w in weights.items() if adam.state.get(w)])
    for name in trained:
        state = adam.state[weights[name]]
        for moment in MOMENTS:
            if moment not in state:
                is_step = moment == "step"
                like = weights[name]
                state[moment] = like.new_zeros(()) if is_step else torch.zeros_like(like)
            processes.copy_from_first(state[moment])


@torch.no_grad()
def copy_weights_from_first(model: nn.Module) -> None:
    """Give the weights of the first process to all."""
    for values in model.state_dict().values():
        processes.copy_from_first(values)


def sums_of_gradients(replica: nn.Module, *, are_last: bool) -> AbstractContextManager[None]:
    """Return the context of one batch of an update: gradients are summed over the processes with
    those of the last batch alone."""
    if isinstance(replica, DistributedDataParallel) and not are_last:
        return replica.no_sync()
    return nullcontext()


def add_up(losses: Iterable[Tensor]) -> Tensor:
    """Return the sum of the losses of an update's batches, over all processes."""
    return processes.add_up(torch.stack(list(losses)).sum(dim=0))
