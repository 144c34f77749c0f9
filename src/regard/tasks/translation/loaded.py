"""A translation run, loaded from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.building import build_translation
from regard.config import DataConfig, Experiment, TranslationModelConfig
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.seq2seq import Seq2Seq
from regard.models.weights import load_model
from regard.runs.folder import RunFolder
from regard.tasks.arguments import sections_of
from regard.tasks.translation.encoding import Tokenizers


@dataclass(frozen=True)
class TranslationRun:
    """Configuration, tokenizers and model of a translation run."""

    path: Path
    experiment: Experiment
    data: DataConfig
    config: TranslationModelConfig
    tokenizers: Tokenizers
    model: Seq2Seq

    @classmethod
    def load(cls, path: Path) -> TranslationRun:
        """Load a run folder. UserError if it is no run, or a run of another task."""
        folder = RunFolder(path)
        experiment = folder.experiment()
        data, config = sections_of(experiment, DataConfig, str(path))
        folder.check_files()
        tokenizers = Tokenizers.load(folder)
        sizes = len(tokenizers.source), len(tokenizers.target)
        model = load_model(
            partial(build_translation, config, *sizes), folder.model, folder.tensor_names()
        )
        return cls(path, experiment, data, config, tokenizers, model.eval())

    def check_vocabularies(self, other: TranslationRun, purpose: str) -> None:
        """Raise a UserError unless both runs encode every text as the same token numbers. `purpose`
        says what they cannot do otherwise."""
        for side in ("source", "target"):
            ours, theirs = getattr(self.tokenizers, side), getattr(other.tokenizers, side)
            if ours.vocabulary != theirs.vocabulary:
                reason = f"their {side} vocabularies differ ({_difference(ours, theirs)})"
            elif _described(ours) != _described(theirs):
                reason = (
                    f"their {side} tokenizers differ ({_described(ours)} and {_described(theirs)})"
                )
            elif getattr(self.data, f"{side}_end") != getattr(other.data, f"{side}_end"):
                reason = f"data.{side}_end is true for only one of them"
            else:
                continue
            raise UserError(
                f"{self.path} and {other.path} cannot {purpose}: {reason}. Train the second with "
                f"--data.tokenizers-path {self.path}"
            )


def _described(tokenizer: Tokenizer) -> str:
    """Return the kind of a tokenizer and whether it lower-cases, in words."""
    settings = tokenizer.settings
    words = [settings.kind, settings.language if settings.kind == "spacy" else ""]
    return " ".join([*filter(None, words), "lower-cased" if settings.lowercase else "cased"])


def _difference(ours: Tokenizer, theirs: Tokenizer) -> str:
    if len(ours) != len(theirs):
        return f"{len(ours):,} and {len(theirs):,} pieces"
    pairs = enumerate(zip(ours.vocabulary, theirs.vocabulary, strict=True))
    number, (first, second) = next(pair for pair in pairs if len(set(pair[1])) > 1)
    return f"number {number} is {first!r} and {second!r}"
