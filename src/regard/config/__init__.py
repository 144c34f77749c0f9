"""Everything a recipe can say, as records whose field docstrings are the command line's help.

A recipe is a YAML page of these fields; the command line overrides any of them. Only the command
line, `build` and `pipeline` know these records: every other module takes plain arguments.
"""

from regard.config.data import TASKS, AnswerDataConfig, CaptionDataConfig, Data, DataConfig
from regard.config.experiment import FITTING, Experiment
from regard.config.models import (
    FAMILIES,
    AttentionConfig,
    CaptionerConfig,
    ClassifierConfig,
    ModelConfig,
    RecurrentConfig,
    TransformerConfig,
    WriterConfig,
)
from regard.config.search import SearchConfig
from regard.config.training import TrainingConfig

__all__ = [
    "FAMILIES",
    "FITTING",
    "TASKS",
    "AnswerDataConfig",
    "AttentionConfig",
    "CaptionDataConfig",
    "CaptionerConfig",
    "ClassifierConfig",
    "Data",
    "DataConfig",
    "Experiment",
    "ModelConfig",
    "RecurrentConfig",
    "SearchConfig",
    "TrainingConfig",
    "TransformerConfig",
    "WriterConfig",
]
