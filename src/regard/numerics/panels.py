"""Products with a weight in panels (`regard/kernels/layers/products.hpp`), on a CPU in float32.
`int8_panels.py` has panels of int8 numbers.

A panel has the numbers of some columns side by side, as one instruction set reads them. Unlike the
products of PyTorch's libraries, a row has the same result in a product of any number of rows.
"""

from __future__ import annotations

import ctypes
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch

from regard import kernels
from regard.names import Activation
from regard.shapes import Float, Tensor

ALIGNMENT = 64
"""Bytes of a cache line."""
ACTIVATIONS = ("none", "relu", "gelu")
"""Activations in the order of `Activation` of regard/kernels/models/step.hpp."""
ActivationName = Activation | Literal["none"]


@kernels.structure("Packed")
class PanelsStructure(ctypes.Structure):
    """`Packed` of regard/kernels/models/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("panels", "integers", "bias", "scales", "totals")),
        *((name, ctypes.c_int64) for name in ("columns", "inner", "lanes")),
        ("bytes", ctypes.c_int64 * 5),
    ]


@kernels.structure("Product")
class _Product(ctypes.Structure):
    """`Product` of regard/kernels/models/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("weight", "x", "y", "z")),
        *((name, ctypes.c_int64) for name in ("rows", "x_step", "activation", "threads")),
        ("bytes", ctypes.c_int64 * 3),
    ]


@dataclass(frozen=True)
class PackedMatrix(ABC):
    """Weight "column inner" in the memory layout of a product, for one instruction set."""

    columns: int
    inner: int
    lanes: int

    @abstractmethod
    def plain(self) -> Float[Tensor, "column inner"]:
        """Return the weight as a plain matrix."""

    @abstractmethod
    def repacked(self) -> PackedMatrix:
        """Return the weight in the layout of the instruction set in use."""

    @abstractmethod
    def structure(self, bias: Float[Tensor, "column"] | None) -> PanelsStructure:
        """Return addresses and sizes, for a kernel. The arrays and the bias must outlive it."""

    def product(
        self,
        inputs: Float[Tensor, "*batch inner"],
        bias: Float[Tensor, "column"] | None = None,
        activation: ActivationName = "none",
        add: Float[Tensor, "*batch column"] | None = None,
    ) -> Float[Tensor, "*batch column"]:
        """Return activation(inputs @ weight.T + bias) + add, without gradients. ValueError for
        shapes, types or devices that do not fit, and for panels of another instruction set."""
        return PackedLayer(self, bias).product(inputs, activation, add)


class PackedLayer:
    """Packed weight with a bias, for products of any number of inputs."""

    def __init__(self, weight: PackedMatrix, bias: Float[Tensor, "column"] | None = None) -> None:
        """ValueError unless the bias is float32 on a CPU, with one number for each column."""
        if bias is not None:
            check_array("bias", bias, (weight.columns,))
            bias = kernels.dense(bias)
        self._weight, self._bias = weight, bias
        self._structure = weight.structure(bias)

    def product(
        self,
        inputs: Float[Tensor, "*batch inner"],
        activation: ActivationName = "none",
        add: Float[Tensor, "*batch column"] | None = None,
    ) -> Float[Tensor, "*batch column"]:
        """Return activation(inputs @ weight.T + bias) + add, without gradients. ValueError for
        shapes, types or devices that do not fit, and for panels of another instruction set."""
        weight = self._weight
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation: expected one of {ACTIVATIONS}, got {activation!r}")
        if weight.lanes != kernels.lanes():
            raise ValueError(
                f"panels of {weight.lanes} lanes: the instruction set in use has "
                f"{kernels.lanes()}; pack the weight again"
            )
        axes = inputs.shape[:-1]
        check_array("inputs", inputs, (*axes, weight.inner))
        inputs = kernels.dense(inputs)
        if add is not None:
            check_array("add", add, (*axes, weight.columns))
            add = kernels.dense(add)
        output = inputs.new_empty(*axes, weight.columns)
        addresses, sizes = kernels.places(inputs, output, add)
        problem = _Product(
            ctypes.addressof(self._structure),
            *addresses,
            math.prod(axes),
            weight.inner,
            ACTIVATIONS.index(activation),
            torch.get_num_threads(),
            sizes,
        )
        kernels.call("multiply", problem)
        return output


@dataclass(frozen=True)
class Panels(PackedMatrix):
    """Weight "column inner" in panels of one instruction set."""

    numbers: Float[Tensor, "_"]

    @classmethod
    def of(cls, weight: Float[Tensor, "column inner"]) -> Panels:
        """Pack a weight for the instruction set in use. ValueError if it is not a matrix in float32
        on a CPU."""
        check_matrix(weight)
        weight = kernels.dense(weight.detach())
        columns, inner = weight.shape
        panel = 2 * kernels.lanes()
        numbers = aligned(num_panels(columns, panel) * panel * inner)
        panels = cls(columns, inner, kernels.lanes(), numbers)
        kernels.call("pack", kernels.place(weight), weight.nbytes, panels.structure(None))
        return panels

    def plain(self) -> Float[Tensor, "column inner"]:
        """Return the weight as a plain matrix."""
        panel = 2 * self.lanes
        panels = self.numbers.view(num_panels(self.columns, panel), self.inner, panel)
        return panels.transpose(1, 2).flatten(0, 1)[: self.columns].clone()

    def repacked(self) -> Panels:
        """Return the weight in panels of the instruction set in use."""
        return Panels.of(self.plain())

    def structure(self, bias: Float[Tensor, "column"] | None) -> PanelsStructure:
        """Return addresses and sizes, for a kernel. The panels and the bias must outlive it."""
        addresses, sizes = kernels.places(self.numbers, None, bias, None, None)
        return PanelsStructure(*addresses, self.columns, self.inner, self.lanes, sizes)


def check_matrix(weight: Tensor, dtype: torch.dtype = torch.float32) -> None:
    """Check a weight. ValueError unless it is a matrix of this type on a CPU."""
    if weight.dim() != 2 or weight.dtype != dtype or not weight.is_cpu:
        raise ValueError(
            f"weight: expected a matrix of {_name(dtype)} on cpu, got {tuple(weight.shape)} of "
            f"{_name(weight.dtype)} on {weight.device}"
        )


def check_array(
    name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> None:
    """Check an argument of a kernel. ValueError for another shape, type or device."""
    if tensor.shape != shape or tensor.dtype != dtype or not tensor.is_cpu:
        raise ValueError(
            f"{name}: expected {tuple(shape)} of {_name(dtype)} on cpu, got {tuple(tensor.shape)} "
            f"of {_name(tensor.dtype)} on {tensor.device}"
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def num_panels(columns: int, panel: int) -> int:
    """Return the number of panels that hold these columns."""
    return -(-columns // panel)


def aligned(count: int) -> Float[Tensor, "_"]:
    """Return room for numbers from the beginning of a cache line on."""
    spare = ALIGNMENT // 4
    room = torch.empty(count + spare, dtype=torch.float32, device="cpu")
    skipped = -room.data_ptr() % ALIGNMENT // 4
    return room[skipped : skipped + count]
