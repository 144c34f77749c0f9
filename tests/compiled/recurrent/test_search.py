"""Searches with recurrent decoders in C++, compared with searches of the model."""

from __future__ import annotations

import pytest
import torch

from regard import kernels
from regard.compiled.freeze import freeze
from regard.data.batch import START, pad
from regard.models.recurrent.decoders import BahdanauDecoder, LuongDecoder
from regard.search import BeamSettings, Limits, beam, greedy
from tests.compiled.native_steps import close
from tests.compiled.recurrent.problems import WIRINGS, model_of

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


@pytest.mark.parametrize("values", WIRINGS)
@pytest.mark.parametrize("need_weights", [False, True])
@torch.no_grad()
def test_searches_equal_those_of_the_model(values, need_weights):
    model = model_of(**values)
    frozen = freeze(model)
    assert isinstance(model.decoder, BahdanauDecoder | LuongDecoder)
    sources = pad([[4, 5, 6, 7], [8, 4], [9, 10, 11]])
    limits = Limits(start=START, end=3, maximum=9)
    for search in (greedy, lambda *args, **kw: beam(*args, BeamSettings(size=3), **kw)):
        ours = search(frozen.decoder, frozen.encode(sources), limits, need_weights=need_weights)
        theirs = search(model.decoder, model.encode(sources), limits, need_weights=need_weights)
        for one, other in zip(ours, theirs, strict=True):
            pairs = zip(one, other, strict=True) if isinstance(one, list) else [(one, other)]
            for mine, right in pairs:
                assert mine.tokens == right.tokens
                assert mine.score == pytest.approx(right.score, abs=1e-4)
                for block, expected in zip(mine.attention, right.attention, strict=True):
                    close(block.weights, expected.weights)
