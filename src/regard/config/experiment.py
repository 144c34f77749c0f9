"""A whole recipe."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.config.checks import check_fields
from regard.config.data import AnswerDataConfig, CaptionDataConfig, Data, DataConfig
from regard.config.models import (
    CaptionerConfig,
    ClassifierConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.config.search import SearchConfig
from regard.config.training import TrainingConfig
from regard.errors import UserError

FITTING = {
    "translate": ("recurrent", "transformer"),
    "classify": ("classifier",),
    "caption": ("captioner",),
}
"""The families of models for each task, the usual one first."""


@dataclass(frozen=True)
class Experiment:
    """A recipe: data, model, training, search."""

    name: str = "experiment"
    """The run folder is runs/NAME."""
    about: str = ""
    """What it is, after which paper, with published figures and ours."""
    data: Data = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=RecurrentConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        check_fields("", self)
        if self.name in ("", ".", "..") or any(sign in self.name for sign in "/\\\0"):
            raise UserError(
                f"name is {self.name!r}: expected the name of one folder, as it becomes runs/NAME"
            )
        _check_task(self.data, self.model)
        longest = self.model.longest_sequence
        if longest is not None and self.data.max_length > longest:
            raise UserError(
                f"data.max_length is {self.data.max_length}, but model.longest is {longest}: "
                "expected no longer sequences than there are learned positions"
            )


def _check_task(data: Data, model: ModelConfig) -> None:
    """UserError where the model is none for these data."""
    match data, model:
        case DataConfig(), RecurrentConfig() | TransformerConfig():
            if model.tied == "all" and not (data.shared_vocabulary or data.vocabulary is not None):
                raise UserError(
                    "model.tied all shares the embeddings of both sides, so it needs one "
                    "vocabulary for both: set data.shared_vocabulary"
                )
        case AnswerDataConfig(), ClassifierConfig():
            if data.source == "items" and model.encoder != "embedding":
                raise UserError(
                    f"data.source items have no order, so that model.encoder {model.encoder} "
                    "cannot read them: set model.encoder embedding"
                )
        case CaptionDataConfig(), CaptionerConfig():
            side, halved = data.picture_size, 2 ** len(model.channels)
            if model.backbone is None and side % halved:
                raise UserError(
                    f"data.picture_size is {side}, but {len(model.channels)} blocks "
                    f"(model.channels) halve a side as often: expected a multiple of {halved}"
                )
        case _:
            raise UserError(
                f"model.family {model.family} is no model for data.task {data.task}: expected "
                f"{' or '.join(FITTING[data.task])}"
            )
