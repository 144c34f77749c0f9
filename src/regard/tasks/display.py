"""Short descriptions of models and results, for `__repr__` and notebooks."""

from __future__ import annotations

from torch import nn

from regard.config import Experiment

MAX_LENGTH = 80
"""Largest number of characters of a text."""


def describe_model(name: str, experiment: Experiment, model: nn.Module, vocabulary: str) -> str:
    """Return one line about a model: recipe, kinds of its parts, size, vocabulary and device."""
    kinds = " -> ".join(part.kind for part in experiment.model.parts.values())
    parameters = list(model.parameters())
    count = sum(weight.numel() for weight in parameters)
    device = parameters[0].device if parameters else "no device"
    return (
        f"{name}({shorten(experiment.name)}, {kinds}, {count:,} parameters, {vocabulary}, "
        f"on {device})"
    )


def describe_result(name: str, source: str, text: str, facts: list[str]) -> str:
    """Return one line about a result."""
    return f"{name}({', '.join([f'{shorten(source)} -> {shorten(text)}', *facts])})"


def shorten(text: str) -> str:
    """Return a text in quotes, without the end of a long text."""
    return repr(text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…")
