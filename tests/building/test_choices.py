"""Every offered choice of a classifier of items or series computes and learns, or is refused."""

import numpy as np
import pytest

from regard.building import build_classifier
from regard.config import ClassifierConfig
from regard.data.labels.encoded import EncodedSource, pad_sources
from regard.errors import UserError
from tests.building.test_unused import ATTENTION, changed, variants

SMALL = ClassifierConfig(embedding=8, hidden=4, feed_forward=7, attention=ATTENTION)
ITEMS = ClassifierConfig(encoder="embedding", embedding=8, output="none", attention=ATTENTION)
VALUES = np.array([[0.5], [1.5], [2.5]], np.float32)
SIZES = {"items": (13, 1, 1), "series": (0, 1, 1)}


@pytest.mark.parametrize("kind", SIZES)
def test_every_choice_learns_or_is_refused(kind):
    config = ITEMS if kind == "items" else SMALL
    ids = [5, 6, 7] if kind == "items" else None
    sources = [EncodedSource(ids, VALUES), EncodedSource(ids and ids[:2], VALUES[:2])]
    tried, refused = 0, []
    for name, value in variants(config):
        try:
            variant = changed(config, name, value)
            model = build_classifier(variant, *SIZES[kind])
        except UserError as error:
            refused.append(str(error))
            continue
        tried += 1
        model(pad_sources(sources)).values.sum().backward()
        assert any(weight.grad is not None for weight in model.parameters()), (name, value)
    assert tried > 20
    if kind == "items":
        assert any("nothing to learn" in line for line in refused)
