"""Conditions under which PyTorch's kernel runs, and its results."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regard.attention import (
    CAUSAL,
    Additive,
    Attention,
    Cosine,
    Dot,
    General,
    ScaledDot,
    Softmax,
    Sparsemax,
)
from regard.attention import scores as formulas
from regard.compiled.attention.dot import native as native_dots
from regard.compiled.attention.dot.choose import dot_scale


def test_the_kernel_runs_for_dot_products_with_softmax():
    assert dot_scale(Dot(), Softmax(), 16) == 1
    assert dot_scale(General(16, 3), Softmax(2.0), 16) == 0.5
    assert dot_scale(ScaledDot(), Softmax(), 16) == 0.25
    assert dot_scale(ScaledDot(), Softmax(0.5), 16) == 0.5


def test_the_kernel_does_not_run_for_other_attention():
    assert dot_scale(Dot(), Sparsemax(), 16) is None
    assert dot_scale(Additive(16, 3, 5), Softmax(), 16) is None
    assert dot_scale(Cosine(), Softmax(), 16) is None


def test_without_requested_weights_no_scores_are_computed(monkeypatch: pytest.MonkeyPatch):
    attention = Attention(Dot())

    def refuse(*arguments: object) -> None:
        raise RuntimeError("scores were formed")

    monkeypatch.setattr(formulas, "_dots", refuse)
    queries, keys, values = torch.ones(2, 3), torch.ones(5, 3), torch.ones(5, 7)
    attention(queries, keys, values)
    with pytest.raises(RuntimeError, match="scores were formed"):
        attention(queries, keys, values, need_weights=True)


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attend without the package's kernel."""
    monkeypatch.setattr(native_dots, "suits", lambda *arguments: False)


@pytest.mark.parametrize("mask", [None, CAUSAL], ids=["nothing", "causal"])
def test_a_named_mask_is_not_materialised_for_the_kernel(monkeypatch, by_torch, mask):
    inputs = []
    kernel = F.scaled_dot_product_attention

    def watched(*arguments: object, **how: object) -> torch.Tensor:
        inputs.append((len(arguments), how["is_causal"]))
        return kernel(*arguments, **how)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    queries, keys, values = torch.randn(2, 5, 3), torch.randn(2, 5, 3), torch.randn(2, 5, 7)
    attention = Attention(Dot())
    fast = attention(queries, keys, values, mask).context
    assert inputs == [(3, mask is CAUSAL)]
    plain = attention(queries, keys, values, mask, need_weights=True).context
    torch.testing.assert_close(fast, plain)


def test_only_fully_masked_queries_are_unmasked_for_the_kernel(monkeypatch, by_torch):
    masks = []
    kernel = F.scaled_dot_product_attention

    def watched(queries, keys, values, mask, **how: object) -> torch.Tensor:
        masks.append(mask)
        return kernel(queries, keys, values, mask, **how)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    queries, keys, values = torch.randn(2, 5, 3), torch.randn(2, 4, 3), torch.randn(2, 4, 7)
    seen = torch.tensor([[[True, True, False, False]], [[True, False, False, False]]])
    attention = Attention(Dot())
    attention(queries, keys, values, seen)
    assert masks.pop() is seen
    blind = seen & torch.tensor([[[True]], [[False]]])
    assert not attention(queries, keys, values, blind).context[1].any()
    assert masks.pop()[1].all()


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("num_keys", [257, 1100])
@pytest.mark.parametrize("places", [slice(3, 5), slice(-1, None), slice(-40, None)])
@pytest.mark.parametrize("array", ["keys", "values"])
def test_masked_values_that_are_not_finite_change_no_result(number, num_keys, places, array):
    """PyTorch's kernel must return NaN for a hidden NaN with an influence, never a wrong number:
    only then are hidden positions replaced by zeros."""
    queries, keys = torch.randn(2, 3, 8), torch.randn(2, num_keys, 8)
    clean = {"keys": keys, "values": keys}
    mask = torch.ones(1, 1, num_keys, dtype=torch.bool)
    mask[..., places] = False
    dirty = dict(clean)
    dirty[array] = clean[array].masked_fill(~mask.mT, number)
    attention = Attention(Dot())
    with torch.no_grad():
        expected = attention(queries, *clean.values(), mask).context
        context = attention(queries, *dirty.values(), mask).context
    torch.testing.assert_close(context, expected)
