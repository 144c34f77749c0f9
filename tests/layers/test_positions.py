"""Positions compared with the papers' formulas, number by number."""

from __future__ import annotations

import cmath
import math

import pytest
import torch

from regard.errors import UserError
from regard.layers.positions import Learned, Positions, Rotary, Sinusoidal
from tests.messages import raises


def waves(position, size):
    """Return the positions of Vaswani et al. 2017, section 3.5."""
    row = []
    for number in range(size):
        pair = number // 2
        angle = position / 10000 ** (2 * pair / size)
        row.append(math.cos(angle) if number % 2 else math.sin(angle))
    return row


@pytest.mark.parametrize("positions", [Sinusoidal(), Learned(5, 7), Rotary()])
def test_all_positions_follow_the_protocol(positions):
    assert isinstance(positions, Positions)


@pytest.mark.parametrize("size", [7, 12])
@pytest.mark.parametrize("at", [range(0, 5), range(3, 4), range(100, 111), range(4990, 4993)])
def test_sinusoids_equal_the_papers_formula_at_large_positions(at, size):
    embedded = torch.randn(2, len(at), size)
    expected = embedded.double() + torch.tensor([waves(p, size) for p in at], dtype=torch.double)
    result = Sinusoidal().add(embedded, at)
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=1e-6)
    assert Sinusoidal().rotate(embedded, at) is embedded


def test_learned_positions_are_rows_of_a_table():
    positions = Learned(5, 7)
    embedded = torch.randn(2, 3, 7)
    result = positions.add(embedded, range(2, 5))
    torch.testing.assert_close(result, embedded + positions.table[2:5])
    assert positions.rotate(embedded, range(3)) is embedded


def test_a_sequence_longer_than_the_table_is_rejected_with_a_message():
    with raises(UserError):
        Learned(5, 7).add(torch.randn(2, 6, 7), range(6))


def turned(vector, position):
    """Rotate pairs as complex numbers by their angles (Su et al. 2021, eq. 34)."""
    size, row = len(vector), []
    for pair in range(size // 2):
        angle = position / 10000 ** (2 * pair / size)
        number = complex(vector[2 * pair], vector[2 * pair + 1]) * cmath.exp(1j * angle)
        row += [number.real, number.imag]
    return row


@pytest.mark.parametrize("at", [range(0, 5), range(97, 102)])
def test_rotary_rotates_pairs_as_complex_numbers(at):
    vectors = torch.randn(2, 3, 5, 8, dtype=torch.double)
    result = Rotary().rotate(vectors, at)
    for (batch, head, row), position in [
        ((b, h, row), at[row]) for b in range(2) for h in range(3) for row in range(5)
    ]:
        turn = turned(vectors[batch, head, row].tolist(), position)
        expected = torch.tensor(turn, dtype=torch.double)
        torch.testing.assert_close(result[batch, head, row], expected, rtol=0, atol=1e-12)
    assert Rotary().add(vectors[0], at) is not None
    torch.testing.assert_close(Rotary().add(vectors[0], at), vectors[0])


def test_products_of_rotated_vectors_depend_on_the_distance_alone():
    query, key = torch.randn(1, 6, dtype=torch.double), torch.randn(1, 6, dtype=torch.double)

    def product(of_query, of_key):
        asks = Rotary().rotate(query, range(of_query, of_query + 1))
        return float(asks @ Rotary().rotate(key, range(of_key, of_key + 1)).mT)

    for distance in (0, 1, 5):
        near = product(3 + distance, 3)
        assert product(250 + distance, 250) == pytest.approx(near, abs=1e-10)
    assert product(4, 3) != pytest.approx(product(6, 3), abs=1e-3)


def test_one_position_broadcasts_to_a_batch():
    """All hypotheses of a step have one position."""
    vectors = torch.randn(2, 3, 5, 8)
    together = Rotary().rotate(vectors, range(7, 8))
    for row in range(5):
        alone = Rotary().rotate(vectors[:, :, row : row + 1], range(7, 8))
        torch.testing.assert_close(together[:, :, row : row + 1], alone)


def test_odd_sizes_are_rejected():
    with pytest.raises(ValueError, match="expected an even size, got 7"):
        Rotary().rotate(torch.randn(2, 3, 7), range(3))


def test_tables_created_without_gradients_can_be_used_in_training():
    vectors = torch.randn(1, 3, 62, requires_grad=True)
    with torch.inference_mode():
        Rotary().rotate(vectors, range(3))
        Sinusoidal().add(vectors, range(3))
    (Rotary().rotate(vectors, range(3)) + Sinusoidal().add(vectors, range(3))).sum().backward()
    assert vectors.grad.isfinite().all()
