"""How weights are learned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from regard.config.checks import (
    Averaged,
    Count,
    CountOrZero,
    Positive,
    Seed,
    Share,
    Weight,
    check_fields,
)
from regard.errors import UserError
from regard.names import MetricName


@dataclass(frozen=True)
class TrainingConfig:
    """How the weights are learned."""

    initial_run: Annotated[Path | None, tyro.conf.arg(aliases=["--init-from"])] = None
    """Begin with the weights of this run: what has the same name and shape, and of embeddings and
    logits the words that both know."""
    freeze: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--freeze"])] = ()
    """Parts of the model, such as encoder, whose weights stay as they are."""
    epochs: Count = 10
    """Times through the data."""
    updates: Count | None = None
    """Train for so many updates instead, however many epochs they take."""
    accumulate: Count = 1
    """Batches that make one update together."""
    learning_rate: Positive = 1e-3
    """Adam's peak learning rate."""
    schedule: Literal["constant", "cosine", "linear", "inverse_square_root", "plateau"] = "constant"
    """How the learning rate falls."""
    warmup: CountOrZero = 0
    """Updates over which the learning rate rises from zero."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """How much of its moving means of the gradient and of its square Adam keeps in an update."""
    adam_epsilon: Positive = 1e-8
    """What Adam adds to the root of the latter."""
    weight_decay: Weight = 0.0
    """Weight decay, apart from the gradient (AdamW)."""
    clip: Positive | None = 1.0
    """The largest norm of a gradient."""
    label_smoothing: Share = 0.0
    """Probability spread evenly over the vocabulary."""
    loss: Literal["word", "sentence"] = "word"
    """Mean over words, or sum over each sentence's words (mean over sentences)."""
    teacher_forcing: Share = 1.0
    """Share of inputs that are the true token at the start of training."""
    teacher_forcing_end: Share | None = None
    """The same at the end; linear between them. Without it the share stays."""
    forced_by: Literal["sentence", "token"] = "sentence"
    """Whether a whole sentence or each token is forced or not."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """`auto` takes bfloat16 where the machine has fast instructions for it."""
    patience: Count | None = None
    """Stop after so many validations without a better dev score."""
    validate_every: Count | None = None
    """Updates between dev scores; without it once an epoch."""
    average: Averaged | None = None
    """At the end also try the mean of the weights of the so many best validations; it becomes the
    model if its dev score is better than the best of them alone."""
    log_every: Count = 50
    """Updates (or, with log_by epoch, epochs) between lines of the log."""
    log_by: Literal["update", "epoch"] = "update"
    """What log_every counts."""
    metric: MetricName | None = None
    """The dev score, always by decoding freely; of equal ones the lower dev loss is better. Without
    one chrF for texts, CIDEr-D for captions, accuracy for labels, and for numbers R2 (the share of
    the variance that is explained, in per cent). BLEU is 0 where targets have fewer than four
    words."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes a GPU where there is one."""
    seed: Seed = 1
    """Of everything random."""

    def __post_init__(self) -> None:
        check_fields("training", self)
        for beta in self.adam_betas:
            if not 0 <= beta < 1:
                raise UserError(
                    f"training.adam_betas is {self.adam_betas}: expected two numbers from 0 to "
                    "below 1"
                )
