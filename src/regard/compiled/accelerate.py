"""Put accelerated classes in the place of formulas, once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from regard.compiled.exact import formula_of, is_exactly, table_of
from regard.runtime.modes import is_plain

log = logging.getLogger(__name__)
AnyModel = TypeVar("AnyModel", bound=nn.Module)

MODULES = {
    "regard.attention.attend": "regard.compiled.attention.attend",
    "regard.attention.scores": "regard.compiled.attention.scores",
    "regard.layers.dropout": "regard.compiled.dropout",
    "regard.layers.recurrent.fast_forward_stack": "regard.compiled.recurrent.stacks",
    "regard.layers.recurrent.residual_stack": "regard.compiled.recurrent.stacks",
    "regard.layers.recurrent.stack": "regard.compiled.recurrent.stacks",
    "regard.models.recurrent.decoders": "regard.compiled.recurrent.decoders",
    "regard.models.recurrent.gnmt": "regard.compiled.recurrent.decoders",
    "regard.models.recurrent.parts": "regard.compiled.recurrent.parts",
}
"""Modules of formulas, and those whose `TWINS` has the accelerated class of each. A module is
imported only for a model that has its formula."""


@dataclass(frozen=True)
class Acceleration:
    """Names of the modules of a model: those that were replaced by their accelerated class, and
    those that were left with the reason, for formulas that have one."""

    replaced: tuple[str, ...]
    left: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"accelerated: {name}" for name in self.replaced]
        return "\n".join([*lines, *(f"by its formula: {name}: {why}" for name, why in self.left)])


def accelerate(model: nn.Module) -> Acceleration:
    """Replace modules in place by accelerated classes that compute the same, to rounding, faster.

    Exactly the classes of this package that have an accelerated class are replaced. Subclasses, and
    modules with hooks or with methods of their own, compute their own formula. A module stays
    the same object with the same parameters, so optimisers, state dicts and references to it do not
    change. Hooks that are added later are called: an accelerated module computes its formula if a
    part that it would pass over is changed. `plain` runs all formulas, and with it hooks
    that are registered for all modules are called for every part."""
    replaced, left = [], []
    for name, module in model.named_modules():
        kind = type(module)
        twins = table_of(kind, MODULES, "TWINS")
        if kind not in twins:
            bases = [x for x in kind.__mro__[1:] if x in table_of(x, MODULES, "TWINS")]
            if bases and formula_of(kind) is kind:
                left.append((_label(name, module), f"is a subclass of {bases[0].__name__}"))
        elif not is_exactly(module, kind):
            left.append((_label(name, module), "has hooks or methods of its own"))
        else:
            module.__class__ = twins[kind]
            replaced.append(_label(name, module))
    return Acceleration(tuple(replaced), tuple(left))


def accelerated(model: AnyModel) -> AnyModel:
    """Return a model that was just built, after `accelerate`. What was replaced is in the log."""
    acceleration = accelerate(model)
    log.debug("%s", "by formulas: all modules (--plain)" if is_plain() else acceleration)
    return model


def _label(name: str, module: nn.Module) -> str:
    return f"{name} ({type(module).__name__})" if name else type(module).__name__
