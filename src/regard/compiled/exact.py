"""Whether a module computes exactly what its class defines, so that other code may replace it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeGuard, TypeVar

import torch
from torch import nn

Kind = TypeVar("Kind")

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Dictionaries of a module with the hooks of its calls."""
FORMULAS: dict[type, type] = {}
"""Formula of each accelerated class."""


class Accelerated:
    """First base of every class that computes the same as its second base, its formula, faster. A
    subclass that is no module has what several such classes share."""

    def __init_subclass__(cls) -> None:
        shared, *formula = cls.__bases__
        if formula and not issubclass(shared, nn.Module):
            FORMULAS[cls] = formula[0]

    @property
    def formula(self) -> Any:
        """This object with the methods of its formula."""
        return super()

    def packable_weights(self) -> Iterable[tuple[nn.Module, str]]:
        """Return submodules and the names of their weights that only products of the accelerated
        class read."""
        return ()


def formula_of(kind: type) -> type:
    """Return the class whose formula an accelerated class computes, and any other class itself."""
    return FORMULAS.get(kind, kind)


def table_of(kind: type, modules: Mapping[str, str], name: str) -> Mapping[type, Any]:
    """Return the table of this name in the module that `modules` has for the module of a class;
    empty without one. The module is imported here."""
    module = modules.get(kind.__module__)
    return {} if module is None else getattr(import_module(module), name)


def kind_of(part: object) -> type:
    """Return the class of an object, or the formula of its accelerated class."""
    return formula_of(type(part))


def is_kind(part: object, kind: type[Kind]) -> TypeGuard[Kind]:
    """Whether an object is of exactly this class or its accelerated class."""
    return kind_of(part) is kind


def is_exactly(part: object, *types: type) -> bool:
    """Whether `part` is of exactly one of these types, or of its accelerated class, and computes
    what its class defines.

    A subclass, a module with hooks and a module with a replaced method may compute something else,
    so no kernel replaces them. Submodules are not checked."""
    kind = type(part)
    if kind not in types and formula_of(kind) not in types:
        return False
    return not isinstance(part, nn.Module) or not _is_changed(part)


def are_unchanged(part: object) -> bool:
    """Whether neither a module nor a submodule has hooks or a replaced method."""
    return not isinstance(part, nn.Module) or not any(map(_is_changed, part.modules()))


def _is_changed(module: nn.Module) -> bool:
    kind: Any = type(module)
    formula: Any = formula_of(kind)
    return bool(
        module._forward_hooks  # HOOKS, without a loop: every call of a module asks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or has_own_methods(module)
        or kind.forward is not _defined_forward(kind)
        or formula.forward is not _defined_forward(formula)
    )


def has_own_methods(module: nn.Module) -> bool:
    """Whether an attribute of a module hides a method of its class."""
    kind: Any = type(module)
    return not _methods(kind).isdisjoint(vars(module))


@cache
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _methods(kind: type) -> frozenset[str]:
    """Return the names of the methods of a class. torch.compile cannot trace `callable`, and takes
    the result as it is."""
    return frozenset(name for name in dir(kind) if callable(getattr(kind, name, None)))


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
