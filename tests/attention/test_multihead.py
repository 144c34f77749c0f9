"""Multi-head attention compared with PyTorch's layer of the same weights, and head by head."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.attention import (
    CAUSAL,
    Additive,
    Attention,
    Entmax15,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    ScaledDot,
    Softmax,
    causal,
    padding,
)
from tests.attention.parts import number
from tests.oracles import attention as oracle

BATCH, TARGET, SOURCE, HEADS, HEAD, KEY, VALUE = 2, 5, 7, 3, 4, 11, 13
SIZE = HEADS * HEAD


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(7)


def inputs() -> tuple[torch.Tensor, ...]:
    sizes = [(TARGET, SIZE), (SOURCE, KEY), (SOURCE, VALUE)]
    return tuple(torch.randn(BATCH, *size, requires_grad=True) for size in sizes)


def of_torch(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return PyTorch's layer with our weights."""
    theirs = nn.MultiheadAttention(SIZE, HEADS, kdim=KEY, vdim=VALUE, batch_first=True)
    projections = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.q_proj_weight.copy_(ours.query.weight)
        theirs.k_proj_weight.copy_(ours.key.weight)
        theirs.v_proj_weight.copy_(ours.value.weight)
        theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in projections]))
        theirs.out_proj.load_state_dict(ours.heads.output.state_dict())
    return theirs


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masked", ["nothing", "padding", "rows", "both"])
def test_equals_torchs_multihead_attention(need_weights: bool, masked: str):
    ours = MultiHeadAttention(SIZE, KEY, VALUE, SIZE, HEADS, Attention(ScaledDot()))
    theirs = of_torch(ours)
    queries, keys, values = inputs()
    real = torch.tensor([[True] * 4 + [False] * 3, [True] * SOURCE])
    real = real if masked in ("padding", "both") else torch.ones_like(real)
    rows = causal(SOURCE)[:TARGET] if masked in ("rows", "both") else None
    seen = padding(real) if rows is None else padding(real) & rows
    mask = None if masked == "nothing" else seen
    attended = ours(queries, ours.prepare(keys, values), mask, need_weights=need_weights)
    context, weights = theirs(
        queries,
        keys,
        values,
        key_padding_mask=~real,
        attn_mask=None if rows is None else ~rows,
        average_attn_weights=False,
    )
    torch.testing.assert_close(attended.context, context)
    if need_weights:
        torch.testing.assert_close(attended.weights, weights)
        assert attended.scores.shape == (BATCH, HEADS, TARGET, SOURCE)
    upstream = torch.randn_like(context)
    gradients = torch.autograd.grad(attended.context, (queries, keys, values), upstream)
    expected = torch.autograd.grad(context, (queries, keys, values), upstream)
    torch.testing.assert_close(gradients, expected)


@pytest.mark.parametrize("need_weights", [False, True])
def test_each_head_equals_torchs_attention_function(need_weights: bool):
    ours = MultiHeadAttention(5, KEY, VALUE, SIZE, HEADS, Attention(ScaledDot()))
    queries, keys, values = torch.randn(TARGET, 5), *(x[0] for x in inputs()[1:])
    heads = [
        F.scaled_dot_product_attention(
            ours.query(queries)[:, part], ours.key(keys)[:, part], ours.value(values)[:, part]
        )
        for part in (slice(head * HEAD, (head + 1) * HEAD) for head in range(HEADS))
    ]
    attended = ours(queries, ours.prepare(keys, values), need_weights=need_weights)
    torch.testing.assert_close(attended.context, ours.heads.output(torch.cat(heads, dim=-1)))


def test_heads_accept_any_score_and_normaliser():
    score = Additive(HEAD, HEAD, 5)
    ours = MultiHeadAttention(SIZE, KEY, VALUE, SIZE, HEADS, Attention(score, Entmax15())).double()
    queries, keys, values = (x.detach().double() for x in inputs())
    mask = torch.rand(BATCH, TARGET, SOURCE) < 0.6
    mask[0, 2] = False
    attended = ours(queries, ours.prepare(keys, values), mask, need_weights=True)
    judge = oracle.additive(
        number(score.key.weight),
        number(score.key.bias),
        number(score.query.weight),
        number(score.vector),
    )
    for sentence in range(BATCH):
        contexts = []
        for head in range(HEADS):
            part = slice(head * HEAD, (head + 1) * HEAD)
            context, weights, scores = oracle.attend(
                number(ours.query(queries[sentence])[:, part]),
                number(ours.key(keys[sentence])[:, part]),
                number(ours.value(values[sentence])[:, part]),
                mask[sentence].numpy(),
                judge,
                oracle.entmax15,
            )
            np.testing.assert_allclose(number(attended.weights[sentence, head]), weights, atol=1e-9)
            np.testing.assert_allclose(number(attended.scores[sentence, head]), scores, atol=1e-9)
            contexts.append(context)
        joined = np.concatenate(contexts, axis=1)
        expected = joined @ number(ours.heads.output.weight).T + number(ours.heads.output.bias)
        np.testing.assert_allclose(number(attended.context[sentence]), expected, atol=1e-9)


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_fully_masked_query_gets_the_output_bias(need_weights: bool):
    ours = MultiHeadAttention(SIZE, KEY, VALUE, SIZE, HEADS, Attention(ScaledDot(), Softmax()))
    queries, keys, values = inputs()
    mask = torch.ones(BATCH, 1, SOURCE, dtype=torch.bool)
    mask[0] = False
    attended = ours(queries, ours.prepare(keys, values), mask, need_weights=need_weights)
    torch.testing.assert_close(attended.context[0], ours.heads.output.bias.expand(TARGET, SIZE))
    attended.context.sum().backward()
    for leaf in (queries, keys, values):
        assert leaf.grad.isfinite().all()
        assert not leaf.grad[0].any()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("mask", [None, CAUSAL, "padding"], ids=["nothing", "causal", "padding"])
def test_the_joint_projection_equals_torchs(need_weights: bool, mask: object):
    """PyTorch stacks the three weights in the same order."""
    ours = MultiHeadSelfAttention(SIZE, HEADS, Attention(ScaledDot()))
    nn.init.normal_(ours.projection.bias)
    theirs = nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.projection.weight)
        theirs.in_proj_bias.copy_(ours.projection.bias)
        theirs.out_proj.load_state_dict(ours.heads.output.state_dict())
    states = torch.randn(BATCH, SOURCE, SIZE)
    real = torch.tensor([[True] * 4 + [False] * 3, [True] * SOURCE])
    attended = ours(states, padding(real) if mask == "padding" else mask, need_weights=need_weights)
    context, weights = theirs(
        states,
        states,
        states,
        key_padding_mask=~real if mask == "padding" else None,
        attn_mask=~causal(SOURCE) if mask is CAUSAL else None,
        average_attn_weights=False,
    )
    torch.testing.assert_close(attended.context, context)
    if need_weights:
        torch.testing.assert_close(attended.weights, weights)


def test_queries_and_keys_are_rotated_and_values_are_not():
    ours = MultiHeadSelfAttention(SIZE, HEADS, Attention(ScaledDot()))
    states = torch.randn(BATCH, SOURCE, SIZE)
    still, turned = ours.project(states), ours.project(states, lambda vectors: -2 * vectors)
    torch.testing.assert_close(turned.queries, -2 * still.queries)
    torch.testing.assert_close(turned.prepared.keys, -2 * still.prepared.keys)
    torch.testing.assert_close(turned.prepared.values, still.prepared.values)
    assert turned.queries.shape == (BATCH, HEADS, SOURCE, HEAD)


@pytest.mark.parametrize("num_heads", [0, 5])
def test_the_size_must_be_a_multiple_of_the_heads(num_heads: int):
    with pytest.raises(ValueError, match=f"size 12 and num_heads {num_heads}"):
        MultiHeadAttention(SIZE, KEY, VALUE, SIZE, num_heads, Attention(ScaledDot()))
