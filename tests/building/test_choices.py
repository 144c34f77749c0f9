"""Every offered choice of a classifier of items or series computes and learns, or is refused."""

import numpy as np
import pytest

from regard.building.classifiers import build_classifier
from regard.data.labels.encoded import EncodedSource, pad_sources
from regard.errors import UserError
from tests import configs
from tests.building.test_unused import changed, variants

SMALL = configs.classifier(size=8, bidirectional=True, attention=dict(size=5))
ITEMS = configs.classifier("bag_of_words", size=8, output="none", attention=dict(size=5))
VALUES = np.array([[0.5], [1.5], [2.5]], np.float32)
SIZES = {"items": (13, 1, 1), "series": (0, 1, 1)}


@pytest.mark.parametrize("kind", SIZES)
def test_every_choice_learns_or_is_refused(kind):
    config = ITEMS if kind == "items" else SMALL
    ids = [5, 6, 7] if kind == "items" else None
    sources = [EncodedSource(ids, VALUES), EncodedSource(ids and ids[:2], VALUES[:2])]
    tried = 0
    for name, value in variants(config):
        try:
            variant = changed(config, name, value)
            model = build_classifier(variant, *SIZES[kind])
        except UserError:
            continue
        tried += 1
        model(pad_sources(sources)).predictions.sum().backward()
        assert any(weight.grad is not None for weight in model.parameters()), (name, value)
    assert tried > 15


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (dict(head="mean", output="none"), "so there is nothing to learn"),
        (dict(head="last"), "items have no order"),
        (dict(head="attention", query="last"), "items have no order"),
        (dict(encoder="recurrent"), "items have no order"),
    ],
    ids=str,
)
def test_a_classifier_of_items_that_cannot_learn_is_refused(values, words):
    config = configs.classifier(**{"encoder": "bag_of_words", **values})
    with pytest.raises(UserError, match=words):
        build_classifier(config, 13, 1, 1)
