"""A whole recipe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from regard.config.checks import check_fields
from regard.config.data import CaptionDataConfig, ClassificationDataConfig, Data, DataConfig
from regard.config.models import (
    MODELS,
    CaptionModelConfig,
    ClassificationModelConfig,
    ModelConfig,
    TranslationModelConfig,
)
from regard.config.parts.encoders import BagOfWordsEncoderConfig, ConvolutionalEncoderConfig
from regard.config.search import SearchConfig
from regard.config.training import TrainingConfig
from regard.errors import UserError

VECTORS_AND_FEATURES = (
    "model.vectors reads an embedding of every token, but features (data.feature_columns) are no "
    "words: leave one of them out"
)
"""Message about a model with both options."""


@dataclass(frozen=True)
class Experiment:
    """A recipe: data, model, training, search."""

    name: str = "experiment"
    """Name of the run. --name NAME writes it to runs/NAME."""
    about: str = ""
    """Description: the task, the paper, published figures and ours."""
    data: Data = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=TranslationModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        check_fields("", self)
        if self.name in ("", ".", "..") or any(sign in self.name for sign in "/\\\0"):
            raise UserError(
                f"name is {self.name!r}: expected the name of one folder, as it becomes runs/NAME"
            )
        _check_task(self.data, self.model)
        _check_positions(self.data, self.model)
        _check_distributions(self.data, self.model, self.training)
        _check_rewards(self.data, self.model, self.training)


def resolve(experiment: Experiment) -> Experiment:
    """Set the sizes and dropouts that parts of the model inherit. A resolved experiment stays the
    same."""
    return replace(experiment, model=experiment.model.resolve())


def _check_task(data: Data, model: ModelConfig) -> None:
    """Raise a UserError if the model does not fit the data."""
    match data, model:
        case DataConfig(), TranslationModelConfig():
            if model.tied == "all" and data.feature_columns:
                raise UserError(
                    "model.tied all shares the embeddings of both sides, but data.feature_columns "
                    "adds tokens to the source alone: set --model.tied output or none"
                )
            if model.vectors is not None and data.feature_columns:
                raise UserError(VECTORS_AND_FEATURES)
            if model.copy != "none" and data.bpe_dropout:
                raise UserError(
                    f"model.copy is {model.copy}, which copies words as their tokenizer splits "
                    "them, but data.bpe_dropout splits them differently in every epoch: leave one "
                    "of them out"
                )
            if model.tied == "all" and not (data.shared_vocabulary or data.vocabulary is not None):
                raise UserError(
                    "model.tied all shares the embeddings of both sides, so it needs one "
                    "vocabulary for both: set --data.shared-vocabulary, or --model.tied output or "
                    "none"
                )
        case ClassificationDataConfig(), ClassificationModelConfig():
            if data.source == "items" and not isinstance(model.encoder, BagOfWordsEncoderConfig):
                raise UserError(
                    "data.source is items, which have no order, but model.encoder.kind is "
                    f"{model.encoder.kind}: set model.encoder.kind to bag_of_words"
                )
            if model.vectors is not None and data.feature_columns:
                raise UserError(VECTORS_AND_FEATURES)
        case CaptionDataConfig(), CaptionModelConfig():
            if isinstance(model.encoder, ConvolutionalEncoderConfig):
                side, num_blocks = data.image_size, len(model.encoder.channels)
                factor = 2**num_blocks
                if side % factor or side == factor:
                    raise UserError(
                        f"data.image_size is {side}, but the {num_blocks} blocks of "
                        "model.encoder.channels halve a side each: expected a multiple of "
                        f"{factor} from {2 * factor} on, for at least 2 x 2 grid cells"
                    )
        case _:
            raise UserError(
                f"the model is a {model.__class__.__name__}, but data.task is {data.task}: "
                f"expected a {MODELS[data.task].__name__}"
            )


def _check_positions(data: Data, model: ModelConfig) -> None:
    """Raise a UserError if training has longer sequences than a part has learned positions."""
    for name, part in model.parts.items():
        longest = part.max_sequence
        is_image = isinstance(data, CaptionDataConfig) and name == "encoder"
        if longest is not None and data.max_length > longest and not is_image:
            raise UserError(
                f"data.max_length is {data.max_length}, but model.{name}.max_positions is "
                f"{longest}: expected no longer sequences than there are learned positions"
            )


def _check_distributions(data: Data, model: ModelConfig, training: TrainingConfig) -> None:
    """Raise a UserError if R-Drop or distillation has no distributions over one vocabulary to
    compare."""
    setting = ""
    if training.r_drop:
        setting = f"training.r_drop is {training.r_drop}"
    elif training.objective == "distillation":
        setting = "training.objective is distillation"
    if not setting:
        return
    if isinstance(data, ClassificationDataConfig) and data.target == "number":
        raise UserError(
            f"{setting}, which compares probabilities, but data.target is number: leave it out"
        )
    if isinstance(model, TranslationModelConfig) and model.copy != "none":
        raise UserError(
            f"{setting}, but model.copy is {model.copy}, whose copied words are outside the "
            "vocabulary: leave one of them out"
        )


def _check_rewards(data: Data, model: ModelConfig, training: TrainingConfig) -> None:
    """Raise a UserError if there are no texts to reward, or the reward does not fit them."""
    if not training.has_rewards:
        return
    if isinstance(data, ClassificationDataConfig):
        raise UserError(
            f"training.objective is {training.objective}, which samples texts, but data.task is "
            "classify: leave it out"
        )
    if isinstance(model, TranslationModelConfig) and model.copy != "none":
        raise UserError(
            f"training.objective is {training.objective}, but model.copy is {model.copy}, whose "
            "copied words are outside the vocabulary: leave one of them out"
        )
    if isinstance(data, DataConfig) and not data.target_end:
        raise UserError(
            f"training.objective is {training.objective}, but without data.target_end samples have "
            "no end: leave one of them out"
        )
    if training.reward == "cider" and not isinstance(data, CaptionDataConfig):
        raise UserError(
            "training.reward is cider, which compares captions, but data.task is "
            f"{data.task}: set training.reward gleu"
        )
