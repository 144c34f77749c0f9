"""Products with a weight of int8 numbers (`regard/kernels/layers/integers.hpp`), on a CPU.

A weight is quantised once, when a model is frozen: each column is a scale times integers from -127
to 127. The rows of the inputs are quantised at every call, each with its own scale and minimum, to
integers from 0 to 127. Sums of products of integers are exact, so a product is the same on every
CPU; only GELU differs in its last digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from regard import kernels
from regard.numerics.panels import (
    PackedMatrix,
    PanelsStructure,
    aligned,
    check_array,
    check_matrix,
    num_panels,
)
from regard.shapes import Float, Int, Tensor

LARGEST = 127
"""Largest integer of a weight and of an input."""
MAX_INNER = (2**31 - 1) // (LARGEST * LARGEST)
"""Maximum number of inputs: more products could exceed an int32. regard/kernels/sizes.hpp has the
same limit."""
TOGETHER = 4
"""Inputs of a column whose integers lie side by side."""


@dataclass(frozen=True)
class IntegerPanels(PackedMatrix):
    """Weight "column inner" as integers in panels of one instruction set.

    A product quantises its inputs. A row of inputs with NaN or infinity becomes NaN."""

    numbers: Int[Tensor, "_"]
    scales: Float[Tensor, "column"]
    totals: Float[Tensor, "column"]
    """Sum of each column, as quantised."""

    @classmethod
    def of(cls, weight: Float[Tensor, "column inner"]) -> IntegerPanels:
        """Quantise a weight for the instruction set in use. A column with NaN, infinity or a sum
        beyond the range of float32 becomes NaN. ValueError if the weight is not a matrix in float32
        on a CPU, or has more inputs than `MAX_INNER`."""
        check_matrix(weight)
        return cls.of_integers(*quantised(kernels.dense(weight.detach())))

    @classmethod
    def of_integers(
        cls, integers: Int[Tensor, "column inner"], scales: Float[Tensor, "column"]
    ) -> IntegerPanels:
        """Pack a quantised weight for the instruction set in use: int8 numbers from -127 to 127,
        and scales in float32. ValueError for other shapes, types, devices or numbers, and for more
        inputs than `MAX_INNER`."""
        check_matrix(integers, torch.int8)
        columns, inner = integers.shape
        if inner > MAX_INNER:
            raise ValueError(f"weight: expected at most {MAX_INNER} inputs for int8, got {inner}")
        if integers.numel() and integers.min() < -LARGEST:
            raise ValueError(f"weight: expected numbers from -{LARGEST} to {LARGEST}, got -128")
        check_array("scales", scales, (columns,))
        panel = 2 * kernels.lanes()
        panels, groups = num_panels(columns, panel), -(-inner // TOGETHER)
        padding = (0, groups * TOGETHER - inner, 0, panels * panel - columns)
        matrix = F.pad(integers, padding).view(panels, panel, groups, TOGETHER)
        numbers = aligned(matrix.numel() // TOGETHER).view(torch.int8)
        numbers.view(panels, groups, panel, TOGETHER).copy_(matrix.transpose(1, 2))
        totals = integers.sum(dim=1, dtype=torch.float32) * scales
        scales = torch.where(totals.isfinite(), scales, torch.nan)
        return cls(columns, inner, kernels.lanes(), numbers, scales, totals)

    def integers(self) -> Int[Tensor, "column inner"]:
        """Return the integers as a plain matrix."""
        panel, groups = 2 * self.lanes, -(-self.inner // TOGETHER)
        panels = self.numbers.view(num_panels(self.columns, panel), groups, panel, TOGETHER)
        rows = panels.transpose(1, 2).flatten(2, 3).flatten(0, 1)
        return rows[: self.columns, : self.inner].clone()

    def plain(self) -> Float[Tensor, "column inner"]:
        """Return the weight as a plain matrix, with the errors of its quantisation."""
        return self.integers() * self.scales[:, None]

    def repacked(self) -> IntegerPanels:
        """Return the same integers in panels of the instruction set in use."""
        return IntegerPanels.of_integers(self.integers(), self.scales)

    def structure(self, bias: Float[Tensor, "column"] | None) -> PanelsStructure:
        """Return addresses and sizes, for a kernel. The arrays and the bias must outlive it."""
        addresses, sizes = kernels.places(None, self.numbers, bias, self.scales, self.totals)
        return PanelsStructure(*addresses, self.columns, self.inner, self.lanes, sizes)


def quantised(
    weight: Float[Tensor, "column inner"],
) -> tuple[Int[Tensor, "column inner"], Float[Tensor, "column"]]:
    """Return integers and the scale of each column: the nearest integers to weight / scale, with
    the largest number of a column at 127 or -127. The scale is NaN for a column that is not
    finite."""
    largest = weight.abs().amax(dim=1) if weight.size(1) else weight.new_zeros(len(weight))
    scales = largest / LARGEST + largest * 0
    ratios = torch.where(scales[:, None] > 0, weight / scales[:, None], 0)
    return ratios.round().clamp(-LARGEST, LARGEST).to(torch.int8), scales
