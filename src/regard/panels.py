"""Products with a weight in panels (`regard/kernels/products.hpp`), on a CPU in float32.

A panel has the numbers of some columns side by side, as one instruction set reads them. Unlike the
products of PyTorch's libraries, a row has the same result in a product of any number of rows.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Literal

import torch

from regard import kernels
from regard.shapes import Float, Tensor

ALIGNMENT = 64
"""Bytes of a cache line."""
ACTIVATIONS = ("none", "relu", "gelu")
ActivationName = Literal["none", "relu", "gelu"]


@kernels.structure("Packed")
class PanelsStructure(ctypes.Structure):
    """`Packed` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("panels", "bias")),
        *((name, ctypes.c_int64) for name in ("columns", "inner", "lanes")),
        ("bytes", ctypes.c_int64 * 2),
    ]


@kernels.structure("Product")
class _Product(ctypes.Structure):
    """`Product` of regard/kernels/step.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("weight", "x", "y", "z")),
        *((name, ctypes.c_int64) for name in ("rows", "x_step", "activation", "threads")),
        ("bytes", ctypes.c_int64 * 3),
    ]


@dataclass(frozen=True)
class Panels:
    """Weight "column inner" in panels, for the instruction set in use, and a bias."""

    numbers: Float[Tensor, "_"]
    bias: Float[Tensor, "column"]
    columns: int
    inner: int
    lanes: int

    @classmethod
    def of(
        cls, weight: Float[Tensor, "column inner"], bias: Float[Tensor, "column"] | None
    ) -> Panels:
        """Pack a weight. ValueError if it or the bias is not in float32 on a CPU."""
        weight = weight.detach()
        weight = kernels.dense(weight.to_dense() if weight.is_mkldnn else weight)
        bias = weight.new_zeros(len(weight)) if bias is None else kernels.dense(bias.detach())
        if not weight.dtype == bias.dtype == torch.float32 or weight.device.type != "cpu":
            raise ValueError(
                f"weight and bias: expected float32 on cpu, got {weight.dtype} and {bias.dtype} on "
                f"{weight.device}"
            )
        if bias.shape != (len(weight),):
            raise ValueError(f"bias: expected {len(weight)} numbers, got {tuple(bias.shape)}")
        columns, inner = weight.shape
        panel = 2 * kernels.lanes()
        numbers = _aligned(-(-columns // panel) * panel * inner)
        panels = cls(numbers, bias, columns, inner, kernels.lanes())
        kernels.call("pack", kernels.place(weight), weight.nbytes, panels.structure())
        return panels

    def structure(self) -> PanelsStructure:
        """Return addresses and sizes, for a kernel. The panels must outlive it."""
        return PanelsStructure(
            kernels.place(self.numbers),
            kernels.place(self.bias),
            self.columns,
            self.inner,
            self.lanes,
            (self.numbers.nbytes, self.bias.nbytes),
        )

    def product(
        self,
        inputs: Float[Tensor, "*batch inner"],
        activation: ActivationName = "none",
        add: Float[Tensor, "*batch column"] | None = None,
    ) -> Float[Tensor, "*batch column"]:
        """Return activation(inputs @ weight.T + bias) + add, without gradients. ValueError for
        shapes, types or devices that do not fit."""
        rows = kernels.dense(inputs.reshape(math.prod(inputs.shape[:-1]), inputs.size(-1)))
        output = rows.new_empty(len(rows), self.columns)
        if rows.size(1) != self.inner or rows.dtype != torch.float32:
            raise ValueError(
                f"inputs: expected {self.inner} numbers of float32 in the last axis, got "
                f"{inputs.size(-1)} of {inputs.dtype}"
            )
        shape = (*inputs.shape[:-1], self.columns)
        if add is not None:
            if add.shape != shape or add.dtype != torch.float32:
                raise ValueError(
                    f"add: expected {shape} of float32, got {tuple(add.shape)} of {add.dtype}"
                )
            add = kernels.dense(add)
        weight = self.structure()
        addresses, sizes = kernels.places(rows, output, add)
        problem = _Product(
            ctypes.addressof(weight),
            *addresses,
            len(rows),
            self.inner,
            ACTIVATIONS.index(activation),
            torch.get_num_threads(),
            sizes,
        )
        kernels.call("multiply", problem)
        return output.view(shape)


def _aligned(count: int) -> Float[Tensor, "_"]:
    """Return room for numbers from the beginning of a cache line on."""
    spare = ALIGNMENT // 4
    room = torch.empty(count + spare, dtype=torch.float32, device="cpu")
    skipped = -room.data_ptr() % ALIGNMENT // 4
    return room[skipped : skipped + count]
