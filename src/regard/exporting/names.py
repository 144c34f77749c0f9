"""Names of normalisers in messages."""

from __future__ import annotations

import re

from regard.attention import Normaliser


def name_of(normaliser: Normaliser) -> str:
    """Return the name of a normaliser in a recipe, such as scaled_softmax for `ScaledSoftmax`."""
    return re.sub("(?<!^)(?=[A-Z])", "_", type(normaliser).__name__).lower()
