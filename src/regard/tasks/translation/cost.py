"""Cost of a translation recipe."""

from __future__ import annotations

from typing import Any

from regard.building.translators import build_translation
from regard.config import DataConfig, Experiment
from regard.corpora import splits
from regard.corpora.splits import TrainingPairs
from regard.data.examples import Corpus
from regard.data.text.tokenizer_settings import SUBWORDS
from regard.numerics.linear import meta_device
from regard.tasks.arguments import sections_of
from regard.tasks.training.cost import Cost, VocabularySizes, assumed_size
from regard.tasks.translation import preparation
from regard.tasks.translation.encoding import Tokenizers


def estimate_cost(experiment: Experiment) -> Cost:
    """Return the cost of a recipe. UserError if the model cannot be built."""
    data, config = sections_of(experiment, DataConfig, experiment.name)
    sizes = vocabulary_sizes(data)
    with meta_device():
        model = build_translation(config, sizes.source, sizes.target)
    sides: Any = model.encoder, model.decoder
    batch_tokens = data.batch_tokens if data.batch_sentences is None else None
    return Cost.of_model(experiment, sizes, model, sides, batch_tokens)


def vocabulary_sizes(config: DataConfig) -> VocabularySizes:
    """Return the sizes of another run's vocabularies, of those of generated data, or of those that
    the recipe sets."""
    if config.tokenizers_path is not None:
        tokenizers = Tokenizers.of_run(config.tokenizers_path)
        return VocabularySizes(len(tokenizers.source), len(tokenizers.target), False)
    if config.synthetic is not None or config.vocabulary is not None:
        empty = TrainingPairs(Corpus(()), 0, 0, frozenset(), None)
        pairs = empty if config.synthetic is None else splits.read(config).train
        tokenizers = preparation.train_tokenizers(config, pairs)
        return VocabularySizes(len(tokenizers.source), len(tokenizers.target), False)
    kind, target_kind = config.tokenizer, config.target_tokenizer or config.tokenizer
    defaults = assumed_size(kind), assumed_size(target_kind, kind)
    source, target = (config.vocabulary_size or size for size in defaults)
    return VocabularySizes(source, target, not {kind, target_kind} <= {*SUBWORDS})
