"""A translation run, loaded from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.building.translators import build_translation
from regard.config import DataConfig, Experiment, TranslationModelConfig
from regard.errors import UserError
from regard.models.seq2seq import Seq2Seq
from regard.runs.folder import RunFolder
from regard.storage.weights import load_model
from regard.tasks.arguments import sections_of
from regard.tasks.training.tokenizers import tokenizer_difference
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
        model = load_model(partial(build_translation, config, *sizes), folder.model)
        return cls(path, experiment, data, config, tokenizers, model.eval())

    def check_vocabularies(self, other: TranslationRun, purpose: str) -> None:
        """Raise a UserError unless both runs encode every text as the same token numbers. `purpose`
        says what they cannot do otherwise."""
        difference = encoding_difference(self.tokenizers, self.data, other)
        if difference:
            raise UserError(
                f"{self.path} and {other.path} cannot {purpose}: {difference}. Train the second "
                f"with --data.tokenizers-path {self.path}"
            )


def encoding_difference(tokenizers: Tokenizers, data: DataConfig, other: TranslationRun) -> str:
    """Return the first difference between the encoding of texts with these tokenizers and that of a
    run. Empty if both encode every text as the same token numbers."""
    for side in ("source", "target"):
        ours, theirs = getattr(tokenizers, side), getattr(other.tokenizers, side)
        difference = tokenizer_difference(ours, theirs, f"{side} ")
        if difference:
            return difference
        if getattr(data, f"{side}_end") != getattr(other.data, f"{side}_end"):
            return f"data.{side}_end is true for only one of them"
    return ""
