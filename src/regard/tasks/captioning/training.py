"""Training of a captioner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import cast

import torch
from torch import nn

from regard.building.captioners import build_captioner
from regard.building.ram import check_ram
from regard.config import (
    BackboneEncoderConfig,
    CaptionDataConfig,
    CaptionModelConfig,
    Experiment,
    longest_sequence,
)
from regard.config.checks import require_resolved
from regard.config.models import is_fine_tuned
from regard.corpora.splits import Split
from regard.data.batch import END
from regard.data.batching import BatchSettings, PairBatches
from regard.data.examples import Pair
from regard.data.images.encoded import EncodedCaptions, ImageSet
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.metrics.captions import CAPTION_METRICS, CiderD
from regard.metrics.error_rates import ERROR_RATES
from regard.models.seq2seq import Seq2Seq
from regard.models.vision.backbone import Backbone
from regard.names import RewardName
from regard.runs.folder import RunFolder
from regard.runtime import processes
from regard.runtime.device import device_named
from regard.runtime.progress import OnProgress
from regard.tasks.arguments import sections_of
from regard.tasks.captioning.images import ImageSources
from regard.tasks.captioning.initialisation import initialise_from
from regard.tasks.captioning.model import CaptionModel
from regard.tasks.captioning.teachers import load_teacher
from regard.tasks.generation import GeneratedText
from regard.tasks.training.checks import caption_findings, reward_findings
from regard.tasks.training.objectives import gleu, objective_of, sampler_of
from regard.tasks.training.sampling import Reward
from regard.tasks.training.setup import TrainingSetup
from regard.tasks.training.teachers import teachers_of
from regard.tasks.training.validation import DecodingValidation, metric_named
from regard.tasks.translation.embeddings import read_extra_vectors, set_extra_vectors

MAX_VALIDATED = 200
"""Largest number of dev images that a validation captions."""
METRICS = (*CAPTION_METRICS, *ERROR_RATES)


def prepare(
    experiment: Experiment,
    split: Split,
    resumed: RunFolder | None,
    on_progress: OnProgress | None,
) -> TrainingSetup:
    """Return images, encoded captions and a model. UserError if they do not fit each other."""
    config = experiment.training
    data, model_config = sections_of(experiment, CaptionDataConfig, experiment.name)
    pairs = list(split.train)
    tokenizer = tokenizer_of(data, resumed, pairs)
    backbone = _backbone(model_config, resumed)
    frozen = None
    if backbone is not None and not is_fine_tuned(model_config):
        frozen = backbone.to(device_named(config.device, "training.device"))
    sources = ImageSources.of(data, frozen)
    image_set, unread = sources.image_set(
        (pair.source for pair in chain(pairs, split.dev)), on_progress
    )
    encoded, too_long = _encoded(data, tokenizer, image_set, pairs)
    experiment = _with_max_length(experiment, encoded)
    decoder, extra_vectors = read_extra_vectors(model_config.decoder)
    model_config = replace(model_config, decoder=decoder)
    experiment = replace(experiment, model=model_config)
    build = partial(build_captioner, model_config, data.image_size, len(tokenizer), backbone)
    check_ram(build)
    torch.manual_seed(config.seed)
    model = build()
    initialisation = None
    if config.initial_run is not None and resumed is None:
        initialisation = initialise_from(config.initial_run, model, tokenizer)
    if extra_vectors is not None:
        set_extra_vectors(model, extra_vectors)
    dev = [pair for pair in split.dev if pair.source in image_set.places]
    rewards = _rewards(tokenizer, pairs) if config.has_rewards else {}
    batches = PairBatches(encoded, _settings(encoded, data.batch_sentences), config.seed)
    return TrainingSetup(
        experiment,
        model,
        batches,
        objective_of(
            config,
            sampler_of(config, tokenizer, rewards, data.max_length),
            teachers_of(config, partial(load_teacher, experiment, tokenizer)),
        ),
        _validation(experiment, data, tokenizer, image_set, dev, frozen) if dev else None,
        encoded.num_captions,
        f"{len(image_set.names):,} images, vocabulary {len(tokenizer):,}",
        partial(_save, tokenizer, backbone),
        unread + too_long,
        initialisation=initialisation,
        longest=batches.longest,
        findings=(
            *caption_findings(len(image_set.names), is_pretrained=backbone is not None),
            *reward_findings(config, model_config, initialisation),
        ),
    )


def _backbone(config: CaptionModelConfig, resumed: RunFolder | None) -> Backbone | None:
    """Return the backbone of the resumed run, or the one that the configuration names."""
    encoder = config.encoder
    if not isinstance(encoder, BackboneEncoderConfig):
        return None
    return Backbone.load(
        require_resolved(encoder.name) if resumed is None else resumed.backbone
    ).eval()


def _save(tokenizer: Tokenizer, backbone: Backbone | None, folder: RunFolder) -> None:
    tokenizer.save(folder.target_tokenizer)
    if backbone is not None and not folder.backbone.exists():
        unfinished = folder.backbone.with_name("backbone.unfinished")
        backbone.save(unfinished)
        unfinished.rename(folder.backbone)


def tokenizer_of(
    data: CaptionDataConfig, resumed: RunFolder | None, pairs: Sequence[Pair]
) -> Tokenizer:
    """Return the tokenizer of the resumed run, or train one on the training captions."""
    if resumed is not None:
        return Tokenizer.load(resumed.target_tokenizer)
    settings = TokenizerSettings(
        kind=data.tokenizer,
        language=data.language,
        lowercase=data.lowercase,
        min_count=data.min_count,
        size=data.vocabulary_size,
    )
    return Tokenizer.train((pair.target for pair in pairs), settings)


def _encoded(
    data: CaptionDataConfig, tokenizer: Tokenizer, image_set: ImageSet, pairs: Sequence[Pair]
) -> tuple[EncodedCaptions, tuple[str, ...]]:
    """Encode the captions whose image can be read. Captions that are too long are left out and
    reported."""
    known = [pair for pair in pairs if pair.source in image_set.places]
    if not known:
        raise UserError(
            f"cannot read the image of any of the {len(pairs)} training captions, such as "
            f"{pairs[0].source}: set --data.images to the folder of the images"
        )
    ids = [[*tokens, END] for tokens in tokenizer.encode_batch([pair.target for pair in known])]
    short = [place for place, tokens in enumerate(ids) if len(tokens) <= data.max_length]
    if not short:
        raise UserError(
            f"all {len(known)} captions are longer than {data.max_length} tokens: raise "
            "--data.max-length"
        )
    places = [image_set.places[known[place].source] for place in short]
    encoded = EncodedCaptions.of(
        image_set, zip(places, (ids[place] for place in short), strict=True)
    )
    num_long = len(known) - len(short)
    report = f"left out {num_long} captions longer than {data.max_length} tokens"
    return encoded, (report,) if num_long else ()


def _settings(encoded: EncodedCaptions, num_captions: int) -> BatchSettings:
    """Return settings of batches with about `num_captions` captions. An image is in a batch with
    all its captions."""
    images = round(num_captions * len(encoded) / encoded.num_captions)
    return BatchSettings(tokens=None, sentences=max(1, images))


def _with_max_length(experiment: Experiment, encoded: EncodedCaptions) -> Experiment:
    """Limit captions to twice the longest training caption, unless the recipe sets a limit."""
    if experiment.search.max_length is not None:
        return experiment
    longest = 2 * int(encoded.target_lengths.max())
    num_positions = longest_sequence([experiment.model])
    if num_positions is not None:
        longest = min(longest, num_positions)
    return replace(experiment, search=replace(experiment.search, max_length=longest))


def _rewards(tokenizer: Tokenizer, pairs: Sequence[Pair]) -> Mapping[RewardName, Reward]:
    """Return the rewards of captions, with the document frequencies of the training captions."""
    captions = _references(tokenizer, pairs)
    return {"cider": CiderD(list(captions.values())).score, "gleu": gleu}


def _references(tokenizer: Tokenizer, pairs: Sequence[Pair]) -> Mapping[str, list[str]]:
    """Return the captions of each image."""
    references: defaultdict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        references[pair.source].append(tokenizer.normalise(pair.target))
    return references


def _validation(
    experiment: Experiment,
    data: CaptionDataConfig,
    tokenizer: Tokenizer,
    image_set: ImageSet,
    dev: Sequence[Pair],
    backbone: Backbone | None,
) -> DecodingValidation:
    """Return the validation: the score of greedy captions, and the loss on true captions."""
    encoded, _ = _encoded(data, tokenizer, image_set, dev)
    batches = PairBatches(encoded, _settings(encoded, 256), experiment.training.seed)
    references = _references(tokenizer, dev)
    names = list(references)[:MAX_VALIDATED]
    images = image_set.images(processes.share(names))
    greedy = replace(experiment.search, beam=1)

    def decode(model: nn.Module) -> Sequence[GeneratedText]:
        captioner = CaptionModel(
            experiment, tokenizer, cast(Seq2Seq, model), backbone, is_private=True
        )
        return captioner.generate(images, search=greedy, attention=False)

    return DecodingValidation(
        decode,
        [ImageSources.of(data).name_of(name) for name in names],
        [references[name] for name in names],
        metric_named(experiment.training.metric, METRICS, "cider", "captions"),
        batches,
    )
