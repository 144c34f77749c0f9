"""Loss, schedule, loop and checkpoint.

    settings = TrainingSettings(length=Period(10, "epoch"), optimiser=Optimiser(learning_rate=1e-3))
    end = train(model, batches, settings, validate=dev_score, folder=Path("runs/first"))

The loop is written out in `loop.py`. How a model decodes is none of its business: the dev score
comes from the function that it is given.
"""

from regard.linear import has_fast_bfloat16
from regard.models.weights import load_weights, save_weights
from regard.training.log import (
    AverageLine,
    DevLine,
    EndLine,
    Example,
    Reporter,
    TrainLine,
    Validation,
)
from regard.training.loop import Validate, train
from regard.training.loss import CrossEntropy
from regard.training.objective import Loss, NextToken, Objective, mean_loss
from regard.training.precision import Precision
from regard.training.schedule import (
    Constant,
    Cosine,
    InverseSquareRoot,
    Linear,
    Plateau,
    Progress,
    Schedule,
)
from regard.training.settings import Batches, Optimiser, Period, TrainingSettings
from regard.training.teacher_forcing import TeacherForcing

__all__ = [
    "AverageLine",
    "Batches",
    "Constant",
    "Cosine",
    "CrossEntropy",
    "DevLine",
    "EndLine",
    "Example",
    "InverseSquareRoot",
    "Linear",
    "Loss",
    "NextToken",
    "Objective",
    "Optimiser",
    "Period",
    "Plateau",
    "Precision",
    "Progress",
    "Reporter",
    "Schedule",
    "TeacherForcing",
    "TrainLine",
    "TrainingSettings",
    "Validate",
    "Validation",
    "has_fast_bfloat16",
    "load_weights",
    "mean_loss",
    "save_weights",
    "train",
]
