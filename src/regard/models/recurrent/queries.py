"""What a recurrent decoder asks: which of the things that it has at hand becomes the query.

state        its highest layer's state: s_{t-1} where it asks first (Bahdanau et al. 2015), s_t
             where it asks after (Luong et al. 2015)
layer        the state of another layer
input        the embedding of the token that it reads
last two     its state beside the one before it
same place   what the encoder made of the source at the place where the target now is, for
             tasks in which both go in step
learned      one question for every step
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
    """What a decoder has at hand when it asks. The target axis counts positions where a target is
    read whole, hypotheses in a step."""

    layers: Sequence[Float[Tensor, "batch target _"]]
    """The states that ask, lowest layer first."""
    embedded: Float[Tensor, "batch target embedding"]


@runtime_checkable
class Query(Protocol):
    """Makes a query of what is at hand."""

    @property
    def size(self) -> int:
        """Numbers in a query."""

    @property
    def is_stateful(self) -> bool:
        """Whether it needs to know of the step before, so that steps go one after the other."""

    def start(self, memory: PreparedMemory) -> Any:
        """What it remembers before the first step, of one hypothesis a sentence; None for one that
        remembers nothing. Axes batch and hypothesis come first."""

    def __call__(
        self, asking: DecoderInputs, memory: PreparedMemory, remembered: Any
    ) -> tuple[Float[Tensor, "batch target query"], Any]: ...


class StateQuery(nn.Module):
    """The state of a layer, the highest unless another is named."""

    is_stateful = False

    def __init__(self, size: int, layer: int = -1) -> None:
        super().__init__()
        self.size = size
        self.layer = layer

    def start(self, memory: PreparedMemory) -> None:
        """Nothing."""

    def forward(
        self, asking: DecoderInputs, memory: PreparedMemory, remembered: None
    ) -> tuple[Float[Tensor, "batch target query"], None]:
        del memory
        return asking.layers[self.layer], remembered


class InputQuery(nn.Module):
    """The embedding of the token that is read."""

    is_stateful = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def start(self, memory: PreparedMemory) -> None:
        """Nothing."""

    def forward(
        self, asking: DecoderInputs, memory: PreparedMemory, remembered: None
    ) -> tuple[Float[Tensor, "batch target query"], None]:
        del memory
        return asking.embedded, remembered


class StepQuery(nn.Module):
    """One learned question, the same at every step."""

    is_stateful = False

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.query = nn.Parameter(torch.empty(size).normal_(std=size**-0.5))

    def start(self, memory: PreparedMemory) -> None:
        """Nothing."""

    def forward(
        self, asking: DecoderInputs, memory: PreparedMemory, remembered: None
    ) -> tuple[Float[Tensor, "batch target query"], None]:
        del memory
        return self.query.expand(*asking.embedded.shape[:2], -1), remembered


class LastTwoQuery(nn.Module):
    """The highest state beside the one that asked before; zeros before the first."""

    is_stateful = True

    def __init__(self, state_size: int) -> None:
        super().__init__()
        self.size = 2 * state_size

    def start(self, memory: PreparedMemory) -> Float[Tensor, "batch 1 hidden"]:
        return memory.values.new_zeros(len(memory.values), 1, self.size // 2)

    def forward(
        self,
        asking: DecoderInputs,
        memory: PreparedMemory,
        remembered: Float[Tensor, "batch target hidden"],
    ) -> tuple[Float[Tensor, "batch target query"], Float[Tensor, "batch target hidden"]]:
        del memory
        state = asking.layers[-1]
        return torch.cat([state, remembered.to(state.dtype)], dim=-1), state


class SamePlaceQuery(nn.Module):
    """The memory's value at the place where the target is; past the source's end its last one."""

    is_stateful = True

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def start(self, memory: PreparedMemory) -> Int[Tensor, "batch 1"]:
        """The place of the next token."""
        return torch.zeros(len(memory.mask), 1, dtype=torch.long, device=memory.mask.device)

    def forward(
        self, asking: DecoderInputs, memory: PreparedMemory, remembered: Int[Tensor, "batch target"]
    ) -> tuple[Float[Tensor, "batch target query"], Int[Tensor, "batch target"]]:
        del asking
        last = memory.mask.sum(dim=-1) - 1  # "batch 1"
        sentences = torch.arange(len(last), device=last.device)[:, None]
        return memory.values[sentences, remembered.minimum(last)], remembered + 1
