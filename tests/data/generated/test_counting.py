"""Letters and their counts, compared with counts by hand and by Python."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.generated.counting import (
    EvenLetters,
    UnevenLetters,
    VariableLength,
    count,
    fill_up,
    labels,
    one_hot,
    to_numbers,
    to_text,
)


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_example_of_two_letters() -> None:
    letters = torch.tensor([to_numbers("AB A")])
    assert one_hot(letters, 2).tolist() == [[[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]]
    assert labels(count(letters, 2), 4).tolist() == [[[0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]]


@given(st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ ", min_size=1, max_size=31))
@settings(max_examples=25, deadline=None)
def test_counts_equal_those_of_the_text(text: str) -> None:
    numbers = to_numbers(text)
    assert to_text(numbers) == text
    there = Counter(text)
    expected = [there[letter] for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    assert count(torch.tensor([numbers]), 26)[0].tolist() == expected


def test_other_characters_are_named() -> None:
    with pytest.raises(ValueError, match="got 'b'"):
        to_numbers("Ab")


def test_a_count_without_a_class_is_an_error() -> None:
    with pytest.raises(ValueError, match="up to 5, but max_len is 3"):
        labels(torch.tensor([[1, 5]]), 3)


@pytest.mark.parametrize("drawing", [EvenLetters(5, 7), UnevenLetters(5, 7)])
def test_samples_repeat_with_the_seed_and_have_every_symbol(drawing) -> None:
    letters = drawing(211, generator())
    assert letters.shape == (211, 7)
    assert set(letters.flatten().tolist()) == set(range(6))
    assert letters.equal(drawing(211, generator()))
    assert not letters.equal(drawing(211, generator(2)))


def test_even_letters_are_as_frequent_as_each_other() -> None:
    letters = EvenLetters(4, 5)(10_007, generator())
    frequencies = torch.bincount(letters.flatten()) / letters.numel()
    assert (frequencies - 1 / 5).abs().max() < 0.01


def test_uneven_letters_have_the_moments_of_a_dirichlet_of_one_half() -> None:
    """A share of a symmetric Dirichlet(a) over n symbols has the mean 1/n, and two letters of one
    sequence are the same with probability (a + 1) / (n a + 1)."""
    num_symbols, a = 4, 0.5
    letters = UnevenLetters(num_symbols - 1, 2)(20_011, generator())
    frequencies = torch.bincount(letters.flatten()) / letters.numel()
    assert (frequencies - 1 / num_symbols).abs().max() < 0.015
    same = (letters[:, 0] == letters[:, 1]).double().mean().item()
    assert same == pytest.approx((a + 1) / (num_symbols * a + 1), abs=0.015)


def test_variable_lengths_occur_and_are_padded_with_blanks() -> None:
    class OnlyA:
        def __call__(self, count: int, generator: torch.Generator) -> torch.Tensor:
            return torch.ones(count, 7, dtype=torch.long)

    letters = VariableLength(OnlyA())(7_001, generator())
    lengths = letters.sum(dim=1)
    assert letters.equal((torch.arange(7) < lengths[:, None]).long())
    frequencies = torch.bincount(lengths, minlength=8) / 7_001
    assert frequencies[0] == 0
    assert (frequencies[1:] - 1 / 7).abs().max() < 0.02


def test_padding_never_cuts() -> None:
    letters = torch.tensor([[1, 2, 3]])
    assert fill_up(letters, 5).tolist() == [[1, 2, 3, 0, 0]]
    assert fill_up(letters, 2).tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("kind", [EvenLetters, UnevenLetters])
def test_impossible_sizes_are_named(kind) -> None:
    with pytest.raises(ValueError, match="vocab_size is 27"):
        kind(27, 3)
    with pytest.raises(ValueError, match="length is 0"):
        kind(3, 0)
