"""Encoding of texts, items and series as inputs of classifiers."""

from __future__ import annotations

import numpy as np
import pytest

from regard.config import ClassificationDataConfig
from regard.data.examples import Pair
from regard.tasks.classification.inputs import InputsAndTargets

SOURCES = {
    "text": ("who is it", "who is"),
    "series": ("0.1,0 0.2,1 0.3,0", "0.1,0 0.2,1"),
    "items": ("tea 1.20; bread 0.80; green tea 3", "tea 1.20; bread 0.80"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_sources_are_cut_to_the_maximum_length(source):
    long, short = SOURCES[source]
    config = ClassificationDataConfig(source=source, target="number", max_length=2)
    reader = InputsAndTargets.learn(config, [Pair(long, "1", 1), Pair(short, "2", 2)]).reader
    cut, whole = reader.encode([long, short])
    assert (cut.is_cut, whole.is_cut) == (True, False)
    assert len(cut) == len(whole) == 2
    assert len(reader.sequence(long).pieces) == 2
    np.testing.assert_equal(cut.ids, whole.ids)
    np.testing.assert_equal(cut.values, whole.values)
