"""Frozen modules whose work is one call in C++, with structures of their weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import torch
from torch import nn

from regard import kernels
from regard.compiled.exact import is_exactly
from regard.compiled.snapshot import Snapshot
from regard.models.contracts import AttentionBlock, DecoderOutput, Memory, TrainedDecoder
from regard.names import AttentionKind
from regard.numerics.linear import Linear, panels_of
from regard.numerics.panels import PackedLayer, PackedMatrix, PanelsStructure, check_array
from regard.runtime.modes import is_cast
from regard.shapes import Float, Int, Tensor


class ReferencedArrays:
    """Panels and arrays that structures refer to. A parameter that is replaced later stays here, so
    that its memory is not freed."""

    def __init__(self) -> None:
        self.panels: list[PackedMatrix] = []
        self.arrays: list[Tensor] = []

    def array(self, name: str, parameter: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return the numbers of a parameter. ValueError if they have another shape, type or
        device."""
        check_array(name, parameter, shape)
        self.arrays.append(kernels.dense(parameter.detach()))
        return self.arrays[-1]

    def matrix(
        self, weight: Float[Tensor, "column inner"], bias: Float[Tensor, "column"] | None = None
    ) -> PanelsStructure:
        """Return the structure of a weight and its bias. ValueError as for `array`."""
        self.panels.append(panels_of(weight))
        if bias is not None:
            bias = self.array("bias of a linear layer", bias, (weight.size(0),))
        return self.panels[-1].structure(bias)

    def linear(self, linear: nn.Linear) -> PanelsStructure:
        """Return the structure of a linear layer."""
        return self.matrix(linear.weight, linear.bias)


@dataclass(frozen=True)
class Structures:
    """Structures of the weights of all layers, for one instruction set. They refer to `arrays`."""

    layers: Any
    arrays: ReferencedArrays
    lanes: int = field(default_factory=kernels.lanes, init=False)


@dataclass(frozen=True)
class DecoderStructures(Structures):
    """Structures of the weights of a decoder."""

    output: PackedLayer
    """The last layer, from features to logits."""


AnyReference = TypeVar("AnyReference", bound=nn.Module)
AnyStructures = TypeVar("AnyStructures", bound=Structures)
AnyDecoderStructures = TypeVar("AnyDecoderStructures", bound=DecoderStructures)


class NativeModule(nn.Module, ABC, Generic[AnyReference, AnyStructures]):
    """Module that is computed in C++ for inference on a CPU in float32, and by its reference
    otherwise, a module that computes the same in PyTorch.

    The first call makes structures of the weights, which copies and pickles do not have. If parts,
    settings or parameters of the reference are replaced, they are made again."""

    reference: AnyReference
    varies_in_batches = False
    """The kernels compute each sentence by itself."""
    is_private = False
    """Whether no other code has this module, so that its parts are compared by nobody."""
    _snapshot: Snapshot | None = None
    """State of the reference that the structures belong to; None before the first call."""

    def __init__(self, reference: AnyReference) -> None:
        """ValueError for a module with a part that has no kernel."""
        super().__init__()
        if not self.is_supported(reference):
            name = type(reference).__name__
            raise ValueError(f"{name}: a part has no kernel; use the module itself")
        self.reference = reference
        self._weights: AnyStructures | None = None

    @classmethod
    def replacing(cls, reference: AnyReference) -> nn.Module:
        """Return a native module, or the reference if a part of it has no kernel."""
        return cls(reference) if cls.is_supported(reference) else reference

    def renewed(self) -> nn.Module:
        """Return a native module of the present parts, or the reference if a part of it has no
        kernel."""
        return self.replacing(self.reference)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_weights": None, "_snapshot": None}

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Convert the parameters, for example to another type, and forget their structures."""
        self._weights, self._snapshot = None, None
        return super()._apply(function, recurse)

    @staticmethod
    @abstractmethod
    def is_supported(reference: Any, /) -> bool:
        """Whether the kernels compute what every part of a module computes."""

    @abstractmethod
    def _structures(self) -> AnyStructures:
        """Return structures of the weights, for the instruction set in use."""

    def _checked_weights(self, like: Tensor) -> AnyStructures | None:
        """Like `_usable_weights`, but None too if a module of the reference has hooks or replaced
        methods or is in training, or if hooks are registered for all modules. Parts, settings and
        parameters that were replaced have an effect from this call on."""
        if not self._suits(like):
            return None
        if self._snapshot is None or not (self.is_private or self._snapshot.is_current()):
            self._weights, self._snapshot = None, Snapshot(self.reference)
        if not self._snapshot.is_plain or self._snapshot.calls_hooks:
            return None
        return self._present_weights()

    def _usable_weights(self, like: Tensor) -> AnyStructures | None:
        """Return the structures if the kernels can compute such inputs without gradients, neither
        this module nor the reference is in training, and every part had a kernel when the
        structures were made. Submodules are not checked."""
        return self._present_weights() if self._suits(like) else None

    def _present_weights(self) -> AnyStructures | None:
        if self._weights is None or self._weights.lanes != kernels.lanes():
            self._weights = self._structures() if self.is_supported(self.reference) else None
        return self._weights

    def _suits(self, like: Tensor) -> bool:
        if like.dtype != torch.float32 or torch.is_grad_enabled() or not kernels.suit(like):
            return False
        return not (self.training or self.reference.training or is_cast(like))


class NativeDecoder(NativeModule[AnyReference, AnyDecoderStructures]):
    """Frozen decoder whose steps are computed in C++.

    Steps are those of the decoder itself with gradients, autocast or hooks, in training, and for
    other types and devices. `start` looks for changes, hooks and training in all parts, which
    takes longer than a short step. They have an effect from the next `start` on."""

    @property
    def num_memories(self) -> int:
        return cast(TrainedDecoder, self.reference).num_memories

    @property
    def projection(self) -> nn.Linear:
        return cast(TrainedDecoder, self.reference).projection

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        output: DecoderOutput = self.reference(inputs, memories, need_weights=need_weights)
        return output

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        weights = self._usable_weights(features) if is_exactly(self.projection, Linear) else None
        if weights is None:
            return cast(TrainedDecoder, self.reference).project(features)
        return weights.output.product(features)


def packed_layer(linear: nn.Linear) -> PackedLayer:
    """Return a linear layer with its weight packed."""
    bias = None if linear.bias is None else linear.bias.detach()
    return PackedLayer(panels_of(linear.weight), bias)


def check_tokens(tokens: Int[Tensor, "batch hypothesis"], batch: int, num_hypotheses: int) -> None:
    """Check the tokens of a step. ValueError unless there is one int32 or int64 number for each
    hypothesis."""
    dtype = torch.int32 if tokens.dtype == torch.int32 else torch.int64
    check_array("tokens", tokens, (batch, num_hypotheses), dtype)


def attention_block(
    kind: AttentionKind,
    weights: Float[Tensor, "batch layer head target source"],
    scores: Float[Tensor, "batch layer head target source"],
    temperature: float,
) -> AttentionBlock:
    """Return weights and scores of a kernel as a block. The kernel divides the scores by the
    temperature, which the scores of a block exclude."""
    return AttentionBlock(kind, weights, scores if temperature == 1 else scores * temperature)


StateArray = tuple[str, Tensor | None, tuple[int, ...], torch.dtype]
"""Name, numbers, expected shape and expected type of an array of a state."""


def check_state(*arrays: StateArray) -> None:
    """Check the arrays of a state. ValueError for another shape, type or device, and for an array
    that is not contiguous."""
    for name, array, shape, dtype in arrays:
        if array is None:
            continue
        check_array(f"{name} of the state", array, shape, dtype)
        if not array.is_contiguous():
            raise ValueError(f"{name} of the state: expected a contiguous array")
