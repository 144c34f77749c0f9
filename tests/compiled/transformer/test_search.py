"""Searches with Transformer decoders in C++, compared with searches of the model."""

from __future__ import annotations

import pytest
import torch

from regard import kernels
from regard.building import build_translation
from regard.compiled.freeze import freeze
from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.compiled.transformer.state import NativeState
from regard.data.batch import PAD, START, pad
from regard.models.ensemble import Ensemble
from regard.search import BeamSettings, Limits, beam, greedy
from tests import configs
from tests.compiled.native_steps import VOCABULARY
from tests.compiled.transformer.problems import CONFIG, model_of

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

SENTENCES = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 4], [5, 5, 5, 5, 5, 5]]
LIMITS = Limits(start=START, end=2, maximum=11, forbidden=(PAD, START))


def hypotheses_of(model, size, *, need_weights=False):
    """Return the hypotheses of a beam search of this size."""
    with torch.inference_mode():
        memories = model.encode(pad(SENTENCES))
    settings = BeamSettings(size, size)
    return beam(model.decoder, memories, LIMITS, settings, need_weights=need_weights)


def assert_equal_hypotheses(result, expected):
    """Compare tokens and scores."""
    for ours, theirs in zip(result, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize("size", [1, 4])
def test_searches_of_frozen_and_unfrozen_models_are_equal(size):
    model = model_of(norm="post", window=3)
    frozen = freeze(model)
    expected = hypotheses_of(model, size)
    assert_equal_hypotheses(hypotheses_of(frozen, size), expected)
    assert_equal_hypotheses(hypotheses_of(frozen, size, need_weights=True), expected)
    with torch.inference_mode():
        memories = model.encode(pad(SENTENCES))
        ours, theirs = (greedy(each.decoder, memories, LIMITS) for each in (frozen, model))
    assert [each.tokens for each in ours] == [each.tokens for each in theirs]


def test_every_member_of_an_ensemble_has_native_steps():
    torch.manual_seed(7)
    second = build_translation(configs.changed(CONFIG, positions="rotary"), 13, VOCABULARY).eval()
    ensemble = Ensemble([model_of(), second])
    frozen = freeze(ensemble)
    with torch.no_grad():
        state = frozen.decoder.start(frozen.encode(pad(SENTENCES)))
    assert [type(member) for member in state.members] == [NativeState] * 2
    assert_equal_hypotheses(hypotheses_of(frozen, 3), hypotheses_of(ensemble, 3))
    assert not any(isinstance(x, NativeTransformerDecoder) for x in ensemble.modules())
