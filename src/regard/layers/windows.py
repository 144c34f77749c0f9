"""Windows of sequences: the inputs of a convolution at each position, joined to one vector.

A convolution is a linear layer of windows. With kernel width k and dilation d, oldest input first:

    centred    x_{i - d (k - 1) / 2}, .., x_i, .., x_{i + d (k - 1) / 2}        k is odd
    causal     x_{i - d (k - 1)}, .., x_{i - d}, x_i

Positions outside the sequence are zeros. A weight `[output, channel, k]` of PyTorch's `conv1d`
becomes `[output, k * channel]` by `weight.mT.flatten(1)`. In decoding, `Window` has the inputs that
the next steps need.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from regard.shapes import Float, Int, Tensor


def centred(
    states: Float[Tensor, "batch position channel"], width: int, dilation: int = 1
) -> Float[Tensor, "batch position window"]:
    """Return the window around each position. ValueError for an even width, and for a width or a
    dilation below 1."""
    _check_sizes(width, dilation)
    if width % 2 == 0:
        raise ValueError(f"width: centred windows expected an odd width, got {width}")
    margin = (width - 1) // 2 * dilation
    return _slices(F.pad(states, (0, 0, margin, margin)), states.size(1), width, dilation)


def causal(
    states: Float[Tensor, "batch position channel"], width: int, dilation: int = 1
) -> Float[Tensor, "batch position window"]:
    """Return the window that ends at each position. ValueError for a width or a dilation below
    1."""
    _check_sizes(width, dilation)
    padded = F.pad(states, (0, 0, (width - 1) * dilation, 0))
    return _slices(padded, states.size(1), width, dilation)


def _check_sizes(width: int, dilation: int) -> None:
    for name, size in (("width", width), ("dilation", dilation)):
        if size < 1:
            raise ValueError(f"{name} of a window: expected a number from 1, got {size}")


def _slices(
    padded: Float[Tensor, "batch positions channel"], length: int, width: int, dilation: int
) -> Float[Tensor, "batch position window"]:
    if width == 1:
        return padded
    shifts = range(0, width * dilation, dilation)
    return torch.cat([padded[:, shift : shift + length] for shift in shifts], dim=-1)


@dataclass(frozen=True)
class Window:
    """Last (width - 1) * dilation inputs of a causal convolution, for each hypothesis. Before the
    first input they are zeros."""

    inputs: Float[Tensor, "batch hypothesis step channel"]
    dilation: int

    @classmethod
    def empty(
        cls, like: Float[Tensor, "batch *_"], channels: int, width: int, dilation: int = 1
    ) -> Window:
        """Return the window before the first input, for one hypothesis a sentence, in the type and
        on the device of `like`. ValueError for a width or a dilation below 1."""
        _check_sizes(width, dilation)
        return cls(like.new_zeros(len(like), 1, (width - 1) * dilation, channels), dilation)

    def append(
        self, new: Float[Tensor, "batch hypothesis channel"]
    ) -> tuple[Float[Tensor, "batch hypothesis window"], Window]:
        """Return the window that ends at a new input, and the inputs for the next step."""
        inputs = torch.cat([self.inputs, new[:, :, None]], dim=2)
        return inputs[:, :, :: self.dilation].flatten(2), Window(inputs[:, :, 1:], self.dilation)

    def select(self, hypotheses: Int[Tensor, "batch hypotheses"]) -> Window:
        """Return the windows of these hypotheses of each sentence."""
        rows = torch.arange(len(hypotheses), device=hypotheses.device)[:, None]
        return Window(self.inputs[rows, hypotheses], self.dilation)

    def keep(self, sentences: Int[Tensor, "kept"]) -> Window:
        """Return the windows of these sentences."""
        return Window(self.inputs[sentences], self.dilation)
