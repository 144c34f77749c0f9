"""The loss without its logits against a loop in float64 and against torch, with all gradients."""

import pytest
import torch
from torch.nn import functional as F

from regard.compiled.losses import linear_cross_entropy as module
from regard.compiled.losses.linear_cross_entropy import linear_cross_entropy
from tests.oracles.loss import smoothed_cross_entropy

WORDS, SIZE, FEATURES = 13, 37, 7  # more words of the vocabulary than lanes, not a multiple of them


def problem(dtype=torch.float64, scale=3.0):
    torch.manual_seed(4)
    features = scale * torch.randn(WORDS, FEATURES, dtype=torch.float64)
    weight, bias = torch.randn(SIZE, FEATURES).double(), torch.randn(SIZE).double()
    return [x.to(dtype).requires_grad_() for x in (features, weight, bias)]


TARGETS = torch.tensor([0, SIZE - 1, *range(5, 5 + WORDS - 2)])


@pytest.fixture(params=["all at once", "few at a time"])
def rows(request, monkeypatch):
    if request.param == "few at a time":
        monkeypatch.setattr(module, "LOGITS_AT_A_TIME", 1)
        monkeypatch.setattr(module, "WORDS", 5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [0.01, 3, 100])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_loss_and_gradients_equal_a_plain_loop(rows, smoothing, scale, dtype):
    arguments = problem(scale=scale)
    logits = F.linear(*arguments)
    loop = smoothed_cross_entropy(logits.detach().numpy(), TARGETS.numpy(), smoothing)
    expected = F.cross_entropy(logits, TARGETS, label_smoothing=smoothing, reduction="sum")
    wanted = torch.autograd.grad(expected * 0.5, arguments)

    single = problem(dtype, scale)
    result = linear_cross_entropy(*single, TARGETS, smoothing)
    exact = 1e-12 if dtype == torch.float64 else 1e-5
    assert result.dtype == dtype
    assert float(result.detach()) == pytest.approx(loop, rel=exact)
    for ours, theirs in zip(torch.autograd.grad(result * 0.5, single), wanted, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=10 * exact, atol=10 * exact * scale)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_loss_is_float32_of_rounded_products(rows, smoothing):
    arguments = problem(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        result = linear_cross_entropy(*arguments, TARGETS, smoothing)
        logits = F.linear(*arguments)
    assert result.dtype == torch.float32
    expected = smoothed_cross_entropy(logits.detach().float().numpy(), TARGETS.numpy(), smoothing)
    assert float(result.detach()) == pytest.approx(expected, rel=1e-5)
    precise = [x.detach().double().requires_grad_() for x in arguments]
    wanted = torch.autograd.grad(linear_cross_entropy(*precise, TARGETS, smoothing), precise)
    for ours, theirs in zip(torch.autograd.grad(result, arguments), wanted, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), theirs, rtol=0.05, atol=0.15)


def test_frozen_parts_and_no_bias():
    features, weight, _ = problem(torch.float32)
    weight.requires_grad_(False)
    result = linear_cross_entropy(features, weight, None, TARGETS)
    expected = F.cross_entropy(F.linear(features, weight), TARGETS, reduction="sum")
    torch.testing.assert_close(result, expected)
    wanted = torch.autograd.grad(expected, features)[0]
    torch.testing.assert_close(torch.autograd.grad(result, features)[0], wanted)
    with torch.no_grad():
        torch.testing.assert_close(linear_cross_entropy(features, weight, None, TARGETS), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_impossible_words_and_nan_reach_the_loss(dtype):
    features, weight, bias = problem(dtype)
    bias.data[3] = -torch.inf
    result = linear_cross_entropy(features, weight, bias, TARGETS)
    assert result.isfinite()
    assert all(g.isfinite().all() for g in torch.autograd.grad(result, [features, weight]))
    for bad in (torch.nan, torch.inf):
        bias.data[3] = bad
        assert not linear_cross_entropy(features, weight, bias, TARGETS).isfinite()


@pytest.mark.parametrize("bad", [-1, SIZE])
def test_targets_outside_the_vocabulary_are_rejected(bad):
    targets = TARGETS.clone()
    targets[3] = bad
    with pytest.raises(ValueError, match=f"targets must be from 0 to {SIZE - 1}"):
        linear_cross_entropy(*problem(), targets)


def test_empty_batches_have_zero_loss():
    features, weight, bias = problem()
    result = linear_cross_entropy(features[:0], weight, bias, TARGETS[:0])
    assert result == 0
    assert torch.autograd.grad(result, weight)[0].eq(0).all()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_only_logits_are_computed(monkeypatch, mode):
    arguments, products = problem(torch.float32), []
    for name in ("linear", "weight_gradient"):
        product = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *x, product=product: (products.append(1), product(*x))[1]
        )
    result = linear_cross_entropy(*arguments, TARGETS)
    assert len(products) == 3  # logits, and gradients of features and of the weight
    products.clear()
    with mode():
        assert linear_cross_entropy(*arguments, TARGETS) == result
    assert len(products) == 1
