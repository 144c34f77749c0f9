"""Kernels replace only the exact types that they implement. A subclass, a module with hooks and a
module with a replaced `forward` are called, with and without weights and gradients."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard.attention import Additive, Attention, Dot, General, ScaledDot, Score, Softmax
from regard.compiled.attention.attend import additive_score
from regard.compiled.exact import are_unchanged, is_exactly
from tests.attention.parts import SCORES, uneven_mask


class NearFirst(ScaledDot):
    """Score that prefers keys at the query's own position."""

    def forward(self, queries: Tensor, prepared: Tensor) -> Tensor:
        rows = torch.arange(queries.size(-2))[:, None]
        return (
            super().forward(queries, prepared)
            - 5.0 * (rows - torch.arange(prepared.size(-2))).abs()
        )


class Halved(Additive):
    def forward(self, queries: Tensor, prepared: object) -> Tensor:
        return 0.5 * super().forward(queries, prepared)


class Sharp(Softmax):
    def __call__(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().__call__(20 * scores, mask)


class Kept(nn.Dropout):
    """Dropout without effect."""

    def forward(self, weights: Tensor) -> Tensor:
        return weights


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(5)


def assert_one_result(attention: Attention, formula: Score, scale: float = 1.0) -> None:
    """With and without weights and gradients the context is softmax(scale * formula) values."""
    inputs, mask = SCORES["dot"].inputs(torch.float32), uneven_mask()
    scores = scale * formula(inputs.queries, formula.prepare(inputs.keys))
    expected = Softmax()(scores, mask) @ inputs.values
    for need_weights, learns in product([False, True], repeat=2):
        with torch.set_grad_enabled(learns):
            prepared = attention.prepare(inputs.keys)
            output = attention(
                inputs.queries, prepared, inputs.values, mask, need_weights=need_weights
            )
        torch.testing.assert_close(output.context, expected, rtol=1e-4, atol=1e-5)


def test_a_subclass_of_a_dot_score_is_called():
    score = NearFirst()
    assert_one_result(Attention(score), score)


def test_a_subclass_of_an_additive_score_is_called():
    score = Halved(5, 5, 17)
    assert additive_score(Attention(score)) is None
    assert_one_result(Attention(score), score)


@pytest.mark.parametrize("score", [Dot(), Additive(5, 5, 17)], ids=["dot", "additive"])
def test_a_subclass_of_a_normaliser_is_called(score: nn.Module):
    assert_one_result(Attention(score, Sharp()), score, 20)


@pytest.mark.parametrize("score", [Dot(), Additive(5, 5, 17)], ids=["dot", "additive"])
def test_a_subclass_of_dropout_is_called(score: nn.Module):
    attention = Attention(score)
    attention.dropout = Kept(0.9)
    assert_one_result(attention, score)


@pytest.mark.parametrize("p", [0.0, 1.0])
@pytest.mark.parametrize("score", [Dot(), Additive(5, 5, 17)], ids=["dot", "additive"])
def test_dropout_follows_its_own_training_mode(score: nn.Module, p: float):
    """In a model in evaluation mode, dropout may be in training mode."""
    attention, inputs = Attention(score, dropout=p).eval(), SCORES["dot"].inputs(torch.float32)
    attention.dropout.train()
    for need_weights in (False, True):
        prepared = attention.prepare(inputs.keys)
        output = attention(inputs.queries, prepared, inputs.values, need_weights=need_weights)
        assert output.context.any() == (p == 0)


@pytest.mark.parametrize("make", [Dot, lambda: General(5, 5), lambda: Additive(5, 5, 17)])
@pytest.mark.parametrize("kind", ["forward", "before", "backward"])
def test_hooks_of_a_score_are_called(make, kind: str):
    attention, calls = Attention(make()), []
    inputs, mask = SCORES["dot"].inputs(torch.float32), uneven_mask()
    register = {
        "forward": attention.score.register_forward_hook,
        "before": attention.score.register_forward_pre_hook,
        "backward": attention.score.register_full_backward_hook,
    }[kind]

    def hook(*arguments: object) -> None:
        calls.append(kind)

    register(hook)
    queries = inputs.queries.requires_grad_()
    for need_weights in (False, True):
        prepared = attention.prepare(inputs.keys)
        output = attention(queries, prepared, inputs.values, mask, need_weights=need_weights)
        output.context.sum().backward()
    assert len(calls) == 2


def test_a_hook_of_a_projection_is_called():
    attention, calls = Attention(Additive(5, 5, 17)), []
    attention.score.query.register_forward_hook(lambda *arguments: calls.append(1))
    inputs = SCORES["dot"].inputs(torch.float32)
    for need_weights in (False, True):
        prepared = attention.prepare(inputs.keys)
        attention(inputs.queries, prepared, inputs.values, need_weights=need_weights)
    assert len(calls) == 2


def test_only_the_exact_type_without_hooks_is_exact():
    linear = nn.Linear(3, 5)
    assert is_exactly(linear, nn.Linear)
    assert is_exactly(Softmax(), Softmax)
    assert not is_exactly(Sharp(), Softmax)
    handle = linear.register_forward_hook(lambda *arguments: None)
    assert not is_exactly(linear, nn.Linear)
    assert not are_unchanged(nn.Sequential(linear))
    handle.remove()
    assert are_unchanged(nn.Sequential(linear))
    linear.forward = lambda inputs: inputs
    assert not is_exactly(linear, nn.Linear)
    parametrized = nn.Linear(3, 5)
    parametrize.register_parametrization(parametrized, "weight", nn.Identity())
    assert not is_exactly(parametrized, nn.Linear)
