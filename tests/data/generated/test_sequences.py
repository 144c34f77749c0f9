"""Sequences are what their names say."""

from __future__ import annotations

from collections import Counter

import pytest

from regard.data.generated import generate
from regard.data.generated.sequences import SequenceSettings, copy, reverse, sort
from regard.errors import UserError
from regard.names import GeneratedPairs

ABC = SequenceSettings(symbols="cab", shortest=2, longest=5)


@pytest.mark.parametrize("count", [1, 97, 181])
def test_targets_are_right_and_sequences_distinct(count: int) -> None:
    """181 is half of 9 + 27 + 81 + 243 = 360, and one more."""
    if count == 181:
        with pytest.raises(UserError, match="expected 1 to 180, which is half"):
            copy(count, settings=ABC)
        return
    for pair in copy(count, settings=ABC):
        assert pair.target == pair.source
    for pair in reverse(count, settings=ABC):
        assert "".join(reversed(pair.source)) == pair.target
    for pair in sort(count, settings=ABC):
        assert Counter(pair.source) == Counter(pair.target)
        assert "".join(pair.target.split()) == "".join(sorted(pair.source.split(), key="cab".index))
    sources = [pair.source.split(" ") for pair in copy(count, settings=ABC)]
    assert len({tuple(source) for source in sources}) == count
    assert {len(source) for source in sources} <= {2, 3, 4, 5}
    assert {letter for source in sources for letter in source} <= set("abc")


def test_all_lengths_and_letters_occur() -> None:
    sources = [pair.source.split() for pair in copy(997)]
    assert {len(source) for source in sources} == set(range(3, 11))
    assert len({letter for source in sources for letter in source}) == 26


@pytest.mark.parametrize(("name", "make"), [("copy", copy), ("reverse", reverse), ("sort", sort)])
def test_sequences_depend_on_the_seed_only(name: GeneratedPairs, make: object) -> None:
    assert make(13, seed=3) == make(13, seed=3) != make(13, seed=4)
    assert make(13, seed=3) == generate(name, 13, 3)
    assert [pair.line for pair in make(13)] == list(range(1, 14))


@pytest.mark.parametrize(
    "settings", [dict(symbols=""), dict(symbols="aa"), dict(shortest=0), dict(shortest=11)]
)
def test_impossible_settings_are_rejected(settings: dict[str, object]) -> None:
    with pytest.raises(UserError, match="expected"):
        SequenceSettings(**settings)
    with pytest.raises(UserError, match="0 different sequences"):
        copy(0)
