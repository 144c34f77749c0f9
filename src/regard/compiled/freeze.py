"""Frozen copies of models, for inference.

A submodule whose class has a replacement is replaced, and weights that only products read are
packed. Other modules compute what they computed before.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import nn

from regard import kernels
from regard.compiled.accelerate import accelerate
from regard.compiled.exact import HOOKS, Accelerated, is_exactly, kind_of, table_of
from regard.compiled.native import NativeModule
from regard.numerics.linear import Linear, PackedWeight, packed

log = logging.getLogger(__name__)

AnyModule = TypeVar("AnyModule", bound=nn.Module)

MODULES = {
    "regard.compiled.recurrent.decoder": "regard.compiled.recurrent.decoder",
    "regard.compiled.transformer.decoder": "regard.compiled.transformer.decoder",
    "regard.compiled.transformer.encoder": "regard.compiled.transformer.encoder",
    "regard.layers.weight_norm": "regard.compiled.weight_norm",
    "regard.models.recurrent.decoders": "regard.compiled.recurrent.decoder",
    "regard.models.transformer.decoder": "regard.compiled.transformer.decoder",
    "regard.models.transformer.encoder": "regard.compiled.transformer.encoder",
}
"""Modules of classes, and those whose `REPLACEMENTS` has a function for each class that returns a
faster module, or the module itself. The class of such a module is renewed when its model is frozen
again. A module is imported only for a model that has its class."""


def freeze(model: AnyModule, dtype: torch.dtype = torch.float32) -> AnyModule:
    """Return a copy of a model for inference in this type, faster on a CPU.

    With int8, packed weights are int8 numbers, and products quantise their inputs; everything else
    is computed in float32. An input that differs in its last digit can be rounded to the next
    integer, so models whose numbers depend on the padding of a batch stay in float32. ValueError if
    int8 was chosen without compiled kernels or on a GPU.

    Submodules whose class has a replacement are replaced. The weights of `Linear` and of
    recurrent stacks are packed. Packed weights support products only, without gradients. Weights of
    a subclass, of a layer with hooks and of PyTorch's layers outside a stack are not packed,
    because other code may read them."""
    is_int8 = dtype == torch.int8
    if is_int8:
        _check_int8(model)
    frozen = copy.deepcopy(model, _hooks(model)).eval().requires_grad_(False)
    _unpack(frozen)
    accelerate(frozen)  # packed weights are read by accelerated classes only
    _replace(frozen)
    if is_int8 and (varying := _varying_part(frozen)):
        log.warning(
            "int8 is not used: %s has no kernel, so its last digits depend on the other texts of a "
            "batch, and int8 would enlarge the differences. Weights stay float32",
            varying,
        )
        is_int8, dtype = False, torch.float32
    frozen = frozen.to(torch.float32 if is_int8 else dtype)
    for module in frozen.modules():
        for layer, name in _packable_weights(module):
            setattr(layer, name, packed(layer.get_parameter(name), is_int8))
    return frozen


def _check_int8(model: nn.Module) -> None:
    """ValueError unless products of integers can be computed for this model."""
    devices = {weight.device.type for weight in model.parameters()}
    if devices - {"cpu"}:
        raise ValueError(
            f"int8 is for CPUs, and the model is on {', '.join(sorted(devices))}: use bfloat16 "
            "there, or move the model to the CPU (--device cpu)"
        )
    if not kernels.available():
        raise ValueError(f"int8 needs the C++ kernels. {kernels.how_to_build()}")


def _hooks(model: nn.Module) -> dict[int, Any]:
    """Return the hooks of all modules as the memory of a deep copy, which calls the same hooks:
    a copied hook would write to copies of its lists and objects."""
    hooks = (
        hook for module in model.modules() for name in HOOKS for hook in vars(module)[name].values()
    )
    return {id(hook): hook for hook in hooks}


def _unpack(model: nn.Module) -> None:
    """Replace packed weights by plain ones, in place: they cannot be converted to another type."""
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            if isinstance(weight, PackedWeight):
                setattr(module, name, weight.plain())


def _replace(model: nn.Module) -> None:
    """Replace submodules in place, children first. A module with hooks and a module of a subclass
    may compute something else and are left. So is the reference of a native module, which is
    renewed with it."""
    replacements: dict[int, nn.Module] = {}
    for name, module in reversed(list(model.named_modules(remove_duplicate=False))):
        parent, _, attribute = name.rpartition(".")
        owner = model.get_submodule(parent)
        kind = kind_of(module)
        replace = table_of(kind, MODULES, "REPLACEMENTS").get(kind)
        if not name or isinstance(owner, NativeModule) or replace is None:
            continue
        if not is_exactly(module, kind):
            continue
        if id(module) not in replacements:
            replacement = replace(module)
            replacements[id(module)] = replacement.eval().requires_grad_(False)
        setattr(owner, attribute, replacements[id(module)])


def _varying_part(model: nn.Module) -> str | None:
    """Return the class of a part whose last digits depend on the other sentences of a batch, or
    None. Classes of modules name it (`varies_in_batches`): PyTorch's softmax and products add
    numbers in an order that depends on the padded length and on the number of rows."""
    varies: bool | None = getattr(type(model), "varies_in_batches", None)
    if varies is None:
        return next(filter(None, map(_varying_part, model.children())), None)
    return type(model).__name__ if varies else None


def _packable_weights(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Iterate over modules and names of the weights of a module that only products read."""
    if is_exactly(module, Linear):
        yield module, "weight"
    elif isinstance(module, Accelerated):
        yield from module.packable_weights()
