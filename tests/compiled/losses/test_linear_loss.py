"""Losses of logits, some words at a time."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regard.compiled.losses import linear_loss as module
from regard.compiled.losses.linear_cross_entropy import linear_cross_entropy
from regard.compiled.losses.linear_loss import linear_loss

PASSES, WORDS, SIZE, VOCABULARY = 2, 131, 7, 11


def tensors(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    shapes = (PASSES, WORDS, SIZE), (VOCABULARY, SIZE), (VOCABULARY,)
    numbers = [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    return [each.requires_grad_() for each in numbers]


def squares(logits, part):
    """Two terms that depend on the places of the words."""
    places = torch.arange(WORDS, dtype=logits.dtype)[part, None]
    return torch.stack([(places * logits.sin()).sum(), (logits[0] * logits[1]).sum()])


@pytest.mark.parametrize("num_logits", [1, 64 * PASSES * VOCABULARY, 1 << 20])
def test_blocks_of_words_give_the_loss_and_the_gradients_of_all_words(monkeypatch, num_logits):
    monkeypatch.setattr(module, "LOGITS_AT_A_TIME", num_logits)
    features, weight, bias = tensors()
    total, terms = linear_loss(features, weight, bias, squares)
    expected = squares(F.linear(features, weight, bias), slice(0, WORDS))
    torch.testing.assert_close(terms, expected)
    torch.testing.assert_close(total, expected.sum())
    grads = torch.autograd.grad(3 * total, (features, weight, bias))
    judge = torch.autograd.grad(3 * expected.sum(), (features, weight, bias))
    torch.testing.assert_close(grads, judge)
    assert not terms.requires_grad


def test_one_pass_of_cross_entropy_is_linear_cross_entropy():
    features, weight, _ = tensors(torch.float32)
    targets = torch.arange(WORDS) % VOCABULARY

    def entropy(logits, part):
        return F.cross_entropy(logits[0], targets[part], reduction="sum")[None]

    total, _ = linear_loss(features[:1], weight, None, entropy)
    expected = linear_cross_entropy(features[0], weight, None, targets)
    torch.testing.assert_close(total, expected)
    grads = torch.autograd.grad(total, (features, weight))
    torch.testing.assert_close(grads, torch.autograd.grad(expected, (features, weight)))


def test_products_follow_autocast():
    features, weight, bias = tensors(torch.float32)
    types = []

    def loss(logits, part):
        types.append(logits.dtype)
        return logits.float().square().sum()[None]

    with torch.autocast("cpu", torch.bfloat16):
        total, _ = linear_loss(features, weight, bias, loss)
    assert (types, total.dtype) == ([torch.bfloat16], torch.float32)
    (grad,) = torch.autograd.grad(total, weight)
    assert grad.dtype == torch.float32
    exact = F.linear(features, weight, bias).square().sum()
    assert total.item() == pytest.approx(exact.item(), rel=0.02)


def test_without_gradients_the_loss_is_equal():
    features, weight, bias = tensors()
    with torch.no_grad():
        total, _ = linear_loss(features, weight, bias, squares)
    assert not total.requires_grad
    torch.testing.assert_close(total, linear_loss(features, weight, bias, squares)[0].detach())


def test_frozen_weights_get_no_gradient():
    features, weight, bias = tensors()
    total, _ = linear_loss(features, weight.detach(), bias.detach(), squares)
    (grad,) = torch.autograd.grad(total, features)
    expected = squares(F.linear(features, weight, bias), slice(0, WORDS)).sum()
    torch.testing.assert_close(grad, torch.autograd.grad(expected, features)[0])
