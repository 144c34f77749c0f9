"""The model of a recipe, with small vocabularies and without memory for its weights."""

from torch import nn

from regard.building.captioners import build_captioner
from regard.building.classifiers import build_classifier
from regard.building.translators import build_translation
from regard.config import CaptionModelConfig, ClassificationModelConfig, Experiment
from regard.numerics.linear import meta_device


def build(experiment: Experiment) -> nn.Module:
    """Build the model on the meta device."""
    data, config = experiment.data, experiment.model
    with meta_device():
        if isinstance(config, ClassificationModelConfig):
            sizes = {"text": (13, 0), "items": (13, 1), "series": (0, 2)}[data.source]
            return build_classifier(config, *sizes, num_outputs=1)
        if isinstance(config, CaptionModelConfig):
            return build_captioner(config, data.image_size, 13)
        return build_translation(config, 13, 13)
