"""Regard trains and runs attention models, and draws their attention.

model = regard.load("runs/demo")                  or regard.train(pairs, "letters")
out = model.translate("four hundred twenty-three")
out.text, out.score, out.attention

regard.attention.Additive(...)      the parts, for models of your own
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from regard.version import VERSION

if TYPE_CHECKING:
    from regard import attention
    from regard.compiled.accelerate import accelerate
    from regard.errors import UserError
    from regard.estimators import Classifier, Translator
    from regard.pipeline.fit import train
    from regard.pipeline.load import load
    from regard.runtime.memory_policy import keep_freed_memory
    from regard.runtime.modes import plain
    from regard.tasks.captioning.model import CaptionModel
    from regard.tasks.classification.model import ClassificationModel, Prediction
    from regard.tasks.generation import GeneratedText
    from regard.tasks.translation.model import TranslationModel
    from regard.trace import Trace

__version__ = VERSION
__all__ = [
    "CaptionModel",
    "ClassificationModel",
    "Classifier",
    "GeneratedText",
    "Prediction",
    "Trace",
    "TranslationModel",
    "Translator",
    "UserError",
    "accelerate",
    "attention",
    "keep_freed_memory",
    "load",
    "plain",
    "train",
]

_MODULES = {
    "CaptionModel": "regard.tasks.captioning.model",
    "ClassificationModel": "regard.tasks.classification.model",
    "Classifier": "regard.estimators",
    "GeneratedText": "regard.tasks.generation",
    "Prediction": "regard.tasks.classification.model",
    "Trace": "regard.trace",
    "TranslationModel": "regard.tasks.translation.model",
    "Translator": "regard.estimators",
    "UserError": "regard.errors",
    "accelerate": "regard.compiled.accelerate",
    "keep_freed_memory": "regard.runtime.memory_policy",
    "load": "regard.pipeline.load",
    "plain": "regard.runtime.modes",
    "train": "regard.pipeline.fit",
}


def __dir__() -> list[str]:
    """Return the public names, for completion. Nothing is imported."""
    return sorted([*__all__, "__version__", "__doc__"])


def __getattr__(name: str) -> Any:
    """Import a public name on first access: importing torch takes a second, and `regard --help`
    does not need it."""
    if name == "attention":
        return importlib.import_module("regard.attention")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
