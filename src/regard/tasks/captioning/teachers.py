"""Teachers of a captioner."""

from __future__ import annotations

from pathlib import Path

from regard.config import BackboneEncoderConfig, CaptionDataConfig, Experiment
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.seq2seq import Seq2Seq
from regard.tasks.arguments import sections_of
from regard.tasks.captioning.model import CaptionModel
from regard.tasks.training.teachers import check_longest
from regard.tasks.training.tokenizers import tokenizer_difference


def load_teacher(experiment: Experiment, tokenizer: Tokenizer, path: Path) -> Seq2Seq:
    """Load a captioner for the distillation of another one. UserError unless both have the same
    words and read the same form of images."""
    teacher = CaptionModel.load(path, device="cpu")
    difference = tokenizer_difference(tokenizer, teacher.tokenizer)
    forms = _form_of_images(experiment), _form_of_images(teacher.experiment)
    if not difference and forms[0] != forms[1]:
        difference = f"this model reads {forms[0]}, and the teacher {forms[1]}"
    if difference:
        raise UserError(
            f"{path} does not fit this model: {difference}. "
            "Train the teacher with the same training data"
        )
    check_longest(path, teacher.experiment.model, experiment.data.max_length)
    return teacher.model


def _form_of_images(experiment: Experiment) -> str:
    """Return the form of images that a model reads, in words."""
    data, config = sections_of(experiment, CaptionDataConfig, experiment.name)
    form = f"images with {data.image_size} pixels a side"
    encoder = config.encoder
    if isinstance(encoder, BackboneEncoderConfig) and not encoder.fine_tune:
        return f"features of {encoder.name} from {form}"
    return form
