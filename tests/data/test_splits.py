"""No source in two parts, and the same whether a source is known by eight bytes or by text."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.examples import Pair
from regard.data.splits import assign_splits, canonical_text, source_hashes, split_held_out
from regard.errors import UserError


def splits_by_texts(pairs: Sequence[Pair], limits: tuple[int, int], seed: int) -> list[int]:
    """The plain way: lists of pairs with one source, shuffled, each to the first part with room."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        groups[canonical_text(pair.source)].append(index)
    shuffled = list(groups.values())
    random.Random(seed).shuffle(shuffled)
    part_of, room = [0] * len(pairs), [len(pairs), *limits]
    for group in shuffled:
        part = next(part for part in (1, 2, 0) if room[part] >= len(group))
        room[part] -= len(group)
        for index in group:
            part_of[index] = part
    return part_of


@given(
    st.lists(st.text("aAbB ßS\u0301e", min_size=1, max_size=4), max_size=43),
    st.tuples(st.integers(0, 7), st.integers(0, 7)),
    st.integers(0, 99),
)
@settings(max_examples=100, deadline=None)
def test_splitting_by_hashes_equals_splitting_texts(
    sources: list[str], limits: tuple[int, int], seed: int
) -> None:
    pairs = [Pair(source, "t", line) for line, source in enumerate(sources, start=1)]
    splits = assign_splits(source_hashes(pairs), limits, seed).tolist()
    assert splits == splits_by_texts(pairs, limits, seed)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Run!", " run!  ", True),
        ("Straße", "STRASSE", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("a b", "a\tb", True),
        ("a b", "ab", False),
        ("Run!", "Run", False),
    ],
)
def test_texts_are_compared_without_case_and_unicode_form(one: str, other: str, same: bool) -> None:
    assert (canonical_text(one) == canonical_text(other)) is same


@st.composite
def splits(draw: st.DrawFn) -> tuple[tuple[Pair, ...], tuple[int, int], int]:
    """Pairs with one source of every length of group, so that parts can always be filled."""
    sources = draw(st.lists(st.sampled_from("aAbBcdefg"), max_size=19)) + list("0123456789")
    pairs = tuple(Pair(source, str(line), line) for line, source in enumerate(sources, start=1))
    return pairs, (draw(st.integers(0, 5)), draw(st.integers(0, 5))), draw(st.integers(0, 99))


@given(splits())
@settings(max_examples=60, deadline=None)
def test_no_source_is_in_two_splits(case: tuple[tuple[Pair, ...], tuple[int, int], int]) -> None:
    pairs, sizes, seed = case
    parts = split_held_out(pairs, sizes, seed)
    assert (len(parts.dev), len(parts.test)) == sizes
    assert sorted(sum(parts, ()), key=lambda pair: pair.line) == list(pairs)
    for part in parts:
        assert [pair.line for pair in part] == sorted(pair.line for pair in part)
    train, dev, test = ({pair.source.lower() for pair in part} for part in parts)
    assert len(train | dev | test) == len(train) + len(dev) + len(test)
    assert split_held_out(pairs, sizes, seed) == parts


def test_another_seed_gives_another_split() -> None:
    pairs = tuple(Pair(f"s{line}", "t", line) for line in range(1, 98))
    assert split_held_out(pairs, (11, 13), 1).dev != split_held_out(pairs, (11, 13), 2).dev


def test_too_few_pairs_or_sources_are_refused() -> None:
    pairs = tuple(Pair("same", str(line), line) for line in range(1, 8))
    with pytest.raises(UserError, match="cannot hold out 5 and 3 of 7 pairs"):
        split_held_out(pairs, (5, 3), 1)
    with pytest.raises(UserError, match="only 1 different sources"):
        split_held_out(pairs, (2, 0), 1)
    with pytest.raises(UserError, match="-1"):
        split_held_out(pairs, (-1, 0), 1)
    assert split_held_out(pairs, (7, 0), 1).train == ()
