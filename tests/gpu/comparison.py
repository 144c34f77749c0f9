"""Numbers of a device compared with those of the CPU in float64.

An error is the norm of the difference over the norm of the CPU's numbers. Its bounds follow from
the precision: 24, 11, 8 and 11 bits, with room for sums and for functions that enlarge errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import get_args

import torch
from torch import Tensor, nn

from regard.names import Precision
from tests.gpu import devices

BOUNDS = {"float32": 5e-4, "tf32": 2e-2, "bfloat16": 0.15, "float16": 2e-2}
"""Largest error of each precision."""
OF_GRADIENTS = 10
"""Largest error of gradients, over that of outputs."""


def all_precisions() -> tuple[str, ...]:
    """Return the precisions of training, TF32 and float16; an emulated device has float32 alone."""
    if devices.NAME == "emulated":
        return ("float32",)
    return tuple(dict.fromkeys((*get_args(Precision), *BOUNDS)))


@contextmanager
def computing(precision: str, device: torch.device) -> Iterator[None]:
    """Compute in a precision, as `training.precision` does."""
    with tf32(allowed=precision == "tf32"), cast(precision, device):
        yield


@contextmanager
def tf32(*, allowed: bool) -> Iterator[None]:
    """Allow or forbid TF32 in products of float32 numbers and in cuDNN's layers."""
    libraries = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [library.allow_tf32 for library in libraries]
    for library in libraries:
        library.allow_tf32 = allowed
    try:
        yield
    finally:
        for library, was_allowed in zip(libraries, before, strict=True):
            library.allow_tf32 = was_allowed


def cast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Return the context of autocast."""
    is_cast = precision in ("bfloat16", "float16")
    dtype = getattr(torch, precision) if is_cast else None
    return torch.autocast(device.type, dtype, enabled=is_cast)


def differentiable(model: nn.Module) -> nn.Module:
    """Put recurrent layers, which have no dropout, into training mode: in evaluation, those of
    cuDNN have no gradients."""
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.train()
    return model


def gradients(model: nn.Module) -> Tensor:
    """Return all gradients of a model in one vector, on the CPU."""
    grads = [weight.grad for weight in model.parameters() if weight.grad is not None]
    return torch.cat([grad.cpu().double().flatten() for grad in grads])


def assert_close(
    results: Mapping[str, Tensor], expected: Mapping[str, Tensor], precision: str
) -> None:
    """Fail if an error exceeds the bound of the precision. Gradients in float16 need a scaled loss,
    which training does not have."""
    assert results.keys() == expected.keys()
    for name, wanted in expected.items():
        if (name, precision) == ("gradients", "float16"):
            continue
        bound = BOUNDS[precision] * (OF_GRADIENTS if name == "gradients" else 1)
        error = relative_error(results[name], wanted)
        assert error <= bound, f"{name} in {precision}: error {error:.2g}, expected {bound:.2g}"


def relative_error(result: Tensor, wanted: Tensor) -> float:
    """Return the error of a result. Infinite numbers, as of words that cannot be copied, must be
    equal."""
    result, wanted = result.detach().cpu().double(), wanted.detach().cpu().double()
    assert result.shape == wanted.shape
    infinite = wanted.isinf()
    assert torch.equal(result[infinite], wanted[infinite])
    difference = (result - wanted)[~infinite].norm()
    assert difference.isfinite(), "a result is not a number"
    return float(difference / wanted[~infinite].norm().clamp(min=1e-12))
