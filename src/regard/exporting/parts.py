"""Parts of a model that the formats of other engines lack, and their names in messages."""

from __future__ import annotations

import re

from regard.attention import Normaliser
from regard.errors import UserError
from regard.models.experts import DecoderWithExperts, EncoderWithExperts
from regard.models.seq2seq import Seq2Seq


def check_no_experts(model: Seq2Seq, engine: str) -> None:
    """Raise a UserError for a model with experts."""
    wrappers = EncoderWithExperts, DecoderWithExperts
    if isinstance(model.encoder, wrappers) or isinstance(model.decoder, wrappers):
        raise UserError(
            "layers have experts (model.encoder.experts or model.decoder.experts), which --to "
            f"{engine} cannot express: train without them"
        )


def name_of(normaliser: Normaliser) -> str:
    """Return the name of a normaliser in a recipe, such as scaled_softmax for `ScaledSoftmax`."""
    return re.sub("(?<!^)(?=[A-Z])", "_", type(normaliser).__name__).lower()
