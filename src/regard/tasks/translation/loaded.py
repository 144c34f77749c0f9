"""A run as it lies in its folder: what was asked for, the tokenizers, the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.building import build_translation
from regard.config import DataConfig, Experiment, WriterConfig
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.seq2seq import Seq2Seq
from regard.models.weights import load_model
from regard.runs.folder import RunFolder
from regard.tasks.translation.encoding import Tokenizers


@dataclass(frozen=True)
class Loaded:
    """One run, ready to be used."""

    path: Path
    experiment: Experiment
    data: DataConfig
    config: WriterConfig
    tokenizers: Tokenizers
    model: Seq2Seq

    @classmethod
    def of(cls, path: Path) -> Loaded:
        """Load a run folder; UserError where it is none."""
        folder = RunFolder(path)
        experiment = folder.experiment()
        data, config = experiment.data, experiment.model
        if not isinstance(data, DataConfig) or not isinstance(config, WriterConfig):
            raise UserError(
                f"{path} is a run that was trained to {data.task}, and this is for runs that "
                f"translate: `regard {data.task} {path}` is for it"
            )
        folder.check_files()
        tokenizers = Tokenizers.load(folder)
        sizes = len(tokenizers.source), len(tokenizers.target)
        model = load_model(partial(build_translation, config, *sizes), folder.model)
        return cls(path, experiment, data, config, tokenizers, model.eval())

    def check_vocabularies(self, other: Loaded, purpose: str) -> None:
        """UserError unless both read and write the same numbers for the same text."""
        for side in ("source", "target"):
            ours, theirs = getattr(self.tokenizers, side), getattr(other.tokenizers, side)
            if ours.vocabulary != theirs.vocabulary:
                why = f"their {side} vocabularies differ ({_difference(ours, theirs)})"
            elif _cutting(ours) != _cutting(theirs):
                why = f"their {side} tokenizers differ ({_cutting(ours)} and {_cutting(theirs)})"
            elif getattr(self.data, f"{side}_end") != getattr(other.data, f"{side}_end"):
                why = f"data.{side}_end is set in one of them alone"
            else:
                continue
            raise UserError(
                f"{self.path} and {other.path} cannot {purpose}, as {why}: train them alike, the "
                f"second with --data.tokenizers-path {self.path}"
            )


def _cutting(tokenizer: Tokenizer) -> str:
    """How it comes from a text to pieces."""
    settings = tokenizer.settings
    words = [settings.kind, settings.language if settings.kind == "spacy" else ""]
    return " ".join([*filter(None, words), "lower-cased" if settings.lowercase else "cased"])


def _difference(ours: Tokenizer, theirs: Tokenizer) -> str:
    if len(ours) != len(theirs):
        return f"{len(ours):,} and {len(theirs):,} pieces"
    pairs = enumerate(zip(ours.vocabulary, theirs.vocabulary, strict=True))
    number, (one, other) = next(pair for pair in pairs if len(set(pair[1])) > 1)
    return f"number {number} is {one!r} and {other!r}"
