"""Searches with decoders in C++, compared with searches of the model."""

from __future__ import annotations

import pytest
import torch

from regard import kernels
from regard.compiled.freeze import freeze
from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.compiled.transformer.state import NativeState
from regard.data.batch import PAD, START, pad
from regard.models.ensemble import Ensemble
from regard.search import BeamSettings, Limits, beam, greedy
from tests.compiled.native_steps import close
from tests.compiled.recurrent import problems as recurrent
from tests.compiled.transformer.problems import model_of

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

SENTENCES = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 4], [5, 5, 5, 5, 5, 5]]
LIMITS = Limits(start=START, end=2, maximum=11, forbidden=(PAD, START))
MODELS = [
    *((recurrent.model_of, values) for values in recurrent.WIRINGS),
    (model_of, dict(norm="post", window=3)),
    (model_of, {}),
]


def hypotheses_of(model, size, *, need_weights=False):
    """Return the hypotheses of a search of this size; of a greedy search for 0."""
    with torch.inference_mode():
        memories = model.encode(pad(SENTENCES))
    if not size:
        best = greedy(model.decoder, memories, LIMITS, need_weights=need_weights)
        return [[each] for each in best]
    settings = BeamSettings(size, size)
    return beam(model.decoder, memories, LIMITS, settings, need_weights=need_weights)


def assert_equal_hypotheses(result, expected):
    """Compare tokens, scores and attention weights."""
    for ours, theirs in zip(result, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.score == pytest.approx(other.score, abs=1e-4)
            for block, right in zip(mine.attention, other.attention, strict=True):
                close(block.weights, right.weights)


@pytest.mark.parametrize("size", [0, 1, 4])
@pytest.mark.parametrize(("model_of", "values"), MODELS)
def test_searches_of_frozen_and_unfrozen_models_are_equal(model_of, values, size):
    model = model_of(**values)
    for need_weights in (False, True):
        result, expected = (
            hypotheses_of(each, size, need_weights=need_weights) for each in (freeze(model), model)
        )
        assert_equal_hypotheses(result, expected)


def test_every_member_of_an_ensemble_has_native_steps():
    ensemble = Ensemble([model_of(), model_of(positions="rotary")])
    frozen = freeze(ensemble)
    with torch.no_grad():
        state = frozen.decoder.start(frozen.encode(pad(SENTENCES)))
    assert [type(member) for member in state.members] == [NativeState] * 2
    assert_equal_hypotheses(hypotheses_of(frozen, 3), hypotheses_of(ensemble, 3))
    assert not any(isinstance(x, NativeTransformerDecoder) for x in ensemble.modules())
