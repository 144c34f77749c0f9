"""The task of translation: text in, text out, written token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import nn

from regard.building import build_translation
from regard.building.memory import check_memory
from regard.config import DataConfig, Experiment, RecurrentConfig, TrainingConfig, WriterConfig
from regard.data.batching import BatchSettings, PairBatches
from regard.data.examples import Pair
from regard.data.text.encoded import EncodedPairs
from regard.data.text.vectors import read_external
from regard.errors import UserError
from regard.metrics.error_rates import ERROR_RATES
from regard.metrics.text import TEXT_METRICS
from regard.models.seq2seq import Seq2Seq
from regard.runs.folder import RunFolder
from regard.runs.progress import OnProgress
from regard.runs.splits import Split
from regard.tasks.setup import Prepared
from regard.tasks.translation import encoding, preparation
from regard.tasks.translation.embeddings import set_external, set_vectors
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.initialisation import begin_with
from regard.tasks.translation.translator import MAX_SCORED, Translation, Translator
from regard.tasks.validation import FreeWriting, metric_named
from regard.training.loss import CrossEntropy
from regard.training.objective import NextToken
from regard.training.teacher_forcing import TeacherForcing

NEARLY_ALL = 0.999
METRICS = (*TEXT_METRICS, *ERROR_RATES)


def prepare(
    experiment: Experiment,
    data: DataConfig,
    split: Split,
    resumed: RunFolder | None,
    on_progress: OnProgress | None,
) -> Prepared:
    """Tokenizers, batches and a model for them. UserError where they do not fit each other."""
    config, model_config = experiment.training, experiment.model
    if not isinstance(model_config, WriterConfig):
        raise UserError(f"model.family {model_config.family} writes no texts")
    tokenizers = _tokenizers(data, model_config.tied, resumed, split, on_progress)
    encoded = preparation.encode(data, tokenizers, split.train, config.seed, on_progress)
    experiment = _with_max_ratio(experiment, encoded.batches)
    external = None
    if isinstance(model_config, RecurrentConfig) and model_config.external is not None:
        external = read_external(model_config.external)
        model_config = replace(model_config, external_shape=(external.size(0), external.size(1)))
        experiment = replace(experiment, model=model_config)
    build = partial(build_translation, model_config, len(tokenizers.source), len(tokenizers.target))
    check_memory(build)
    torch.manual_seed(config.seed)
    model = build()
    beginning = None
    if config.initial_run is not None and resumed is None:
        beginning = begin_with(config.initial_run, model_config, model, tokenizers)
    if external is not None:
        set_external(model, external)
    if model_config.vectors is not None:
        set_vectors(model, tokenizers, model_config.vectors)
    dev, too_long = _readable(experiment, data, tokenizers, split.dev)
    return Prepared(
        experiment,
        model,
        encoded.batches,
        objective_of(config),
        _validation(experiment, data, tokenizers, dev) if dev else None,
        len(encoded.batches),
        f"vocabulary {len(tokenizers.source):,} and {len(tokenizers.target):,}",
        tokenizers.save,
        encoded.left_out + too_long,
        encoded.made,
        beginning,
    )


def _tokenizers(
    data: DataConfig,
    tied: str,
    resumed: RunFolder | None,
    split: Split,
    on_progress: OnProgress | None,
) -> Tokenizers:
    """Those of the run that goes on, of the run that is named, or new ones."""
    path = data.tokenizers_path
    if resumed is not None:
        return Tokenizers.load(resumed)
    if path is None:
        return preparation.train_tokenizers(data, split.train, on_progress)
    tokenizers = Tokenizers.load(RunFolder(path))
    if tied == "all" and not tokenizers.is_shared:
        raise UserError(
            f"model.tied all shares the embeddings of both sides, but {path} has a vocabulary for "
            "each: set model.tied output or none"
        )
    return tokenizers


def _with_max_ratio(experiment: Experiment, batches: PairBatches) -> Experiment:
    if experiment.search.max_ratio is not None:
        return experiment
    ratio = round(2 * batches.length_ratio(NEARLY_ALL), 2)
    return replace(experiment, search=replace(experiment.search, max_ratio=ratio))


def objective_of(config: TrainingConfig) -> NextToken:
    """What a model that writes is trained towards."""
    return NextToken(
        CrossEntropy(config.label_smoothing, config.loss),
        TeacherForcing(config.teacher_forcing, config.teacher_forcing_end, config.forced_by),
    )


def _readable(
    experiment: Experiment, data: DataConfig, tokenizers: Tokenizers, dev: Sequence[Pair]
) -> tuple[list[Pair], tuple[str, ...]]:
    """Return the dev pairs that are short enough to be scored by this model, and a line about the
    others. UserError if all are too long."""
    longest, field = experiment.search.max_source or MAX_SCORED, "search.max_source"
    positions = experiment.model.longest_sequence
    if positions is not None and positions <= longest:
        longest, field = positions, "model.longest"
    sources = encoding.encode_sources(data, tokenizers.source, [pair.source for pair in dev])
    targets = encoding.encode_targets(data, tokenizers.target, [pair.target for pair in dev])
    sizes = [max(map(len, sides)) for sides in zip(sources, targets, strict=True)]
    short = [pair for pair, size in zip(dev, sizes, strict=True) if size <= longest]
    if dev and not short:
        remedy = ", or use other model.positions" if field == "model.longest" else ""
        raise UserError(
            f"all {len(dev)} dev pairs are longer than {longest:,} tokens: raise {field}{remedy}"
        )
    lost = len(dev) - len(short)
    report = f"left out {lost} dev pairs longer than {longest:,} tokens ({field})"
    return short, (report,) if lost else ()


def _validation(
    experiment: Experiment,
    data: DataConfig,
    tokenizers: Tokenizers,
    dev: Sequence[Pair],
) -> FreeWriting:
    """The dev score: what the model writes freely, and its loss on the true targets."""
    texts = [pair.source for pair in dev]
    sources = encoding.encode_sources(data, tokenizers.source, texts)
    wanted = [pair.target for pair in dev]
    targets = encoding.encode_targets(data, tokenizers.target, wanted)
    pairs = EncodedPairs.of(sources, targets)
    batches = PairBatches(pairs, BatchSettings(tokens=4096), experiment.training.seed)

    greedy = replace(experiment.search, beam=1)

    def write(model: nn.Module) -> Sequence[Translation]:
        translator = Translator(experiment, tokenizers, cast(Seq2Seq, model))
        return translator.translate(texts, search=greedy, attention=False)

    return FreeWriting(
        write,
        texts,
        [[tokenizers.target.normalise(each)] for each in wanted],
        metric_named(experiment.training.metric, METRICS, "chrf", "texts"),
        batches,
    )
