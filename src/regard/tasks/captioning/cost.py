"""Parameters and FLOPs of a captioning recipe."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.building.captioners import build_captioner
from regard.config import BackboneEncoderConfig, CaptionDataConfig, Experiment
from regard.config.checks import require_resolved
from regard.config.models import is_fine_tuned
from regard.corpora import splits
from regard.data.batch import GridFeatures, Images
from regard.models.vision.backbone import Backbone
from regard.tasks.arguments import sections_of
from regard.tasks.captioning.training import tokenizer_of
from regard.tasks.training.cost import (
    LEARN,
    Cost,
    VocabularySizes,
    assumed_size,
    num_multiplied,
    num_parameters,
)


def estimate_cost(experiment: Experiment) -> Cost:
    """Return the cost of a recipe. UserError if the model cannot be built.

    A source token is a cell of an image. It costs its share of the convolutions, three times the
    forward pass, because the backward pass costs two."""
    data, config = sections_of(experiment, CaptionDataConfig, experiment.name)
    num_words, is_assumed = data.vocabulary_size or assumed_size(data.tokenizer), True
    if data.synthetic is not None:
        pairs = splits.read(data).train
        num_words, is_assumed = len(tokenizer_of(data, None, list(pairs))), False
    backbone = None
    if isinstance(config.encoder, BackboneEncoderConfig):
        backbone = Backbone.load(require_resolved(config.encoder.name)).to("meta")
    with torch.device("meta"):
        model = build_captioner(config, data.image_size, num_words, backbone)
        side = data.image_size
        source: Images | GridFeatures = Images(torch.zeros(1, 3, side, side, dtype=torch.uint8))
        if backbone is not None and not is_fine_tuned(config):
            source = GridFeatures(torch.zeros(1, *backbone.shape(side)))
        with FlopCounterMode(display=False) as counter:
            num_cells = model.encoder(source).mask.size(1)
    decoder: Any = model.decoder
    return Cost(
        sizes=VocabularySizes(0, num_words, is_assumed),
        num_parameters=num_parameters(model),
        source_token=3 * counter.get_total_flops() // num_cells,
        target_token=LEARN * num_multiplied(decoder),
        batch_tokens=None,
        num_updates=experiment.training.updates,
    )
