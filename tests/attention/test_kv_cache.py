"""The key-value cache compared with concatenation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import AdditiveKeys, KVCache, PreparedHeads
from regard.attention.kv_cache import MIN_CAPACITY, CachedVectors

BATCH, HEADS, KEY, VALUE = 2, 3, 5, 7


def more(length, seed=None):
    generator = torch.Generator().manual_seed(length if seed is None else seed)
    keys = torch.randn(BATCH, HEADS, length, KEY, generator=generator)
    return PreparedHeads(keys, torch.randn(BATCH, HEADS, length, VALUE, generator=generator))


def joined(*parts):
    return (
        torch.cat([part.keys for part in parts], dim=2),
        torch.cat([part.values for part in parts], dim=2),
    )


def same(result, *parts):
    keys, values = joined(*parts)
    assert torch.equal(result.prepared.keys, keys)
    assert torch.equal(result.prepared.values, values)
    assert result.length == keys.size(2)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_appended_keys_follow_the_earlier_ones(lengths):
    grown, parts = KVCache(), []
    for number, length in enumerate(lengths):
        parts.append(more(length, number))
        grown = grown.append(parts[-1])
        same(grown, *parts)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 5)), min_size=1, max_size=25))
def test_branches_of_one_cache_are_independent(moves):
    """In a tree of states, each state has its own history, whatever other states append."""
    states = [(KVCache().append(more(1, 0)), [more(1, 0)])]
    for seed, (chosen, length) in enumerate(moves, 1):
        grown, parts = states[chosen % len(states)]
        new = more(length, seed)
        states.append((grown.append(new), [*parts, new]))
    for grown, parts in states:
        same(grown, *parts)


def test_spare_room_avoids_copies_in_most_steps():
    grown = KVCache().append(more(3)).append(more(1))
    place = grown.prepared.keys.data_ptr()
    while grown.length < MIN_CAPACITY:
        grown = grown.append(more(1))
        assert grown.prepared.keys.data_ptr() == place
    assert grown.append(more(1)).prepared.keys.data_ptr() != place


def test_selecting_reorders_sentences():
    first, second, third = more(3), more(1, 10), more(2, 11)
    grown = KVCache().append(first).append(second)
    selected = grown.keep(torch.tensor([1, 1, 0]))
    selected_third = PreparedHeads(third.keys[[1, 1, 0]], third.values[[1, 1, 0]])
    for state, whole in (
        (grown.append(third), (0, 1)),
        (selected.append(selected_third), (1, 1, 0)),
    ):
        keys, values = joined(first, second, third)
        assert torch.equal(state.prepared.keys, keys[list(whole)])
        assert torch.equal(state.prepared.values, values[list(whole)])
    assert KVCache().keep(torch.tensor([0])).length == 0


def test_gradients_reach_appended_keys():
    parts = [more(2, seed) for seed in range(3)]
    for part in parts:
        part.keys.requires_grad_()
    grown = KVCache()
    for part in parts:
        grown = grown.append(part)
    (grown.prepared.keys**2).sum().backward()
    for part in parts:
        torch.testing.assert_close(part.keys.grad, 2 * part.keys.detach())


def test_a_cache_from_inference_mode_grows_outside_of_it():
    first, second, third = more(3), more(1, 10), more(2, 11)
    with torch.inference_mode():
        grown = KVCache().append(first).append(second)
    same(grown.append(third), first, second, third)
    with torch.inference_mode():
        same(grown.append(third), first, second, third)


@pytest.mark.parametrize("with_powers", [False, True])
def test_additive_keys_grow_with_their_powers(with_powers):
    def additive(part):
        powers = part.keys.exp() if with_powers else None
        return PreparedHeads(AdditiveKeys(part.keys, powers), part.values)

    one, two = more(2, 1), more(3, 2)
    grown = KVCache().append(additive(one)).append(additive(two))
    keys, values = joined(one, two)
    assert torch.equal(grown.prepared.keys.projected, keys)
    assert torch.equal(grown.prepared.values, values)
    assert (grown.prepared.keys.powers is not None) == with_powers
    if with_powers:
        assert torch.equal(grown.prepared.keys.powers, keys.exp())
        without = grown.append(PreparedHeads(AdditiveKeys(one.keys), one.values))
        assert without.prepared.keys.powers is None
        assert without.append(additive(two)).prepared.keys.powers is None


def test_powers_of_different_sizes_are_dropped():
    """Split powers, which keys out of range have, have twice the size of other powers."""
    one, two = more(2, 1), more(3, 2)
    near = PreparedHeads(AdditiveKeys(one.keys, one.keys.exp()), one.values)
    split = PreparedHeads(AdditiveKeys(two.keys, torch.cat([two.keys, two.keys], -1)), two.values)
    for first, second in ((near, split), (split, near)):
        grown = KVCache().append(first).append(second).append(second)
        assert grown.prepared.keys.powers is None
        assert grown.length == first.values.size(2) + 2 * second.values.size(2)


def test_a_view_of_the_storage_covers_appended_keys_only():
    grown = CachedVectors.of(torch.ones(1, 1, 2, 3)).append(torch.ones(1, 1, 1, 3))
    assert grown.vectors.shape == (1, 1, 3, 3)
    assert grown.vectors.eq(1).all()
