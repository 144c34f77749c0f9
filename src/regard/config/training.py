"""Training: optimiser, schedule, validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.config.checks import (
    Count,
    CountOrZero,
    NumAveraged,
    NumSamples,
    Positive,
    PositiveShare,
    Seed,
    Share,
    Weight,
    check_fields,
)
from regard.config.label_weights import BALANCED, parse_label_weights
from regard.errors import UserError
from regard.names import (
    DeviceName,
    DivergenceName,
    ForcingUnit,
    LossUnit,
    MetricName,
    ObjectiveName,
    RewardName,
    ScheduleName,
    Sharding,
    TimeUnit,
    TrackerName,
    TrainingPrecision,
)

LIKELIHOOD_WEIGHT = 0.017
"""Weight of the likelihood beside the expected reward (Wu et al. 2016, section 5)."""


@dataclass(frozen=True)
class TrainingConfig:
    """Optimiser, schedule and validation."""

    initial_run: Path | None = None
    """Run folder to take weights from: every weight of the same name and shape, and the rows of
    embeddings and output layer for words that both vocabularies have."""
    freeze: tuple[str, ...] = ()
    """Parts of the model that are not trained, such as encoder."""
    epochs: Count = 10
    """Passes through the training data."""
    updates: Count | None = None
    """Number of updates, in place of epochs."""
    accumulate: Count = 1
    """Batches per update. Their gradients are added."""
    learning_rate: Positive = 1e-3
    """Peak learning rate of Adam."""
    schedule: ScheduleName = "constant"
    """Course of the learning rate after the warm-up."""
    warmup: CountOrZero = 0
    """Updates over which the learning rate rises from zero."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of Adam's moving means of the gradient and of its square."""
    adam_epsilon: Positive = 1e-8
    """Number that Adam adds to the root of the mean square."""
    weight_decay: Weight = 0.0
    """Decoupled weight decay (AdamW)."""
    clip: Positive | None = 1.0
    """Maximum norm of the gradient. Larger gradients are scaled down."""
    label_smoothing: Share = 0.0
    """Probability that is spread evenly over the vocabulary."""
    label_weights: tuple[str, ...] | None = None
    """Weights of labels in the training loss: balanced (n / (k n_label) for n training examples and
    k labels), or LABEL:WEIGHT for each label, such as spam:4; other labels have weight 1. The dev
    loss has no weights. Default: all labels have weight 1."""
    objective: ObjectiveName = "likelihood"
    """Objective: likelihood of the references, probabilities of trained models (distillation), or
    rewards of sampled texts: expected_reward (Wu et al. 2016), minimum_risk (Shen et al. 2016),
    self_critical (Rennie et al. 2017). Rewards are for models that are trained already
    (initial_run)."""
    reward: RewardName | None = None
    """Reward of a sampled text: gleu (words of the references, from 0 to 1) or cider (CIDEr-D, for
    captions). Default: cider for captions, gleu for other texts."""
    samples: NumSamples = 5
    """Samples of each sentence for its reward."""
    likelihood_weight: Weight | None = None
    """Weight of the likelihood beside the reward. Label smoothing and teacher forcing apply to the
    likelihood alone. Default: 0.017 with expected_reward, otherwise 0."""
    sharpness: Positive = 0.005
    """Exponent of the probabilities of the samples, for minimum_risk."""
    teachers: tuple[Path, ...] = ()
    """Run folders, or the folder of an ensemble, whose mean probabilities are the targets of
    distillation. They have the vocabularies of this model."""
    teacher_weight: PositiveShare = 0.5
    """Share of the teachers in the loss of distillation. The rest is the likelihood."""
    divergence: DivergenceName = "kullback_leibler"
    """Divergence of the teachers' probabilities from those of the model, for distillation."""
    temperature: Positive = 1.0
    """Divisor of the logits of teachers and model, for distillation."""
    r_drop: Weight = 0.0
    """Weight of R-Drop: every update runs the model twice, with different dropout, and the
    divergence of the two predictions is added to the loss. An update takes twice the time."""
    loss: LossUnit = "word"
    """Loss: the mean over words (word), or the sum over the words of a sentence, averaged over
    sentences (sentence)."""
    teacher_forcing: Share = 1.0
    """Share of decoder inputs that are true target tokens, at the start of training. The other
    inputs are the model's own predictions."""
    teacher_forcing_end: Share | None = None
    """Share of true tokens at the end of training, reached linearly. Default: teacher_forcing."""
    teacher_forcing_unit: ForcingUnit = "sentence"
    """Unit of the choice between true and predicted inputs: all tokens of a sentence, or each
    token."""
    precision: TrainingPrecision = "float32"
    """Precision of the model in training. auto is bfloat16 if the machine has fast instructions
    for it."""
    sharding: Sharding = "none"
    """Memory of several processes: each has the whole model (none), or a share of the weights,
    gradients and moments of Adam (full), which needs more communication."""
    patience: Count | None = None
    """Stop after this many validations without a better dev score. Default: never."""
    hours: Positive | None = None
    """Hours after which a session of training saves everything and ends; --resume continues.
    Default: no limit."""
    validate_every: Count | None = None
    """Updates between validations. Default: once an epoch."""
    average: NumAveraged | None = None
    """Average the weights of this many best validations at the end. The average is kept if its dev
    score is higher than that of the best checkpoint."""
    log_every: Count = 50
    """Updates between lines of the log, or epochs if log_by is epoch."""
    log_by: TimeUnit = "update"
    """Unit of log_every."""
    track: tuple[TrackerName, ...] = ()
    """Trackers that receive the log besides log.jsonl: csv (progress.csv in the run folder),
    tensorboard, wandb, mlflow."""
    metric: MetricName | None = None
    """Dev score of decoded outputs, which selects the best checkpoint; the lower dev loss decides
    between equal scores. Default: chrf for text, cider for captions, accuracy for labels (macro_f1
    with label_weights), r2 (explained variance in per cent) for numbers. BLEU is 0 for targets of
    fewer than four words."""
    device: DeviceName = "auto"
    """Device. auto is a GPU if torch sees one."""
    seed: Seed = 1
    """Seed of initial weights, dropout and the order of batches."""

    def __post_init__(self) -> None:
        check_fields("training", self)
        for beta in self.adam_betas:
            if not 0 <= beta < 1:
                raise UserError(
                    f"training.adam_betas is {self.adam_betas}: expected two numbers from 0 to "
                    "below 1"
                )
        if self.label_weights is not None and self.label_weights != (BALANCED,):
            parse_label_weights(self.label_weights)
        if self.r_drop and self.objective != "likelihood":
            raise UserError(
                f"training.r_drop is {self.r_drop}, but training.objective is {self.objective}: "
                "leave one of them out"
            )
        if self.objective == "distillation" and not self.teachers:
            raise UserError(
                "training.objective is distillation, but training.teachers is not set: name the "
                "run folder of a trained model"
            )
        if self.objective == "expected_reward" and self.samples < 2:
            raise UserError(
                f"training.samples is {self.samples}, but training.objective expected_reward "
                "compares the samples of a sentence: expected at least 2"
            )
        compared = ""
        if self.r_drop:
            compared = f"training.r_drop is {self.r_drop}, which compares two passes"
        elif self.objective == "distillation":
            compared = "training.objective is distillation, which compares two models"
        if compared and {self.teacher_forcing, self.teacher_forcing_end} - {1, None}:
            raise UserError(
                f"{compared} with equal inputs, but training.teacher_forcing below 1 replaces "
                "inputs by predictions: leave one of them out"
            )

    @property
    def has_rewards(self) -> bool:
        """Whether sampled texts are rewarded."""
        return self.objective not in ("likelihood", "distillation")

    @property
    def weight_beside_reward(self) -> float:
        """Weight of the likelihood beside the reward."""
        if self.likelihood_weight is not None:
            return self.likelihood_weight
        return LIKELIHOOD_WEIGHT if self.objective == "expected_reward" else 0.0
