"""Frozen modules whose work is one call in C++, with structures of their weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from regard import kernels
from regard.fast_path import is_cast
from regard.linear import panels_of
from regard.panels import PackedMatrix, PanelsStructure, check_array
from regard.shapes import Float, Tensor


@runtime_checkable
class PackedStructures(Protocol):
    """Structures of weights, for one instruction set."""

    @property
    def lanes(self) -> int: ...


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


AnyStructures = TypeVar("AnyStructures", bound=PackedStructures)


class NativeModule(nn.Module, Generic[AnyStructures]):
    """Module that is computed in C++ for inference on a CPU in float32.

    The first call makes structures of the weights, which copies and pickles do not have. The
    module's parts must not be replaced after that."""

    def __init__(self) -> None:
        super().__init__()
        self._weights: AnyStructures | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_weights": None}

    def _apply(self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Convert the parameters, for example to another type, and forget their structures."""
        self._weights = None
        return super()._apply(function, recurse)

    @abstractmethod
    def _structures(self) -> AnyStructures:
        """Return structures of the weights, for the instruction set in use."""

    def _usable_weights(self, like: Tensor) -> AnyStructures | None:
        """Return the structures if the kernels can compute such inputs."""
        if like.dtype != torch.float32 or torch.is_grad_enabled() or not kernels.suit(like):
            return None
        if self.training or is_cast(like):
            return None
        if self._weights is None or self._weights.lanes != kernels.lanes():
            self._weights = self._structures()
        return self._weights
