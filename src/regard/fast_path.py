"""Conditions under which a kernel may replace a module or a formula in PyTorch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeGuard, TypeVar

import torch
from torch import nn
from torch.autograd import forward_ad

from regard.shapes import Tensor

Kind = TypeVar("Kind")

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Dictionaries of a module with the hooks of its calls."""


class Accelerated:
    """First base of every class that computes the same as its second base, its formula, faster."""


def formula_of(kind: type) -> type:
    """Return the class whose formula an accelerated class computes, and any other class itself."""
    bases = kind.__bases__
    return bases[1] if bases[0] is Accelerated else kind


def kind_of(part: object) -> type:
    """Return the class of an object, or the formula of its accelerated class."""
    return formula_of(type(part))


def is_kind(part: object, kind: type[Kind]) -> TypeGuard[Kind]:
    """Whether an object is of exactly this class or its accelerated class."""
    return kind_of(part) is kind


def is_exactly(part: object, *types: type) -> bool:
    """Whether `part` is of exactly one of these types, or of its accelerated class, and computes
    what its class defines.

    A subclass, a module with hooks and a module with a replaced `forward` may compute something
    else, so no kernel replaces them. Submodules are not checked."""
    kind = type(part)
    if kind not in types and formula_of(kind) not in types:
        return False
    return not isinstance(part, nn.Module) or not _is_changed(part)


def are_unchanged(part: object) -> bool:
    """Whether neither a module nor a submodule has hooks or a replaced `forward`."""
    return not isinstance(part, nn.Module) or not any(map(_is_changed, part.modules()))


def _is_changed(module: nn.Module) -> bool:
    kind: Any = type(module)
    formula: Any = formula_of(kind)
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
        or kind.forward is not _defined_forward(kind)
        or formula.forward is not _defined_forward(formula)
    )


@cache
def _defined_forward(kind: Any) -> Any:
    """Return the `forward` of a class at its first use; None if it was replaced before."""
    owner = next(base for base in kind.__mro__ if "forward" in vars(base))
    return kind.forward if is_defined_by(owner, kind.forward) else None


def is_defined_by(kind: type, value: Any) -> bool:
    """Whether a method comes from the package that defines the class. Other code may have replaced
    it otherwise."""
    return str(getattr(value, "__module__", "")).split(".")[0] in (
        kind.__module__.split(".")[0],
        "builtins",
        "typing",
    )


def is_exported() -> bool:
    """Whether PyTorch records operations for another program: by export, for ONNX, or by a
    trace."""
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    return torch._C._get_tracing_state() is not None


_is_plain = bool(os.environ.get("REGARD_PLAIN"))


@contextmanager
def plain() -> Iterator[None]:
    """Run the formulas instead of all accelerated classes and kernels, in all threads. The
    environment variable REGARD_PLAIN=1 does the same for a whole process.

    Breakpoints and hooks in `Additive.forward` or `BahdanauDecoder.step` are then reached in
    training, translation and scores, also for models that were loaded before."""
    global _is_plain
    before, _is_plain = _is_plain, True
    try:
        yield
    finally:
        _is_plain = before


def is_plain() -> bool:
    """Whether `plain` or REGARD_PLAIN asks for the formulas."""
    return _is_plain


def needs_formula() -> bool:
    """Whether only operations of PyTorch may run: with `plain`, and if they are recorded."""
    return _is_plain or is_recorded()


def is_recorded() -> bool:
    """Whether operations are recorded for another program or transformed: during an export, because
    the program that reads it has no kernels, and under transforms of `torch.func`, which have no
    rules for kernels."""
    if torch.compiler.is_compiling():
        return torch.compiler.is_exporting()
    return (
        torch._C._get_tracing_state() is not None
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


def is_cast(tensor: Tensor) -> bool:
    """Whether autocast is enabled for the device of this tensor."""
    if tensor.is_cpu:
        return torch.is_autocast_enabled("cpu")
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def is_free_to_read(tensor: Tensor) -> bool:
    """Whether Python may read a number of the tensor at no cost. It would wait for a GPU, and a
    compiler or an export records one path for all inputs."""
    return tensor.is_cpu and not torch.compiler.is_compiling() and not is_recorded()
