"""The task of captioning: a picture in, text out, written token by token."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import cast

import torch
from torch import nn

from regard.building import build_captioner
from regard.building.memory import check_memory
from regard.config import (
    CaptionDataConfig,
    CaptionerConfig,
    Experiment,
)
from regard.data.batch import END
from regard.data.batching import BatchSettings, PairBatches
from regard.data.examples import Pair
from regard.data.images.encoded import EncodedCaptions, ImageSet
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.device import device_named
from regard.errors import UserError
from regard.metrics.captions import CAPTION_METRICS
from regard.metrics.error_rates import ERROR_RATES
from regard.models.seq2seq import Seq2Seq
from regard.models.vision_backbone import Backbone
from regard.runs.folder import RunFolder
from regard.runs.progress import OnProgress
from regard.runs.splits import Split
from regard.tasks.captioning.captioner import Captioner
from regard.tasks.captioning.images import PictureSources
from regard.tasks.setup import Prepared
from regard.tasks.translation.training import objective_of
from regard.tasks.translation.translator import Translation
from regard.tasks.validation import FreeWriting, metric_named

MOST_VALIDATED = 200
"""Pictures that a dev score is taken of: the first so many."""
METRICS = (*CAPTION_METRICS, *ERROR_RATES)


def prepare(
    experiment: Experiment,
    data: CaptionDataConfig,
    split: Split,
    resumed: RunFolder | None,
    on_progress: OnProgress | None,
) -> Prepared:
    """Pictures, captions as numbers and a model for them. UserError where they do not fit."""
    config, model_config = experiment.training, experiment.model
    if not isinstance(model_config, CaptionerConfig):
        raise UserError(f"model.family {model_config.family} sees no pictures")
    if config.initial_run is not None:
        raise UserError(
            f"--init-from is {config.initial_run}, but captioners begin with new weights"
        )
    pairs = list(split.train)
    tokenizer = tokenizer_of(data, resumed, pairs)
    backbone = _backbone(model_config, resumed)
    frozen = None
    if backbone is not None and not model_config.backbone_learns:
        frozen = backbone.to(device_named(config.device, "training.device"))
    sources = PictureSources.of(data, frozen)
    image_set, unread = sources.image_set(
        (pair.source for pair in chain(pairs, split.dev)), on_progress
    )
    encoded, too_long = _encoded(data, tokenizer, image_set, pairs)
    experiment = _with_max_length(experiment, encoded)
    build = partial(build_captioner, model_config, data.picture_size, len(tokenizer), backbone)
    check_memory(build)
    torch.manual_seed(config.seed)
    model = build()
    dev = [pair for pair in split.dev if pair.source in image_set.places]
    return Prepared(
        experiment,
        model,
        PairBatches(encoded, _settings(encoded, data.batch_sentences), config.seed),
        objective_of(config),
        _validation(experiment, data, tokenizer, image_set, dev, frozen) if dev else None,
        encoded.num_captions,
        f"{len(image_set.names):,} pictures, vocabulary {len(tokenizer):,}",
        partial(_save, tokenizer, backbone),
        unread + too_long,
    )


def _backbone(config: CaptionerConfig, resumed: RunFolder | None) -> Backbone | None:
    """That of the run that goes on, or the one that is named."""
    if config.backbone is None:
        return None
    return Backbone.load(config.backbone if resumed is None else resumed.backbone).eval()


def _save(tokenizer: Tokenizer, backbone: Backbone | None, folder: RunFolder) -> None:
    tokenizer.save(folder.target_tokenizer)
    if backbone is not None and not folder.backbone.exists():
        unfinished = folder.backbone.with_name("backbone.unfinished")
        backbone.save(unfinished)
        unfinished.rename(folder.backbone)


def tokenizer_of(
    data: CaptionDataConfig, resumed: RunFolder | None, pairs: Sequence[Pair]
) -> Tokenizer:
    """That of the run that goes on, or one learned from the captions to train on."""
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
    """Those whose picture could be read, without the longest, which are counted."""
    known = [pair for pair in pairs if pair.source in image_set.places]
    if not known:
        raise UserError(
            f"none of the {len(pairs)} captions to train on has a picture that can be read, such "
            f"as {pairs[0].source}: --data.pictures names the folder that they are in"
        )
    ids = [[*found, END] for found in tokenizer.encode_batch([pair.target for pair in known])]
    kept = [place for place, found in enumerate(ids) if len(found) <= data.max_length]
    if not kept:
        raise UserError(
            f"all {len(known)} captions are longer than {data.max_length} tokens: raise "
            "--data.max-length"
        )
    places = [image_set.places[known[place].source] for place in kept]
    encoded = EncodedCaptions.of(
        image_set, zip(places, (ids[place] for place in kept), strict=True)
    )
    lost = len(known) - len(kept)
    said = f"left out {lost} captions longer than {data.max_length} tokens"
    return encoded, (said,) if lost else ()


def _settings(encoded: EncodedCaptions, num_captions: int) -> BatchSettings:
    """Batches of about so many captions: as many pictures as have these in the mean."""
    pictures = round(num_captions * len(encoded) / encoded.num_captions)
    return BatchSettings(tokens=None, sentences=max(1, pictures))


def _with_max_length(experiment: Experiment, encoded: EncodedCaptions) -> Experiment:
    """Captions end at the latest at twice the longest that was trained on."""
    if experiment.search.max_length is not None:
        return experiment
    longest = 2 * int(encoded.target_lengths.max())
    return replace(experiment, search=replace(experiment.search, max_length=longest))


def _validation(
    experiment: Experiment,
    data: CaptionDataConfig,
    tokenizer: Tokenizer,
    image_set: ImageSet,
    dev: Sequence[Pair],
    backbone: Backbone | None,
) -> FreeWriting:
    """The dev score: what the model writes freely, and its loss on the true captions."""
    encoded, _ = _encoded(data, tokenizer, image_set, dev)
    batches = PairBatches(encoded, _settings(encoded, 256), experiment.training.seed)
    references: defaultdict[str, list[str]] = defaultdict(list)
    for pair in dev:
        references[pair.source].append(tokenizer.normalise(pair.target))
    names = list(references)[:MOST_VALIDATED]
    seen = image_set.images(names)
    greedy = replace(experiment.search, beam=1)

    def write(model: nn.Module) -> Sequence[Translation]:
        captioner = Captioner(experiment, tokenizer, cast(Seq2Seq, model), backbone)
        return captioner.write(seen, search=greedy, attention=False)

    return FreeWriting(
        write,
        names,
        [references[name] for name in names],
        metric_named(experiment.training.metric, METRICS, "cider", "captions"),
        batches,
    )
