"""Hard attention: what is drawn, and what is looked at where nobody learns."""

from __future__ import annotations

import torch

from regard.attention import HardAttention, ScaledDot
from regard.attention.hard import NOWHERE

KEYS = torch.randn(2, 5, 4)
QUERIES = torch.randn(2, 3, 4)
MASK = torch.tensor([[[True] * 5], [[True] * 3 + [False] * 2]])


def test_without_learning_the_likeliest_place_is_looked_at():
    attention = HardAttention(ScaledDot()).eval()
    found = attention(QUERIES, attention.prepare(KEYS), KEYS, MASK, need_weights=True)
    for row in range(2):
        for step in range(3):
            place = int(found.weights[row, step].argmax())
            assert torch.equal(found.context[row, step], KEYS[row, place])
            assert found.drawn[row, step] == place
    assert not found.drawn[1].gt(2).any()
    assert attention(QUERIES, attention.prepare(KEYS), KEYS, MASK).weights is None


def test_places_are_drawn_by_their_weights():
    torch.manual_seed(3)
    attention = HardAttention(ScaledDot()).train()
    many = QUERIES[:1].expand(4000, -1, -1)
    keys = KEYS[:1].expand(4000, -1, -1)
    found = attention(many, attention.prepare(keys), keys, None, need_weights=True)
    hard = found.drawn[:, 0] != NOWHERE
    assert 0.45 < hard.float().mean() < 0.55
    places = found.drawn[hard][:, 0]
    shares = torch.bincount(places, minlength=5) / len(places)
    torch.testing.assert_close(shares, found.weights[0, 0], atol=0.03, rtol=0)
    torch.testing.assert_close(found.context[hard][:, 0], KEYS[0, places])
    soft = found.weights[0] @ KEYS[0]
    torch.testing.assert_close(found.context[~hard][0], soft)


def test_nothing_to_see_gives_a_context_of_zeros():
    attention = HardAttention(ScaledDot())
    nothing = torch.zeros(2, 1, 5, dtype=torch.bool)
    for mode in (True, False):
        attention.train(mode)
        found = attention(QUERIES, attention.prepare(KEYS), KEYS, nothing)
        assert not found.context.any()
