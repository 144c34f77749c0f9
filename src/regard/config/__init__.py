"""Everything a recipe can say, as records whose field docstrings are the command line's help.

A recipe is a YAML file of these fields; the command line overrides any of them. Only `cli`,
`building`, `recipes`, `runs`, `tasks` and `pipeline` know these records: every other module takes
plain arguments.
"""

from regard.config.data import (
    DATA_SECTIONS,
    CaptionDataConfig,
    ClassificationDataConfig,
    Data,
    DataConfig,
)
from regard.config.experiment import Experiment, resolve
from regard.config.models import (
    KINDS,
    MODELS,
    CaptionModelConfig,
    ClassificationModelConfig,
    ModelConfig,
    PartConfig,
    TranslationModelConfig,
    longest_sequence,
)
from regard.config.parts import convolution, decoders, encoders, heads, transformer
from regard.config.parts.attention import AttentionConfig, DecoderAttentionConfig
from regard.config.parts.convolution import *  # noqa: F403 (the names in convolution.__all__)
from regard.config.parts.decoders import *  # noqa: F403 (the names in decoders.__all__)
from regard.config.parts.encoders import *  # noqa: F403 (the names in encoders.__all__)
from regard.config.parts.experts import ExpertsConfig
from regard.config.parts.heads import *  # noqa: F403 (the names in heads.__all__)
from regard.config.parts.transformer import *  # noqa: F403 (the names in transformer.__all__)
from regard.config.search import SearchConfig
from regard.config.training import TrainingConfig

__all__ = [
    "DATA_SECTIONS",
    "KINDS",
    "MODELS",
    "AttentionConfig",
    "CaptionDataConfig",
    "CaptionModelConfig",
    "ClassificationDataConfig",
    "ClassificationModelConfig",
    "Data",
    "DataConfig",
    "DecoderAttentionConfig",
    "Experiment",
    "ExpertsConfig",
    "ModelConfig",
    "PartConfig",
    "SearchConfig",
    "TrainingConfig",
    "TranslationModelConfig",
    "longest_sequence",
    "resolve",
]
__all__ += [
    *convolution.__all__,
    *decoders.__all__,
    *encoders.__all__,
    *heads.__all__,
    *transformer.__all__,
]
