"""Embeddings with a joined gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.compiled.recurrent.lookup import lookup
from regard.numerics.joined_gradients import joined_gradients

TOKENS = torch.tensor([[1, 0, 2], [2, 2, 5]])


@pytest.mark.parametrize("padding", [None, 0, 2, -1])
def test_gradients_equal_those_of_the_embedding(padding):
    results = []
    for joined in (True, False):
        torch.manual_seed(1)
        embedding = nn.Embedding(6, 3, padding_idx=padding)
        weights = torch.randn(3, 2, 3)
        if joined:
            with joined_gradients():
                steps = [lookup(embedding, tokens) for tokens in TOKENS.T]
            assert "_Lookup" in str(steps[0].grad_fn)
        else:
            steps = [embedding(tokens) for tokens in TOKENS.T]
        (torch.stack(steps) * weights).sum().backward()
        results.append((torch.stack(steps), embedding.weight.grad))
    torch.testing.assert_close(*results)


def test_embeddings_that_share_a_weight_keep_their_padding():
    first, second = nn.Embedding(6, 3, padding_idx=0), nn.Embedding(6, 3)
    second.weight = first.weight
    with joined_gradients():
        (lookup(first, TOKENS).sum() + lookup(second, TOKENS).sum()).backward()
    assert first.weight.grad[0].tolist() == [1, 1, 1]
    assert first.weight.grad[1].tolist() == [2, 2, 2]


@pytest.mark.parametrize("axes", [(), (0,), (2, 0), (2, 3)])
def test_tokens_have_any_axes(axes):
    embedding = nn.Embedding(6, 3)
    with joined_gradients():
        vectors = lookup(embedding, torch.ones(axes, dtype=torch.long))
    assert vectors.shape == (*axes, 3)
    vectors.sum().backward()
    assert embedding.weight.grad[1].tolist() == [vectors.numel() / 3] * 3


@pytest.mark.parametrize(
    "options", [dict(sparse=True), dict(max_norm=1.0), dict(scale_grad_by_freq=True)]
)
def test_embeddings_with_other_gradients_are_called(options):
    embedding = nn.Embedding(6, 3, **options)
    with joined_gradients():
        assert "_Lookup" not in str(lookup(embedding, TOKENS).grad_fn)


def test_embeddings_with_hooks_are_called():
    embedding, calls = nn.Embedding(6, 3), []
    embedding.register_forward_hook(lambda *_: calls.append(1))
    with joined_gradients():
        lookup(embedding, TOKENS)
    assert calls == [1]


def test_tokens_outside_of_the_vocabulary_are_refused():
    with joined_gradients(), pytest.raises(IndexError):
        lookup(nn.Embedding(6, 3), torch.tensor([6]))
