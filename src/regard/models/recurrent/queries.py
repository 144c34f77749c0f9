"""Queries of a recurrent decoder: which of its vectors is compared with the keys.

state           state of the top layer: s_{t-1} with attention before the update (Bahdanau et al.
                2015), s_t with attention after it (Luong et al. 2015)
first_layer     state of the bottom layer
input           embedding of the input token
last_two        state of this query and state of the previous one, concatenated
same_position   value of the memory at the target position, for tasks with aligned positions
learned         one learned vector, used at every step
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from regard.models.memory import PreparedMemory
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class DecoderInputs:
    """Vectors of a decoder from which queries are made. The target axis counts target positions if
    all steps are computed together, and hypotheses in a single step."""

    layers: Sequence[Float[Tensor, "batch target _"]]
    """Vectors of each layer, lowest first: recurrent states with attention before the update,
    outputs with attention after it."""
    embedded: Float[Tensor, "batch target embedding"]
    """Embeddings of the input tokens."""


@runtime_checkable
class Query(Protocol):
    """Function from decoder inputs to queries."""

    @property
    def size(self) -> int:
        """Size of a query."""

    @property
    def is_stateful(self) -> bool:
        """Whether a step needs the state of the step before, so that steps must run in order."""

    def start(self, memory: PreparedMemory) -> Any:
        """Return the state before the first step, with axes batch and hypothesis first and one
        hypothesis a sentence; None for a query without state."""

    def __call__(
        self, inputs: DecoderInputs, memory: PreparedMemory, state: Any
    ) -> tuple[Float[Tensor, "batch target query"], Any]:
        """Return the queries and the state after the step."""


class StateQuery(nn.Module):
    """State of a layer, by default of the highest."""

    is_stateful = False

    def __init__(self, size: int, layer: int = -1) -> None:
        super().__init__()
        self.size = size
        self.layer = layer

    def start(self, memory: PreparedMemory) -> None:
        """Return None: the query has no state."""

    def forward(
        self, inputs: DecoderInputs, memory: PreparedMemory, state: None
    ) -> tuple[Float[Tensor, "batch target query"], None]:
        del memory
        return inputs.layers[self.layer], state


class InputQuery(nn.Module):
    """Embedding of the input token."""

    is_stateful = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def start(self, memory: PreparedMemory) -> None:
        """Return None: the query has no state."""

    def forward(
        self, inputs: DecoderInputs, memory: PreparedMemory, state: None
    ) -> tuple[Float[Tensor, "batch target query"], None]:
        del memory
        return inputs.embedded, state


class LearnedQuery(nn.Module):
    """One learned vector, used at every step."""

    is_stateful = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.vector = nn.Parameter(torch.empty(size).normal_(std=size**-0.5))

    def start(self, memory: PreparedMemory) -> None:
        """Return None: the query has no state."""

    def forward(
        self, inputs: DecoderInputs, memory: PreparedMemory, state: None
    ) -> tuple[Float[Tensor, "batch target query"], None]:
        del memory
        return self.vector.expand(*inputs.embedded.shape[:2], -1), state


class LastTwoQuery(nn.Module):
    """Highest state concatenated with that of the previous step, which is zeros at first."""

    is_stateful = True

    def __init__(self, state_size: int) -> None:
        super().__init__()
        self.size = 2 * state_size

    def start(self, memory: PreparedMemory) -> Float[Tensor, "batch 1 hidden"]:
        return memory.values.new_zeros(len(memory.values), 1, self.size // 2)

    def forward(
        self,
        inputs: DecoderInputs,
        memory: PreparedMemory,
        state: Float[Tensor, "batch target hidden"],
    ) -> tuple[Float[Tensor, "batch target query"], Float[Tensor, "batch target hidden"]]:
        del memory
        highest = inputs.layers[-1]
        return torch.cat([highest, state.to(highest.dtype)], dim=-1), highest


class SamePositionQuery(nn.Module):
    """Value of the memory at the target position; after the end of the source, its last value."""

    is_stateful = True

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def start(self, memory: PreparedMemory) -> Int[Tensor, "batch 1"]:
        """Return the position of the first target token."""
        return torch.zeros(len(memory.mask), 1, dtype=torch.long, device=memory.mask.device)

    def forward(
        self, inputs: DecoderInputs, memory: PreparedMemory, state: Int[Tensor, "batch target"]
    ) -> tuple[Float[Tensor, "batch target query"], Int[Tensor, "batch target"]]:
        del inputs
        last = memory.mask.sum(dim=-1) - 1  # "batch 1"
        sentences = torch.arange(len(last), device=last.device)[:, None]
        return memory.values[sentences, state.minimum(last)], state + 1
