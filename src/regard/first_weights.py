"""Initial weights that differ from torch's, and models on the meta device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.shapes import Tensor


def glorot_uniform(linear: nn.Linear, num_parts: int = 1) -> None:
    """Glorot and Bengio's uniform weights (2010, eq. 16), in each by itself of so many matrices of
    one size that are stacked in the layer, and no bias."""
    for part in linear.weight.chunk(num_parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Build modules on the meta device: shapes and types, without memory for numbers."""
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Draws no normal numbers on the meta device: PyTorch would import its compiler, in a second,
    to do nothing."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        arguments: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        del types
        options = options or {}
        if function in (torch.Tensor.normal_, nn.init.normal_):
            tensor: Tensor = arguments[0] if arguments else options["tensor"]
            if tensor.is_meta:
                return tensor
        return function(*arguments, **options)
