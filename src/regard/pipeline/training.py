"""From a recipe to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
from torch import nn

from regard import recipes
from regard.build import build_model
from regard.config import Experiment, TrainingConfig
from regard.data.batching import BatchSettings, PairBatches
from regard.data.encoded import EncodedPairs
from regard.data.text import Pair
from regard.errors import UserError
from regard.files import make_folder
from regard.metrics import text as metrics
from regard.models.seq2seq import Seq2Seq
from regard.pipeline import prepare, resuming, splitting
from regard.pipeline.folder import RunFolder, as_lines
from regard.pipeline.initial import Beginning, begin_with, keep_fixed
from regard.pipeline.prepare import Tokenizers
from regard.pipeline.splitting import Split
from regard.pipeline.translator import Translator, check_lengths
from regard.pipeline.vectors import set_vectors
from regard.pipeline.watching import Watch
from regard.search import ImpossibleError
from regard.training.checkpoint import Checkpoints, facts_of
from regard.training.journal import REMEDY
from regard.training.log import EndLine, Example, Reporter, Validation
from regard.training.loop import check
from regard.training.loop import train as run_loop
from regard.training.loss import CrossEntropy, mean_word_loss
from regard.training.precision import Precision, has_fast_bfloat16
from regard.training.schedule import (
    Constant,
    Cosine,
    InverseSquareRoot,
    Linear,
    Plateau,
    Schedule,
)
from regard.training.settings import Optimiser, Period, TrainingSettings
from regard.training.teacher_forcing import TeacherForcing

NUM_EXAMPLES = 3
NEARLY_ALL = 0.999
METRICS = {"bleu": metrics.bleu, "chrf": metrics.chrf, "exact_match": metrics.exact_match}


@dataclass(frozen=True)
class Plan:
    """What is about to be trained, for whoever wants to say so first."""

    folder: RunFolder
    num_pairs: int
    num_dev: int
    num_source: int
    num_target: int
    num_parameters: int
    num_frozen: int
    """Parameters that stay as they are."""
    precision: Precision
    device: str
    left_out: tuple[str, ...]
    made: Path | None
    """The file in the cache that the training pairs were written to, where one was."""
    beginning: Beginning | None = None
    """What of another run the model began with."""


def train(
    experiment: Experiment,
    path: Path,
    *,
    resume: bool = False,
    begin: Callable[[Plan], Reporter | None] | None = None,
    watch: Watch | None = None,
) -> EndLine:
    """Train a recipe into a run folder. `watch` is told how far the data are prepared, and `begin`
    the plan; it gives who watches the training.

    UserError where the folder holds a run already, or, to resume, none or one of other settings or
    data; where the data or the recipe do not fit. Nothing is written before all of that is known.
    """
    folder = RunFolder(path)
    resuming.check_folder(folder, experiment, resume=resume)
    split = splitting.read(experiment.data, experiment.training.seed, watch)
    tokenizers = _tokenizers(experiment, folder if resume else None, split, watch)
    encoded = prepare.encode(
        experiment.data, tokenizers, split.train, experiment.training.seed, watch
    )
    experiment = _with_max_ratio(experiment, encoded.batches)
    torch.manual_seed(experiment.training.seed)
    model = build_model(experiment.model, len(tokenizers.source), len(tokenizers.target))
    beginning = None
    if experiment.training.initial_run is not None and not resume:
        beginning = begin_with(experiment.training.initial_run, experiment.model, model, tokenizers)
    if experiment.model.vectors is not None:
        set_vectors(model, tokenizers, experiment.model.vectors)
    keep_fixed(model, experiment.training.freeze)
    device = _device(experiment.training)
    model.to(device)
    precision = _precision(experiment.training, device)
    settings = settings_of(experiment.training, precision)
    check(encoded.batches, settings, validates=bool(split.dev))
    Checkpoints(path, facts_of(settings, encoded.batches)).check(resume=resume)
    if resume:
        resuming.check_dev(folder, split.dev)
    plan = Plan(
        folder=folder,
        num_pairs=len(encoded.batches),
        num_dev=len(split.dev),
        num_source=len(tokenizers.source),
        num_target=len(tokenizers.target),
        num_parameters=sum(each.numel() for each in model.parameters()),
        num_frozen=sum(each.numel() for each in model.parameters() if not each.requires_grad),
        precision=precision,
        device=str(device),
        left_out=split.left_out + encoded.left_out,
        made=encoded.made,
        beginning=beginning,
    )
    validate = _validation(experiment, tokenizers, split.dev) if split.dev else None
    _write(folder, experiment, tokenizers, split)
    return run_loop(
        model,
        encoded.batches,
        settings,
        validate=validate,
        report=begin(plan) if begin else None,
        folder=path,
        resume=resume,
    )


def _tokenizers(
    experiment: Experiment, resumed: RunFolder | None, split: Split, watch: Watch | None
) -> Tokenizers:
    """Those of the run that goes on, of the run that is named, or new ones."""
    path = experiment.data.tokenizers_path
    if resumed is not None:
        return Tokenizers.load(resumed)
    if path is None:
        return prepare.train_tokenizers(experiment.data, split.train, watch)
    tokenizers = Tokenizers.load(RunFolder(path))
    if experiment.model.tied == "all" and not tokenizers.is_shared:
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


def _write(folder: RunFolder, experiment: Experiment, tokenizers: Tokenizers, split: Split) -> None:
    make_folder(folder.path)
    tokenizers.save(folder)
    for path, pairs in ((folder.dev, split.dev), (folder.test, split.test)):
        if pairs:
            folder.write(path, as_lines(pairs))
    folder.write(folder.config, recipes.dump(experiment))


def settings_of(config: TrainingConfig, precision: Precision) -> TrainingSettings:
    """The training stage's own records from a recipe's."""
    return TrainingSettings(
        length=Period(config.updates) if config.updates else Period(config.epochs, "epoch"),
        optimiser=Optimiser(
            config.learning_rate,
            _schedule(config),
            config.weight_decay,
            config.clip,
            config.adam_betas,
            config.adam_epsilon,
        ),
        loss=CrossEntropy(config.label_smoothing, config.loss),
        teacher_forcing=TeacherForcing(
            config.teacher_forcing, config.teacher_forcing_end, config.forced_by
        ),
        precision=precision,
        accumulate=config.accumulate,
        validate_every=Period(config.validate_every)
        if config.validate_every
        else Period(1, "epoch"),
        patience=config.patience,
        average=config.average,
        log_every=Period(config.log_every, config.log_by),
        seed=config.seed,
    )


def _schedule(config: TrainingConfig) -> Schedule:
    match config.schedule:
        case "constant":
            return Constant(config.warmup)
        case "cosine":
            return Cosine(config.warmup)
        case "linear":
            return Linear(config.warmup)
        case "inverse_square_root":
            return InverseSquareRoot(config.warmup)
        case "plateau":
            return Plateau(config.warmup)


def _device(config: TrainingConfig) -> torch.device:
    if config.device == "cuda" and not torch.cuda.is_available():
        raise UserError("training.device is cuda, but torch sees no GPU here: use cpu or auto")
    if config.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(config.device)


def _precision(config: TrainingConfig, device: torch.device) -> Precision:
    if config.precision == "auto":
        return "bfloat16" if has_fast_bfloat16(device) else "float32"
    return config.precision


def _validation(
    experiment: Experiment, tokenizers: Tokenizers, dev: Sequence[Pair]
) -> Callable[[nn.Module], Validation]:
    """The dev score: what the model writes freely, and its loss on the true targets."""
    data = experiment.data
    texts = [pair.source for pair in dev]
    sources = prepare.encode_sources(data, tokenizers.source, texts)
    wanted = [pair.target for pair in dev]
    targets = prepare.encode_targets(data, tokenizers.target, wanted)
    check_lengths([experiment.model], texts, sources)
    check_lengths([experiment.model], wanted, targets)
    pairs = EncodedPairs.of(sources, targets)
    batches = PairBatches(pairs, BatchSettings(tokens=4096), experiment.training.seed)

    greedy = replace(experiment.search, beam=1)
    measure = METRICS[experiment.training.metric]

    def validate(model: nn.Module) -> Validation:
        translator = Translator(experiment, tokenizers, cast(Seq2Seq, model))
        try:
            found = translator.translate(texts, search=greedy, attention=False)
        except ImpossibleError as error:
            raise UserError(
                "what the model writes for the dev pairs has a probability that is not a number, "
                f"so training stopped and these weights are not kept. {REMEDY}"
            ) from error
        outputs = [each.text for each in found]
        references = [[tokenizers.target.normalise(each)] for each in wanted]
        score = measure(outputs, references)
        loss = mean_word_loss(model, (each.batch for each in batches.in_order()))
        examples = tuple(
            Example(pair.source, pair.target, output)
            for pair, output in zip(dev[:NUM_EXAMPLES], outputs, strict=False)
        )
        return Validation(score.value, score.name, loss, examples)

    return validate
