"""What a recipe's model costs: its parameters and the arithmetic of training it.

A token that goes through a matrix of N weights costs N multiplications and N additions, 2 N FLOPs,
and twice that on the way back: 6 N in training (Kaplan et al. 2020, section 2.1). So it is the sum
over all matrices, those of the encoder for every source token and those of the decoder for every
target token. Looking an embedding up costs nothing; padding costs as much as words. Left out are
what grows with the length of a sentence, attention's own products (1 to 4 % at 30 tokens), and what
is small: biases, norms, activations, Adam.

Models are built without their numbers, and no file of pairs is read. Pairs that a recipe generates
are made, and their tokenizers trained, since nothing else tells how many words there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from regard.building import (
    build_captioner,
    build_classifier,
    build_translation,
)
from regard.config import (
    AnswerDataConfig,
    CaptionDataConfig,
    CaptionerConfig,
    ClassifierConfig,
    DataConfig,
    Experiment,
    WriterConfig,
)
from regard.data.batch import GridFeatures, Images
from regard.data.examples import Corpus
from regard.data.text.tokenizer_settings import SUBWORD_SIZE, SUBWORDS
from regard.errors import UserError
from regard.layers.positions import Learned
from regard.linear import meta_device
from regard.models.vision_backbone import Backbone
from regard.runs import splits
from regard.runs.folder import RunFolder
from regard.runs.splits import TrainingPairs
from regard.tasks.captioning import training as captioning
from regard.tasks.classification.inputs import Reading
from regard.tasks.translation import preparation
from regard.tasks.translation.encoding import Tokenizers

LOOKED_UP = (nn.Embedding, Learned)
"""Whose rows are looked up instead of multiplied."""
ASSUMED = 8000
"""Words of a vocabulary that nothing is known of before the data is read."""
ASSUMED_LABELS = 2
"""The same of labels."""


@dataclass(frozen=True)
class Cost:
    """`num_source` and `num_target` are the sizes of the vocabularies, `is_assumed` where nothing
    but the data would tell them. FLOPs are those of training."""

    num_source: int
    num_target: int
    is_assumed: bool
    num_parameters: int
    source_token: int
    """FLOPs for a source token."""
    target_token: int
    """FLOPs for a target token."""
    batch_tokens: int | None
    """Tokens of an update, half of them on each side, where a recipe says how many."""
    num_updates: int | None
    """Updates of the whole training, where a recipe says how many."""

    @property
    def update(self) -> float | None:
        """FLOPs of an update."""
        if self.batch_tokens is None:
            return None
        return self.batch_tokens / 2 * (self.source_token + self.target_token)

    @property
    def training(self) -> float | None:
        """FLOPs of the whole training."""
        if self.update is None or self.num_updates is None:
            return None
        return self.update * self.num_updates


def cost_of(experiment: Experiment) -> Cost:
    """The cost of a recipe. UserError where its model cannot be built."""
    data, config = experiment.data, experiment.model
    if isinstance(data, AnswerDataConfig) and isinstance(config, ClassifierConfig):
        found = _answers(data)
        with meta_device():
            model: nn.Module = build_classifier(
                config, found.num_source, found.num_features, found.num_target
            )
        sides: tuple[Any, Any] = model.encoder, model.readout
    elif isinstance(data, DataConfig) and isinstance(config, WriterConfig):
        found = _vocabularies(data)
        with meta_device():
            model = build_translation(config, found.num_source, found.num_target)
        sides = model.encoder, model.decoder
    elif isinstance(data, CaptionDataConfig) and isinstance(config, CaptionerConfig):
        return _caption_cost(experiment, data, config)
    else:
        raise UserError(f"model.family {config.family} is no model for data.task {data.task}")
    batch_tokens = None
    if data.batch_tokens is not None and data.batch_sentences is None:
        batch_tokens = data.batch_tokens * experiment.training.accumulate
    source_token, target_token = (6 * _num_multiplied(side) for side in sides)
    return Cost(
        num_source=found.num_source,
        num_target=found.num_target,
        is_assumed=found.is_assumed,
        num_parameters=sum(weight.numel() for weight in model.parameters()),
        source_token=source_token,
        target_token=target_token,
        batch_tokens=batch_tokens,
        num_updates=experiment.training.updates,
    )


def _caption_cost(experiment: Experiment, data: CaptionDataConfig, config: CaptionerConfig) -> Cost:
    """A source token is a cell of a picture: its share of the convolutions, three times forwards,
    since the way back costs two."""
    num_words, is_assumed = data.vocabulary_size or ASSUMED, True
    if data.generated is not None:
        pairs = splits.read(data).train
        num_words, is_assumed = len(captioning.tokenizer_of(data, None, list(pairs))), False
    backbone = None if config.backbone is None else Backbone.load(config.backbone).to("meta")
    with torch.device("meta"):
        model = build_captioner(config, data.picture_size, num_words, backbone)
        side = data.picture_size
        source: Images | GridFeatures = Images(torch.zeros(1, 3, side, side, dtype=torch.uint8))
        if backbone is not None and not config.backbone_learns:
            source = GridFeatures(torch.zeros(1, *backbone.shape(side)))
        with FlopCounterMode(display=False) as counter:
            cells = model.encoder(source).mask.size(1)
    decoder: Any = model.decoder
    return Cost(
        num_source=cells,
        num_target=num_words,
        is_assumed=is_assumed,
        num_parameters=sum(weight.numel() for weight in model.parameters()),
        source_token=3 * counter.get_total_flops() // cells,
        target_token=6 * _num_multiplied(decoder),
        batch_tokens=None,
        num_updates=experiment.training.updates,
    )


@dataclass(frozen=True)
class _Sizes:
    """Of both vocabularies (of the answers, of what is read), and whether they are a guess."""

    num_source: int
    num_target: int
    is_assumed: bool
    num_features: int = 0


def _num_multiplied(side: nn.Module) -> int:
    """The weights of all matrices that tokens are multiplied by. One that is an embedding too
    stands where it multiplies."""
    return sum(
        weight.numel()
        for module in side.modules()
        if not isinstance(module, LOOKED_UP)
        for weight in module.parameters(recurse=False)
        if weight.dim() >= 2
    )


def _answers(config: AnswerDataConfig) -> _Sizes:
    """Data that is made here tells them."""
    if config.generated is not None:
        reading = Reading.of(config, list(splits.read(config).train))
        features = reading.reader.features
        return _Sizes(reading.num_source, reading.answers.size, False, features)
    num_words = config.vocabulary_size or ASSUMED
    outputs = ASSUMED_LABELS if config.answer == "label" else 1
    match config.source:
        case "text":
            return _Sizes(num_words, outputs, True)
        case "items":
            return _Sizes(num_words, outputs, True, 1)
        case "series":
            return _Sizes(0, outputs, True, 1)


def _vocabularies(config: DataConfig) -> _Sizes:
    """Another run's tokenizers, or data that is made here, tell them."""
    if config.tokenizers_path is not None:
        found = Tokenizers.load(RunFolder(config.tokenizers_path))
        return _Sizes(len(found.source), len(found.target), False)
    if config.generated is not None or config.vocabulary is not None:
        nothing = TrainingPairs(Corpus(()), 0, 0, frozenset(), None)
        pairs = nothing if config.generated is None else splits.read(config).train
        tokenizers = preparation.train_tokenizers(config, pairs)
        return _Sizes(len(tokenizers.source), len(tokenizers.target), False)
    kinds = config.tokenizer, config.target_tokenizer or config.tokenizer
    known = [kind in SUBWORDS for kind in kinds]
    usual = [SUBWORD_SIZE if is_subwords else ASSUMED for is_subwords in known]
    source, target = (config.vocabulary_size or size for size in usual)
    return _Sizes(source, target, not all(known))
