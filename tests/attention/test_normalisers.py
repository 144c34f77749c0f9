"""Normalisers compared with thresholds from bisection and with the entmax package."""

from __future__ import annotations

import math

import entmax
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import (
    Entmax15,
    Normaliser,
    ScaledSoftmax,
    Sigmoid,
    Softmax,
    Sparsemax,
)
from tests.attention.parts import NORMALISERS, number
from tests.oracles import attention as oracle

every_normaliser = pytest.mark.parametrize(
    ("make", "judge"), NORMALISERS.values(), ids=NORMALISERS.keys()
)
few = settings(max_examples=25, deadline=None)
numbers = st.floats(-9, 9) | st.integers(-2, 2).map(float)  # whole numbers make ties


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[float], list[bool]]:
    scores = draw(st.lists(numbers, min_size=1, max_size=7))
    mask = draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    return scores, mask


@every_normaliser
@few
@given(row=rows())
def test_normalisers_equal_their_definition(make: type, judge: oracle.Normaliser, row):
    scores, mask = row
    weights = make()(torch.tensor([scores], dtype=torch.float64), torch.tensor([mask]))
    np.testing.assert_allclose(weights[0], oracle.masked(judge, scores, mask), atol=1e-12)


@every_normaliser
@few
@given(row=rows())
def test_weights_of_visible_keys_sum_to_one_or_to_their_number(
    make: type, judge: oracle.Normaliser, row
):
    scores, mask = row
    weights = make()(torch.tensor([scores]), torch.tensor([mask]))[0]
    if make is not Sigmoid:
        total = sum(mask) if make is ScaledSoftmax else any(mask)
        assert weights.sum().item() == pytest.approx(float(total), rel=1e-6)
    assert (weights >= 0).all()
    assert not weights[~torch.tensor(mask)].any()


@few
@given(row=rows())
def test_a_sigmoid_weight_depends_on_its_own_score(row):
    scores, mask = torch.tensor([row[0]]), torch.tensor([row[1]])
    together = Sigmoid()(scores, mask)
    alone = [Sigmoid()(scores[:, [place]], mask[:, [place]]) for place in range(scores.size(1))]
    assert torch.equal(together, torch.cat(alone, dim=1))


@every_normaliser
@few
@given(row=rows())
def test_masked_keys_have_no_influence_and_no_gradient(make: type, judge: oracle.Normaliser, row):
    scores, mask = torch.tensor([row[0]], requires_grad=True), torch.tensor([row[1]])
    weights = make()(scores, mask)
    (weights * torch.arange(1, weights.numel() + 1)).sum().backward()
    assert scores.grad.isfinite().all()
    assert not scores.grad[~mask].any()
    replaced = torch.where(mask, scores.detach(), 1e30)
    assert torch.equal(make()(replaced, mask), weights)


@every_normaliser
@few
@given(row=rows(), order=st.permutations(range(7)))
def test_normalisers_are_permutation_equivariant(
    make: type, judge: oracle.Normaliser, row, order: list[int]
):
    scores, mask = torch.tensor([row[0]], dtype=torch.float64), torch.tensor([row[1]])
    order = [place for place in order if place < scores.size(1)]
    weights, moved = make()(scores, mask), make()(scores[:, order], mask[:, order])
    torch.testing.assert_close(moved, weights[:, order])


@every_normaliser
def test_every_normaliser_follows_the_protocol(make: type, judge: oracle.Normaliser):
    assert isinstance(make(), Normaliser)


@pytest.mark.parametrize(
    ("normaliser", "theirs"), [(Sparsemax(), entmax.sparsemax), (Entmax15(), entmax.entmax15)]
)
def test_values_and_gradients_are_those_of_the_entmax_package(normaliser: Normaliser, theirs):
    torch.manual_seed(3)
    ours = (2 * torch.randn(11, 13, dtype=torch.float64)).requires_grad_()
    copied = ours.detach().clone().requires_grad_()
    weights, expected = normaliser(ours, None), theirs(copied, dim=-1)
    upstream = torch.randn_like(weights)
    weights.backward(upstream)
    expected.backward(upstream)
    assert 0 < (weights == 0).float().mean() < 1  # else nothing sparse was tried
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(ours.grad, copied.grad)


@pytest.mark.parametrize(
    ("name", "scores", "expected"),
    [
        ("softmax", [14, 12], [0.8808, 0.1192]),
        ("sparsemax", [1, 0.5, -1], [0.75, 0.25, 0]),  # tau = 1/4
        ("sparsemax", [3, 1], [1, 0]),
        ("entmax15", [0.4, 0], [0.64, 0.36]),  # tau = -0.6: 0.8 squared, 0.6 squared
        ("entmax15", [2, 0], [1, 0]),
        ("sigmoid", [0, math.log(3)], [0.5, 0.75]),
        ("scaled_softmax", [14, 12], [1.7616, 0.2384]),
        ("scaled_softmax", [5, 5, 5], [1, 1, 1]),
    ],
)
def test_normalisers_equal_values_worked_out_by_hand(
    name: str, scores: list[float], expected: list[float]
):
    make, judge = NORMALISERS[name]
    weights = make()(torch.tensor(scores, dtype=torch.float64)[None], None)
    assert weights[0].tolist() == pytest.approx(expected, abs=1e-4)
    assert judge(scores) == pytest.approx(expected, abs=1e-4)


@every_normaliser
def test_temperature_divides_the_scores(make: type, judge: oracle.Normaliser):
    scores = [0.3, -0.2, 0.25]
    for temperature in (0.5, 2.0):
        weights = make(temperature)(torch.tensor([scores], dtype=torch.float64), None)
        expected = judge([score / temperature for score in scores])
        np.testing.assert_allclose(weights[0], expected, atol=1e-12)
    sharp = {Sigmoid: [1, 0, 1], ScaledSoftmax: [3, 0, 0]}.get(make, [1, 0, 0])
    assert make(1e-3)(torch.tensor([scores]), None)[0].tolist() == pytest.approx(sharp, abs=1e-12)


@every_normaliser
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperatures_must_be_positive(make: type, judge: oracle.Normaliser, temperature: float):
    with pytest.raises(ValueError, match=f"temperature: expected more than 0, got {temperature}"):
        make(temperature)


@every_normaliser
def test_a_mask_may_have_any_shape_that_broadcasts(make: type, judge: oracle.Normaliser):
    torch.manual_seed(3)
    scores = torch.randn(2, 3, 5)
    for shape in [(2, 1, 5), (3, 5), (1, 5), (2, 3, 1), (1, 1, 1)]:
        mask = torch.rand(shape) < 0.5
        expected = make()(scores, mask.expand(2, 3, 5).clone())
        torch.testing.assert_close(make()(scores, mask), expected)


@every_normaliser
def test_long_rows_and_far_scores_stay_exact_in_float32(make: type, judge: oracle.Normaliser):
    torch.manual_seed(3)
    scores = torch.cat([torch.rand(11) / 4, -30 - 3e4 * torch.rand(20_011)])
    mask = torch.arange(len(scores)) < 11
    for shown in (torch.ones_like(mask), mask):
        expected = np.array(oracle.masked(judge, number(scores).tolist(), shown.tolist()))
        tolerance = 1e-6 * max(1, expected.max())
        weights = make()(scores[None], shown[None])[0]
        np.testing.assert_allclose(weights, expected, rtol=0, atol=tolerance)
    weights = make()(scores[None], torch.ones_like(mask)[None])
    assert torch.equal(weights, make()(scores[None], None))


@every_normaliser
def test_bfloat16_is_normalised_in_float32(make: type, judge: oracle.Normaliser):
    torch.manual_seed(3)
    scores = torch.randn(3, 17).bfloat16()
    weights = make(0.7)(scores, None)
    assert torch.equal(weights, make(0.7)(scores.float(), None).bfloat16())


def test_softmax_far_from_zero_does_not_overflow():
    assert Softmax()(torch.tensor([[1e30, 1e30, -1e30]]), None).tolist() == [[0.5, 0.5, 0]]


@every_normaliser
@pytest.mark.parametrize("odd", [torch.nan, torch.inf])
def test_a_row_with_nan_or_inf_is_nan(make: type, judge: oracle.Normaliser, odd: float):
    """All visible weights of the row are NaN and no other row is; hidden keys have weight zero. Of
    sigmoid, only the weight of a NaN is NaN, and that of inf is 1."""
    scores = torch.tensor([[[odd, 0.0, 1.0], [2.0, 0.0, 1.0]]], requires_grad=True)
    mask = torch.tensor([[[True, True, False], [True, True, False]]])
    weights = make()(scores, mask)
    if make is Sigmoid:
        expected = torch.tensor([odd, 0.0]).sigmoid()
        torch.testing.assert_close(weights[0, 0, :2], expected, equal_nan=True)
    else:
        assert weights[0, 0, :2].isnan().all()
    assert not weights[..., 2].any()
    assert weights[0, 1, :2].tolist() == pytest.approx(judge([2.0, 0.0]), abs=1e-6)
    weights.sum().backward()
    assert scores.grad[0, 1].isfinite().all()
    hidden = torch.tensor([[[False, True, True], [True, True, True]]])
    assert make()(scores.detach(), hidden).isfinite().all()


@every_normaliser
@pytest.mark.parametrize("shape", [(3, 4, 0), (3, 0, 4), (0, 3, 4)])
@pytest.mark.parametrize("is_masked", [False, True])
def test_no_keys_give_no_weights(
    make: type, judge: oracle.Normaliser, shape: tuple[int, ...], is_masked: bool
):
    scores = torch.zeros(shape, requires_grad=True)
    weights = make()(scores, torch.ones(shape, dtype=torch.bool) if is_masked else None)
    assert weights.shape == shape
    weights.sum().backward()
    assert scores.grad.shape == shape
