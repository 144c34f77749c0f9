"""Cost of a classification recipe."""

from __future__ import annotations

from typing import Any

from regard.building import build_classifier
from regard.config import ClassificationDataConfig, Experiment
from regard.linear import meta_device
from regard.runs import splits
from regard.tasks.arguments import sections_of
from regard.tasks.classification.inputs import InputsAndTargets
from regard.tasks.cost import ASSUMED_LABELS, ASSUMED_WORDS, Cost, VocabularySizes


def estimate_cost(experiment: Experiment) -> Cost:
    """Return the cost of a recipe. UserError if the model cannot be built."""
    data, config = sections_of(experiment, ClassificationDataConfig, experiment.name)
    sizes = vocabulary_sizes(data)
    with meta_device():
        model = build_classifier(config, sizes.source, sizes.num_features, sizes.target)
    sides: Any = model.encoder, model.head
    batch_tokens = data.batch_tokens if data.batch_sentences is None else None
    return Cost.of_model(experiment, sizes, model, sides, batch_tokens)


def vocabulary_sizes(config: ClassificationDataConfig) -> VocabularySizes:
    """Return the sizes of generated data, or those that the recipe sets."""
    if config.synthetic is not None:
        inputs = InputsAndTargets.learn(config, list(splits.read(config).train))
        features = inputs.reader.features
        return VocabularySizes(inputs.vocabulary_size, inputs.targets.size, False, features)
    num_words = config.vocabulary_size or ASSUMED_WORDS
    num_outputs = ASSUMED_LABELS if config.target == "label" else 1
    match config.source:
        case "text":
            return VocabularySizes(num_words, num_outputs, True)
        case "items":
            return VocabularySizes(num_words, num_outputs, True, 1)
        case "series":
            return VocabularySizes(0, num_outputs, True, 1)
