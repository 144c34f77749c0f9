"""Frozen modules whose work is one call in C++, with structures of their weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from regard import kernels
from regard.fast_path import is_cast
from regard.shapes import Tensor


@runtime_checkable
class PackedStructures(Protocol):
    """Structures of weights, for one instruction set."""

    @property
    def lanes(self) -> int: ...


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
