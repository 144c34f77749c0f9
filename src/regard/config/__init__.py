"""Everything a recipe can say, as records whose field docstrings are the command line's help.

A recipe is a YAML file of these fields; the command line overrides any of them. Only `cli`,
`building`, `recipes`, `runs`, `tasks` and `pipeline` know these records: every other module takes
plain arguments.
"""

from regard.config.attention import AttentionConfig, DecoderAttentionConfig
from regard.config.data import (
    DATA_SECTIONS,
    CaptionDataConfig,
    ClassificationDataConfig,
    Data,
    DataConfig,
)
from regard.config.decoders import DecoderConfig, RecurrentDecoderConfig, TransformerDecoderConfig
from regard.config.encoders import (
    BackboneEncoderConfig,
    BagOfWordsEncoderConfig,
    ConvolutionalEncoderConfig,
    ImageEncoderConfig,
    RecurrentEncoderConfig,
    TextEncoderConfig,
    TransformerEncoderConfig,
)
from regard.config.experiment import Experiment, resolve
from regard.config.heads import AttentionHeadConfig, HeadConfig, LastHeadConfig, MeanHeadConfig
from regard.config.models import (
    KINDS,
    MODELS,
    CaptionModelConfig,
    ClassificationModelConfig,
    ModelConfig,
    PartConfig,
    SequenceModelConfig,
    TranslationModelConfig,
    longest_sequence,
)
from regard.config.search import SearchConfig
from regard.config.training import TrainingConfig

__all__ = [
    "DATA_SECTIONS",
    "KINDS",
    "MODELS",
    "AttentionConfig",
    "AttentionHeadConfig",
    "BackboneEncoderConfig",
    "BagOfWordsEncoderConfig",
    "CaptionDataConfig",
    "CaptionModelConfig",
    "ClassificationDataConfig",
    "ClassificationModelConfig",
    "ConvolutionalEncoderConfig",
    "Data",
    "DataConfig",
    "DecoderAttentionConfig",
    "DecoderConfig",
    "Experiment",
    "HeadConfig",
    "ImageEncoderConfig",
    "LastHeadConfig",
    "MeanHeadConfig",
    "ModelConfig",
    "PartConfig",
    "RecurrentDecoderConfig",
    "RecurrentEncoderConfig",
    "SearchConfig",
    "SequenceModelConfig",
    "TextEncoderConfig",
    "TrainingConfig",
    "TransformerDecoderConfig",
    "TransformerEncoderConfig",
    "TranslationModelConfig",
    "longest_sequence",
    "resolve",
]
