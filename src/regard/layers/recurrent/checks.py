"""Checks of the arguments of recurrent stacks. Each raises a ValueError."""

from __future__ import annotations

from torch import nn

from regard.names import CellKind
from regard.shapes import Float, Tensor


def check_inputs(inputs: Tensor, num_axes: int, size: int, layer: nn.Module) -> None:
    """Check the inputs of the lowest layer."""
    if inputs.dim() != num_axes or inputs.size(-1) != size:
        axes = ("batch", "position", "input")[: num_axes - 1]
        raise ValueError(
            f"inputs: expected ({', '.join(axes)}, {size}), got shape {tuple(inputs.shape)}"
        )
    weight = getattr(layer, "weight_ih_l0", None)  # a replaced layer may have none
    if isinstance(weight, Tensor) and weight.device != inputs.device:
        raise ValueError(
            f"inputs: expected a tensor on {weight.device} as the weights, got one on "
            f"{inputs.device}"
        )


def check_state(
    inputs: Tensor,
    hidden: Float[Tensor, "batch layer hidden"],
    cell: Float[Tensor, "batch layer hidden"] | None,
    kind: CellKind,
    shape: tuple[int, int],
) -> None:
    """Check the state before the first position. `shape` is its number of layers and its size."""
    state, device = (inputs.size(0), *shape), inputs.device
    for name, tensor in (("hidden", hidden), ("cell", cell)):
        if tensor is not None and (tensor.shape != state or tensor.device != device):
            raise ValueError(
                f"{name}: expected (batch, layer, hidden) = {state} on {inputs.device}, got "
                f"{tuple(tensor.shape)} on {tensor.device}"
            )
    if (cell is None) == (kind == "lstm"):
        came = "none" if cell is None else "one"
        raise ValueError(f"cell: expected for an lstm alone, got {came} for {kind}")
