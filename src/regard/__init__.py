"""Regard trains, runs and opens up attention models.

model = regard.load("runs/demo")
out = model.translate("four hundred twenty-three")
out.text, out.score, out.attention

regard.attention.Additive(...)      the parts, usable in anyone's own model
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from regard.version import VERSION

if TYPE_CHECKING:
    from regard import attention
    from regard.errors import UserError
    from regard.memory_policy import keep_freed_memory
    from regard.pipeline.load import load
    from regard.tasks.captioning.captioner import Captioner
    from regard.tasks.classification.classifier import Answer, Classifier
    from regard.tasks.translation.translator import Translation, Translator
    from regard.trace import Trace

__version__ = VERSION
__all__ = [
    "Answer",
    "Captioner",
    "Classifier",
    "Trace",
    "Translation",
    "Translator",
    "UserError",
    "attention",
    "keep_freed_memory",
    "load",
]

_HOMES = {
    "Answer": "regard.tasks.classification.classifier",
    "Captioner": "regard.tasks.captioning.captioner",
    "Classifier": "regard.tasks.classification.classifier",
    "Trace": "regard.trace",
    "Translation": "regard.tasks.translation.translator",
    "Translator": "regard.tasks.translation.translator",
    "UserError": "regard.errors",
    "keep_freed_memory": "regard.memory_policy",
    "load": "regard.pipeline.load",
}


def __dir__() -> list[str]:
    """The public names, for completion; nothing is imported."""
    return sorted([*__all__, "__version__", "__doc__"])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: torch takes a second, and `regard --help`
    does not need it."""
    if name == "attention":
        return importlib.import_module("regard.attention")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
