"""Division of a model among processes, by PyTorch's `fully_shard`.

layer      gathered for its forward pass, and again for its backward pass
the rest   (embeddings, projections, recurrent layers) gathered for a whole batch
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from torch import nn

from regard.attention import MultiHeadAttention
from regard.layers.weight_norm import NormalisedLinear
from regard.models.convolution.dilated_convolution import DilatedBlock
from regard.models.transformer import DecoderLayer, EncoderLayer
from regard.runtime import processes
from regard.training.objectives.objective import NextToken, Objective
from regard.training.objectives.reward import RewardObjective
from regard.training.objectives.teacher_forcing import ALL_TRUE
from regard.training.parallel.shards import whole_tensor

LAYERS: Mapping[type[nn.Module], tuple[str, ...]] = {
    EncoderLayer: ("forward",),
    DecoderLayer: ("forward",),
    MultiHeadAttention: ("prepare", "forward"),  # keys are projected before the decoder's layers
    NormalisedLinear: ("forward",),
    DilatedBlock: ("before", "after"),
}
"""Layers that are gathered one by one, with all methods that read their weights."""


def shard(module: nn.Module, objective: Objective) -> None:
    """Divide the weights of a module among the processes. Before each forward pass, buffers are
    those of the first process.

    With an objective that decodes, the number of calls of a layer differs between processes, so
    layers are not gathered one by one."""
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    # Nothing in the models changes the output of a layer in place.
    warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module .* returned a view tensor")
    if list(module.buffers()):
        module.register_forward_pre_hook(_copy_buffers_from_first)
    layers = [] if _decodes(objective) else list(module.modules())
    for layer in reversed(layers):  # parts of a layer come before the layer
        methods = LAYERS.get(type(layer), ())
        if methods:
            fully_shard(layer)
        for method in methods:
            if method != "forward":
                register_fsdp_forward_method(layer, method)
    fully_shard(module)


def _copy_buffers_from_first(module: nn.Module, _arguments: Any) -> None:
    for buffer in module.buffers():
        processes.copy_from_first(buffer)


def _decodes(objective: Objective) -> bool:
    """Return whether the loss decodes, so that the number of steps depends on the batch."""
    if isinstance(objective, NextToken):
        return objective.teacher_forcing != ALL_TRUE
    return isinstance(objective, RewardObjective)


class WholeModel:
    """Copy of a model that has all weights while they are needed: in validation, and for the file
    of the model."""

    def __init__(self, model: nn.Module) -> None:
        """Copy a model that is not sharded yet, without its weights."""
        empty = {
            id(weight): nn.Parameter(weight.detach().new_empty(0), weight.requires_grad)
            for weight in model.parameters()
        }
        self._model, self._copy = model, copy.deepcopy(model, cast(dict[int, Any], empty))

    @contextmanager
    def gathered(self) -> Iterator[nn.Module]:
        """Gather all weights for the block, one after the other. All processes call this method."""
        shards = dict(self._model.named_parameters())
        for name, weight in self._copy.named_parameters():
            weight.data = whole_tensor(shards[name].detach())
        for buffer, values in zip(self._copy.buffers(), self._model.buffers(), strict=True):
            buffer.copy_(values)
        try:
            yield self._copy
        finally:
            for weight in self._copy.parameters():
                weight.data = weight.data.new_empty(0)
