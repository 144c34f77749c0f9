"""State of a model at one time, which tells later whether a copy made at that time is current."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import chain
from operator import is_
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from regard.compiled.exact import HOOKS, are_unchanged, has_own_methods, is_defined_by
from regard.shapes import Tensor


class Snapshot:
    """Modules, settings, hooks, weights and classes of a model at one time.

    Objects are compared by identity, weights also by their addresses. Numbers that were changed in
    place leave no other trace in a weight than the numbers, if they were changed by `weight.data`
    or through a NumPy array. With `contents`, a copy of all numbers is kept and compared."""

    def __init__(self, model: nn.Module, *, contents: bool = False) -> None:
        modules = tuple(model.modules())
        self._classes: tuple[Any, ...] = tuple(
            {kind for module in modules for kind in _classes(type(module))}
        )
        self._methods = self._present_methods()
        self._tables = [table for module in modules for table in _tables(module)]
        self._values = self._present_values()
        self._weights = [value for value in self._values if isinstance(value, Tensor)]
        self._places = list(map(_place, self._weights))
        self._aliases = [weight.detach() for weight in self._weights]  # keep their memory
        self._copies: list[Tensor] | None = None
        if contents:
            self._copies = [_numbers(weight).clone() for weight in self._weights]
        self.is_modified = any(
            module.training or has_own_methods(module) for module in modules
        ) or not all(map(_is_as_defined, self._classes))
        """Whether a module is in training, or has a method that its class did not define."""
        self.is_plain = not self.is_modified and are_unchanged(model)
        """Whether every module computes what its class defines, outside of training and without
        hooks."""

    @property
    def calls_hooks(self) -> bool:
        """Whether hooks are registered for all modules, which are then called."""
        return bool(_has_any_global_hook())

    def is_current(self) -> bool:
        """Whether the model is as it was; without `contents` its classes are not compared."""
        return (
            (self._copies is None or self.has_current_classes())
            and _are_same(self._present_values(), self._values)
            and list(map(_place, self._weights)) == self._places
            and (self._copies is None or all(map(_are_equal, self._weights, self._copies)))
        )

    def has_current_classes(self) -> bool:
        """Whether the classes of the modules have the methods that they had."""
        return _are_same(self._present_methods(), self._methods)

    def _present_methods(self) -> list[Any]:
        return [value for kind in self._classes for value in vars(kind).values() if callable(value)]

    def _present_values(self) -> list[Any]:
        return list(chain.from_iterable(map(dict.values, self._tables)))


def _tables(module: nn.Module) -> Iterator[dict[str, Any]]:
    """Return the dictionaries of a module whose values make up its state, and those of the settings
    that it holds as objects of this package."""
    attributes = vars(module)
    yield attributes
    for name in ("_parameters", "_buffers", "_modules", *HOOKS):
        yield attributes[name]
    for value in attributes.values():
        if type(value).__module__.startswith("regard.") and hasattr(value, "__dict__"):
            yield vars(value)


def _classes(kind: type) -> Iterator[type[nn.Module]]:
    """Return a class and its bases below `nn.Module`."""
    return (base for base in kind.__mro__ if issubclass(base, nn.Module) and base is not nn.Module)


def _is_as_defined(kind: type) -> bool:
    """Whether all methods of a class come from the package that defines the class."""
    return all(is_defined_by(kind, value) for value in vars(kind).values() if callable(value))


def _are_same(left: list[Any], right: list[Any]) -> bool:
    return len(left) == len(right) and all(map(is_, left, right))


def _place(weight: Tensor) -> int:
    return 0 if weight.is_mkldnn or weight.is_meta else weight.data_ptr()


def _numbers(weight: Tensor) -> Tensor:
    """Return the numbers as one contiguous array."""
    weight = weight.detach()
    return (weight.to_dense() if weight.is_mkldnn else weight).contiguous()


def _are_equal(weight: Tensor, copy: Tensor) -> bool:
    """Whether all bytes of a weight are those of its copy."""
    numbers = _numbers(weight)
    if (numbers.shape, numbers.dtype, numbers.device) != (copy.shape, copy.dtype, copy.device):
        return False
    if numbers.is_cpu and _MEMCMP is not None:
        return not _MEMCMP(numbers.data_ptr(), copy.data_ptr(), copy.nbytes)
    if numbers.is_meta:
        return True
    return torch.equal(numbers.flatten().view(torch.uint8), copy.flatten().view(torch.uint8))


def _memcmp() -> Any:
    """Return the comparison of memory of the C library; None if the system has none."""
    try:
        compare = ctypes.CDLL(None).memcmp
    except (AttributeError, OSError, TypeError):
        return None
    compare.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    return compare


_MEMCMP = _memcmp()
