"""Training objectives of models that generate texts, and distillation for models of every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regard.compiled.losses import BLOCKWISE
from regard.config import TrainingConfig
from regard.data.text.tokenizer import Tokenizer
from regard.metrics.text import gleu_words, sentence_gleu
from regard.names import RewardName
from regard.tasks.training.sampling import Reward, Sampler
from regard.training.losses.loss import CrossEntropy
from regard.training.objectives.distillation import Distillation, Teachers
from regard.training.objectives.objective import ClassObjective, NextToken, Objective
from regard.training.objectives.r_drop import RDrop
from regard.training.objectives.reward import (
    ExpectedReward,
    MinimumRisk,
    RewardLoss,
    RewardObjective,
    Sample,
    SelfCritical,
)
from regard.training.objectives.teacher_forcing import TeacherForcing


def objective_of(
    config: TrainingConfig, sample: Sample | None = None, teachers: Teachers | None = None
) -> Objective:
    """Return the training objective of a model that generates texts. Objectives of rewards need a
    sampler (`sampler_of`), distillation needs teachers (`tasks.teachers`)."""
    likelihood = NextToken(
        CrossEntropy(config.label_smoothing, config.loss, BLOCKWISE),
        TeacherForcing(
            config.teacher_forcing, config.teacher_forcing_end, config.teacher_forcing_unit
        ),
    )
    if config.objective == "likelihood":
        return RDrop(likelihood, config.r_drop) if config.r_drop else likelihood
    if config.objective == "distillation":
        return distillation_of(config, likelihood, teachers)
    if sample is None:
        raise ValueError(f"training.objective is {config.objective}: expected a sampler, got None")
    return RewardObjective(sample, reward_loss(config), likelihood, config.weight_beside_reward)


def reward_loss(config: TrainingConfig) -> RewardLoss:
    """Return the loss of rewarded samples."""
    match config.objective:
        case "expected_reward":
            return ExpectedReward()
        case "self_critical":
            return SelfCritical()
        case "minimum_risk":
            return MinimumRisk(config.sharpness)
        case "likelihood" | "distillation":
            raise ValueError(f"training.objective is {config.objective}, which rewards no samples")


def sampler_of(
    config: TrainingConfig, tokenizer: Tokenizer, rewards: Mapping[RewardName, Reward], longest: int
) -> Sampler | None:
    """Return the sampler of a training with rewards, or None. The first reward is the default."""
    if not config.has_rewards:
        return None
    name = next(iter(rewards)) if config.reward is None else config.reward
    return Sampler(
        tokenizer,
        rewards[name],
        name,
        config.samples,
        longest,
        has_baselines=config.objective == "self_critical",
        has_references=config.objective == "minimum_risk",
    )


def gleu(text: str, references: Sequence[str]) -> float:
    """Return the best sentence GLEU with any of the references."""
    words = gleu_words(text)
    return max(sentence_gleu(words, gleu_words(reference)) for reference in references)


def distillation_of(
    config: TrainingConfig, likelihood: NextToken | ClassObjective, teachers: Teachers | None
) -> Distillation:
    """Return the likelihood mixed with the probabilities of teachers."""
    if teachers is None:
        raise ValueError("training.objective is distillation: expected teachers, got None")
    return Distillation(
        likelihood, teachers, config.divergence, config.teacher_weight, config.temperature
    )
