"""Embeddings with a joined gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.joined_gradients import joined_gradients
from regard.layers.lookup import lookup

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
