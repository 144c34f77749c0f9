"""Pooling and heads, compared with plain loops in float64."""

from __future__ import annotations

import pytest
import torch

from regard.attention import Additive, Attention, ScaledDot
from regard.models.contracts import Encoded, HeadOutput, Measure, Memory, Penalty, Summary
from regard.models.heads import (
    AttentionPool,
    HeadModel,
    LastState,
    LastStateHeadQuery,
    LearnedHeadQuery,
    MeanOfValues,
    PooledHead,
)
from regard.models.memory import top_layer

LENGTHS = (4, 1, 3)


def memory(key=5, value=3, summary=True):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    keys, values = draw(len(LENGTHS), 4, key), draw(len(LENGTHS), 4, value)
    values[~mask] = 1e30  # what is padding must never be seen
    last = Summary(draw(len(LENGTHS), 2, key)) if summary else None
    return Memory(keys, values, mask, last)


def test_the_mean_excludes_padding():
    arguments = memory()
    result = MeanOfValues()(arguments)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(result.vector[row], arguments.values[row, :length].mean(dim=0))
    assert result.attention == ()


def test_the_last_state_is_that_of_the_top_layer():
    arguments = memory()
    assert LastState()(arguments, need_weights=True).vector is not None
    torch.testing.assert_close(LastState()(arguments).vector, arguments.summary.hidden[:, 1])
    with pytest.raises(ValueError, match="expected a summary of the source"):
        LastState()(memory(summary=False))


@pytest.mark.parametrize("query_kind", ["learned", "last"])
def test_a_learned_query_gives_a_weighted_mean(query_kind):
    arguments = memory()
    query = LearnedHeadQuery(5) if query_kind == "learned" else LastStateHeadQuery()
    pool = AttentionPool(query, Attention(ScaledDot())).double()
    result = pool(arguments, need_weights=True)
    (block,) = result.attention
    assert (block.kind, block.weights.shape) == ("cross", (3, 1, 1, 1, 4))
    for row, length in enumerate(LENGTHS):
        queries = query.vector if query_kind == "learned" else arguments.summary.hidden[row, -1]
        scores = [
            float((queries @ arguments.keys[row, place]).detach()) / 5**0.5
            for place in range(length)
        ]
        weights = torch.tensor(scores, dtype=torch.float64).softmax(dim=0)
        mixed = sum(
            weight * arguments.values[row, place] for place, weight in enumerate(weights.tolist())
        )
        torch.testing.assert_close(result.vector[row].detach(), mixed)
        torch.testing.assert_close(block.weights[row, 0, 0, 0, :length].detach(), weights)
        assert not block.weights[row, 0, 0, 0, length:].any()
    torch.testing.assert_close(pool(arguments).vector, result.vector)


def test_initial_attention_of_a_learned_query_is_nearly_uniform():
    torch.manual_seed(1)
    pool = AttentionPool(LearnedHeadQuery(64), Attention(ScaledDot()))
    arguments = Memory(
        torch.randn(2, 7, 64), torch.randn(2, 7, 3), torch.ones(2, 7, dtype=torch.bool)
    )
    (block,) = pool(arguments, need_weights=True).attention
    torch.testing.assert_close(block.weights, torch.full((2, 1, 1, 1, 7), 1 / 7), atol=0.02, rtol=0)


def test_the_prediction_is_a_linear_layer_of_the_vector():
    arguments = memory()
    head = PooledHead(
        AttentionPool(LearnedHeadQuery(5), Attention(Additive(5, 5, 4))), torch.nn.Linear(3, 2)
    ).double()
    output = head((arguments,), need_weights=True)
    torch.testing.assert_close(output.predictions, head.output(head.pool(arguments).vector))
    assert len(output.attention) == 1
    with pytest.raises(ValueError, match="one memory"):
        head((arguments, arguments))


def test_penalties_and_measures_of_encoder_and_head_are_returned():
    value = torch.ones(())
    states, mask = torch.ones(2, 3, 5), torch.ones(2, 3, dtype=torch.bool)

    def terms(name):
        return dict(penalties=(Penalty(name, value),), measures=(Measure(name, value),))

    class Encoder(torch.nn.Module):
        def forward(self, source, *, need_weights):
            return Encoded((states,), mask, **terms("encoder"))

    class Head(torch.nn.Module):
        def forward(self, memories, *, need_weights):
            return HeadOutput(states[:, 0], **terms("head"))

    output = HeadModel(Encoder(), Head(), top_layer)(None)
    for reported in (output.penalties, output.measures):
        assert [term.name for term in reported] == ["encoder", "head"]
