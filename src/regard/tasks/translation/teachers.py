"""Teachers of a translation model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.config import DataConfig
from regard.errors import UserError
from regard.models.seq2seq import Seq2Seq
from regard.runs.ensemble import all_members
from regard.tasks.training.teachers import check_longest
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.loaded import TranslationRun, encoding_difference


def load_teacher(
    data: DataConfig, tokenizers: Tokenizers, teachers: Sequence[Path], path: Path
) -> Seq2Seq:
    """Load a model for the distillation of a model with this data and these tokenizers. UserError
    if it encodes texts differently than this model or than others of `teachers`, all runs and
    ensembles that teach, if it copies, or if it reads only shorter texts."""
    run = TranslationRun.load(path)
    difference = encoding_difference(tokenizers, data, run)
    if difference:
        first, *others = map(TranslationRun.load, all_members(teachers))
        for other in others:
            first.check_vocabularies(other, "teach one model")
        raise UserError(
            f"{path} does not fit this model: {difference}. Set --data.tokenizers-path {path}"
        )
    if run.config.copy != "none":
        raise UserError(
            f"{path} has model.copy {run.config.copy}, whose copied words are outside the "
            "vocabulary: name a model that does not copy"
        )
    check_longest(path, run.config, data.max_length)
    return run.model
