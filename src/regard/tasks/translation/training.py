"""Training of a translation model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import nn

from regard.building.ram import check_ram
from regard.building.translators import build_translation
from regard.config import (
    DataConfig,
    Experiment,
    TranslationModelConfig,
)
from regard.corpora.splits import Split
from regard.data.batch import UNKNOWN, PairBatch, Tokens
from regard.data.batching import BatchSettings, PairBatches
from regard.data.examples import Pair
from regard.data.text.features import FeatureTokenizer
from regard.errors import UserError
from regard.metrics.error_rates import ERROR_RATES
from regard.metrics.text import TEXT_METRICS
from regard.models.seq2seq import Seq2Seq
from regard.runs.folder import RunFolder
from regard.runtime import processes
from regard.runtime.progress import OnProgress
from regard.shapes import Int, Tensor
from regard.tasks.arguments import sections_of
from regard.tasks.generation import GeneratedText
from regard.tasks.source_form import SourceForm
from regard.tasks.training.checks import Finding, gleu_findings, pair_findings, reward_findings
from regard.tasks.training.objectives import gleu, objective_of, sampler_of
from regard.tasks.training.setup import TrainingSetup
from regard.tasks.training.teachers import teachers_of
from regard.tasks.training.validation import DecodingValidation, metric_named
from regard.tasks.translation import preparation
from regard.tasks.translation.embeddings import (
    read_extra_vectors,
    set_extra_vectors,
    set_vectors,
)
from regard.tasks.translation.encoding import PairEncoder, Tokenizers
from regard.tasks.translation.initialisation import initialise_from
from regard.tasks.translation.limits import MAX_SOURCE, limit_of_scored
from regard.tasks.translation.model import TranslationModel
from regard.tasks.translation.teachers import load_teacher

NEARLY_ALL = 0.999
"""Share of training pairs whose ratio of lengths bounds the length of translations."""
METRICS = (*TEXT_METRICS, *ERROR_RATES)


def prepare(
    experiment: Experiment,
    split: Split,
    resumed: RunFolder | None,
    on_progress: OnProgress | None,
) -> TrainingSetup:
    """Return tokenizers, batches and a model. UserError if they do not fit each other."""
    config = experiment.training
    data, model_config = sections_of(experiment, DataConfig, experiment.name)
    tokenizers = _tokenizers(data, model_config.tied, resumed, split, on_progress)
    encoded = preparation.encode(
        data, tokenizers, split.train, config.seed, on_progress, model=model_config
    )
    experiment = _with_max_ratio(experiment, encoded.batches)
    decoder, extra_vectors = read_extra_vectors(model_config.decoder)
    model_config = replace(model_config, decoder=decoder)
    experiment = replace(experiment, model=model_config)
    build = partial(build_translation, model_config, len(tokenizers.source), len(tokenizers.target))
    check_ram(build)
    torch.manual_seed(config.seed)
    model = build()
    initialisation = None
    if config.initial_run is not None and resumed is None:
        initialisation = initialise_from(config.initial_run, model_config, model, tokenizers)
    if extra_vectors is not None:
        set_extra_vectors(model, extra_vectors)
    if model_config.vectors is not None:
        set_vectors(model, tokenizers, model_config.vectors)
    encoder = PairEncoder(data, model_config, tokenizers)
    dev, too_long = _readable(experiment, encoder, split.dev)
    return TrainingSetup(
        experiment,
        model,
        preparation.resampled(data, tokenizers, encoded, config.seed),
        objective_of(
            config,
            sampler_of(config, tokenizers.target, {"gleu": gleu}, data.max_length),
            teachers_of(config, partial(load_teacher, data, tokenizers, config.teachers)),
        ),
        _validation(experiment, encoder, tokenizers, dev) if dev else None,
        len(encoded.batches),
        f"vocabulary {len(tokenizers.source):,} and {len(tokenizers.target):,}",
        tokenizers.save,
        encoded.left_out + too_long,
        encoded.cache_files,
        initialisation,
        longest=encoded.batches.longest,
        describe=partial(_lines, tokenizers),
        findings=(
            *_findings(data, model_config, tokenizers, split),
            *reward_findings(config, model_config, initialisation),
            *gleu_findings(config, split.train),
        ),
    )


def _lines(tokenizers: Tokenizers, batch: PairBatch) -> list[str]:
    """Return source TAB target of each pair of a batch, as the model reads them."""
    source, columns = cast(Tokens, batch.source), []
    for tokenizer, ids, mask in (
        (tokenizers.source, source.ids, source.mask),
        (tokenizers.target, _without_copies(batch.outputs, len(tokenizers.target)), batch.mask),
    ):
        rows = zip(ids.tolist(), mask.sum(dim=1).tolist(), strict=True)
        columns.append([tokenizer.decode(row[:length]) for row, length in rows])
    return ["\t".join(pair) for pair in zip(*columns, strict=True)]


def _without_copies(outputs: Int[Tensor, "batch target"], size: int) -> Int[Tensor, "batch target"]:
    """Return the outputs with UNKNOWN for copied words outside the vocabulary."""
    return torch.where(outputs < size, outputs, UNKNOWN)


def _findings(
    data: DataConfig, model: TranslationModelConfig, tokenizers: Tokenizers, split: Split
) -> tuple[Finding, ...]:
    """Return reasons why little can be learned; none for generated data. A model that copies is not
    checked, because it can copy words that its vocabulary lacks."""
    if data.synthetic is not None or model.copy != "none":
        return ()
    both = (tokenizers.source, tokenizers.target)
    return pair_findings(both, split.train, split.dev, data.tokenizers_path)


def _tokenizers(
    data: DataConfig,
    tied: str,
    resumed: RunFolder | None,
    split: Split,
    on_progress: OnProgress | None,
) -> Tokenizers:
    """Return the tokenizers of the resumed run, of the run `data.tokenizers_path`, or new ones."""
    path = data.tokenizers_path
    if resumed is not None:
        return Tokenizers.load(resumed)
    if path is None:
        return preparation.train_tokenizers(data, split.train, on_progress)
    tokenizers = Tokenizers.of_run(path)
    has_features = isinstance(tokenizers.source, FeatureTokenizer)
    if has_features != bool(data.feature_columns):
        verb = "reads" if has_features else "does not read"
        raise UserError(
            f"data.tokenizers_path is {path}, which {verb} features of sources: set "
            "data.feature_columns as in that run"
        )
    if tied == "all" and not tokenizers.is_shared:
        raise UserError(
            f"model.tied all shares the embeddings of both sides, but {path} has two different "
            "vocabularies: set model.tied output or none"
        )
    return tokenizers


def _with_max_ratio(experiment: Experiment, batches: PairBatches) -> Experiment:
    if experiment.search.max_ratio is not None:
        return experiment
    ratio = round(2 * batches.length_ratio(NEARLY_ALL), 2)
    return replace(experiment, search=replace(experiment.search, max_ratio=ratio))


def _readable(
    experiment: Experiment, encoder: PairEncoder, dev: Sequence[Pair]
) -> tuple[list[Pair], tuple[str, ...]]:
    """Return the dev pairs that are short enough to be scored by this model, and a message about
    the others. UserError if all are too long."""
    limit = limit_of_scored(experiment.search, [experiment.model])
    longest, field = limit.tokens, limit.field
    sources = encoder.sources([pair.source for pair in dev])
    targets = encoder.targets([pair.target for pair in dev], sources)
    sizes = [max(map(len, sides)) for sides in zip(sources, targets, strict=True)]
    short = [pair for pair, size in zip(dev, sizes, strict=True) if size <= longest]
    if dev and not short:
        remedy = "" if field == MAX_SOURCE else ", or use other positions"
        raise UserError(
            f"all {len(dev)} dev pairs are longer than {longest:,} tokens: raise {field}{remedy}"
        )
    num_long = len(dev) - len(short)
    report = f"left out {num_long} dev pairs longer than {longest:,} tokens ({field})"
    return short, (report,) if num_long else ()


def _validation(
    experiment: Experiment,
    encoder: PairEncoder,
    tokenizers: Tokenizers,
    dev: Sequence[Pair],
) -> DecodingValidation:
    """Return the validation: the score of greedy translations, and the loss on true targets."""
    texts = [pair.source for pair in dev]
    sources = encoder.sources(texts)
    references = [pair.target for pair in dev]
    pairs = encoder.pairs(sources, encoder.targets(references, sources))
    batches = PairBatches(pairs, BatchSettings(tokens=4096), experiment.training.seed)

    greedy = replace(experiment.search, beam=1)

    def decode(model: nn.Module) -> Sequence[GeneratedText]:
        translator = TranslationModel(experiment, tokenizers, cast(Seq2Seq, model), is_private=True)
        translator.source_form = SourceForm()  # held-out sources are not rejected
        return translator.translate(processes.share(texts), search=greedy, attention=False)

    return DecodingValidation(
        decode,
        texts,
        [[tokenizers.target.normalise(reference)] for reference in references],
        metric_named(experiment.training.metric, METRICS, "chrf", "texts"),
        batches,
    )
