"""Parameters that training leaves unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from regard.errors import UserError


def keep_fixed(model: nn.Module, parts: Sequence[str]) -> None:
    """Freeze the weights whose names begin with these parts. Dropout stays active. UserError if the
    model has no such part, or if no weight would be left to train."""
    named = dict(model.named_parameters(remove_duplicate=False))
    for part in parts:
        weights = [named[name] for name in named if f"{name}.".startswith(f"{part}.")]
        if not weights:
            raise UserError(
                f"training.freeze is {part}, but the model has no such part; its parts are: "
                f"{', '.join(_parts(named))}, and the modules inside them"
            )
        for weight in weights:
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise UserError(
            f"training.freeze is {' '.join(parts)}, which leaves nothing to train: name fewer parts"
        )


def _parts(names: Iterable[str]) -> list[str]:
    """Return the prefixes of the names with one and with two components."""
    return sorted({".".join(name.split(".")[:depth]) for name in names for depth in (1, 2)})
