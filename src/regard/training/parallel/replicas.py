"""The model of each of several processes, and its share of every update.

    gradient = sum over processes of the gradient of the share's loss / count of the whole batch

Every process reads the same batches and takes every Nth target. Replicas have equal weights at the
start and equal gradients in every update, so their weights stay equal. With sharding, each process
has a part of the weights of one replica (`regard.training.parallel.sharding`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.names import Sharding
from regard.runtime import processes
from regard.shapes import Tensor
from regard.training.objectives.objective import Loss, Objective
from regard.training.parallel.sharding import WholeModel, shard
from regard.training.parallel.shards import is_sharded
from regard.training.schedule import Progress

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""Tensors of Adam's state."""


class LossModule(nn.Module):
    """Model and objective as one module: the layer from features to logits is computed by the loss,
    outside the model's own `forward`, and its gradient must be added up too."""

    def __init__(
        self, model: nn.Module, objective: Objective, whole: WholeModel | None = None
    ) -> None:
        """`whole` is needed for a model that will be sharded."""
        super().__init__()
        self.model = model
        self.whole = whole
        self._objective = objective

    def forward(self, batch: Any, progress: Progress, generator: torch.Generator) -> Loss:
        return self._objective(self.model, batch, progress, generator)


def replica_of(model: nn.Module, objective: Objective, sharding: Sharding = "none") -> nn.Module:
    """Return the module that computes losses. With several processes, its backward pass replaces
    each gradient by the mean over the processes, and the weights of a model that is sharded become
    those of the first process."""
    if processes.number() == 1:
        return LossModule(model, objective)
    if sharding == "full":
        copy_weights_from_first(model)
        module = LossModule(model, objective, WholeModel(model))
        shard(module, objective)
        return module
    # A share may leave weights out, such as those of an expert that no token chose.
    return DistributedDataParallel(LossModule(model, objective), find_unused_parameters=True)


def whole_model(replica: nn.Module) -> AbstractContextManager[nn.Module]:
    """Return the context of the model with all of its weights, for validation and for its file. All
    processes enter it."""
    module = replica.module if isinstance(replica, DistributedDataParallel) else replica
    if not isinstance(module, LossModule):
        raise TypeError(f"replica: expected the module of replica_of, got {type(module).__name__}")
    return module.whole.gathered() if module.whole else nullcontext(module.model)


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
    """Give the weights and Adam's moments of the first process to all, unless each process has its
    own shards of them."""
    if processes.number() == 1 or is_sharded(model):
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
