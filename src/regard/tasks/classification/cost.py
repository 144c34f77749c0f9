"""Cost of a classification recipe."""

from __future__ import annotations

from typing import Any

from regard.building.classifiers import build_classifier
from regard.config import ClassificationDataConfig, Experiment
from regard.corpora import splits
from regard.numerics.linear import meta_device
from regard.tasks.arguments import sections_of
from regard.tasks.classification.inputs import InputsAndTargets
from regard.tasks.training.cost import ASSUMED_LABELS, Cost, VocabularySizes, assumed_size


def estimate_cost(experiment: Experiment) -> Cost:
    """Return the cost of a recipe. UserError if the model cannot be built."""
    data, config = sections_of(experiment, ClassificationDataConfig, experiment.name)
    sizes = vocabulary_sizes(data)
    with meta_device():
        num_outputs = sizes.num_labels or 1
        model = build_classifier(config, sizes.source, sizes.num_features, num_outputs)
    sides: Any = model.encoder, model.head
    batch_tokens = data.batch_tokens if data.batch_sentences is None else None
    return Cost.of_model(experiment, sizes, model, sides, batch_tokens)


def vocabulary_sizes(config: ClassificationDataConfig) -> VocabularySizes:
    """Return the sizes of generated data, or those that the recipe sets."""
    if config.synthetic is not None:
        inputs = InputsAndTargets.learn(config, list(splits.read(config).train))
        features = inputs.reader.features
        num_labels = inputs.targets.size if config.target == "label" else 0
        return VocabularySizes(inputs.vocabulary_size, 0, False, features, num_labels)
    num_words = config.vocabulary_size or assumed_size(config.tokenizer)
    num_labels = ASSUMED_LABELS if config.target == "label" else 0
    match config.source:
        case "text":
            return VocabularySizes(num_words, 0, True, 0, num_labels)
        case "items":
            return VocabularySizes(num_words, 0, True, 1, num_labels)
        case "series":
            return VocabularySizes(0, 0, True, 1, num_labels)
