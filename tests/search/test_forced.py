"""Forced decoding compared with brute force, in batches with padding."""

import math

import pytest
import torch

from regard.search import forced
from tests.search import brute_force
from tests.search.fake import END, PAD, START, FakeDecoder, TableDecoder, memories, pick

TEXTS = [(4, 3, 5, 4, END), (END,), (6, 3, END)]


@pytest.fixture
def batch():
    outputs = torch.full((3, 5), PAD)
    for row, text in enumerate(TEXTS):
        outputs[row, : len(text)] = torch.tensor(text)
    inputs = torch.cat([torch.full((3, 1), START), outputs[:, :-1]], dim=1)
    return inputs, outputs, outputs != PAD


def test_scores_equal_brute_force_on_each_text(batch):
    decoder, encoded = FakeDecoder(7, seed=4), memories([5, 2, 3])
    result = forced(decoder, encoded, *batch, num_top=3, need_weights=True)
    for row, text in enumerate(TEXTS):
        sentence = pick(encoded, slice(row, row + 1))
        expected = brute_force.log_probabilities(decoder, sentence, START, text)
        padding = [0.0] * (5 - len(text))
        assert result.log_probabilities[row].tolist() == pytest.approx([*expected, *padding])
        assert float(result.scores[row]) == pytest.approx(sum(expected))
        assert result.entropy[row, len(text) :].eq(0).all()
    assert result.attention[0].weights.shape == (3, 2, 5, 5, 5)


def test_alternatives_and_entropy_are_those_of_the_distribution(batch):
    decoder, encoded = FakeDecoder(7, seed=4), memories([5, 2, 3])
    inputs, outputs, mask = batch
    result = forced(decoder, encoded, inputs, outputs, mask, num_top=3)
    probabilities = torch.softmax(decoder.project(decoder(inputs, encoded).features), dim=-1)
    for row, position in mask.nonzero().tolist():
        p = probabilities[row, position].tolist()
        entropy = -sum(value * math.log(value) for value in p)
        assert float(result.entropy[row, position]) == pytest.approx(entropy)
        best = sorted(range(7), key=lambda token: -p[token])[:3]
        assert result.top_tokens[row, position].tolist() == best
        assert result.top_log_probabilities[row, position].tolist() == pytest.approx(
            [math.log(p[token]) for token in best]
        )
    assert result.attention == ()


def test_the_number_of_alternatives_is_limited_by_the_vocabulary(batch):
    decoder, encoded = FakeDecoder(7), memories([5, 2, 3])
    assert forced(decoder, encoded, *batch).top_tokens.shape == (3, 5, 0)
    assert forced(decoder, encoded, *batch, num_top=11).top_tokens.shape == (3, 5, 7)


def test_impossible_tokens_add_no_entropy():
    tokens = torch.zeros(1, 1, dtype=torch.long)
    decoder = TableDecoder([0.0, 0.0, -math.inf])
    result = forced(decoder, memories([2]), tokens, tokens, tokens == 0)
    assert float(result.entropy) == pytest.approx(math.log(2))
    assert float(result.scores) == pytest.approx(-math.log(2))


def test_large_batches_are_scored_in_parts():
    decoder, encoded = FakeDecoder(7), memories([2, 3] * 211)
    outputs = torch.arange(422 * 3).view(422, 3) % 7
    result = forced(decoder, encoded, outputs, outputs, outputs != PAD, num_top=1)
    logits = decoder.project(decoder(outputs, encoded).features)
    expected = torch.log_softmax(logits, dim=-1).gather(2, outputs[:, :, None])[:, :, 0]
    torch.testing.assert_close(result.log_probabilities, expected * (outputs != PAD))


def test_no_words_score_zero():
    tokens = torch.zeros(2, 3, dtype=torch.long)
    result = forced(FakeDecoder(7), memories([2, 3]), tokens, tokens, tokens > 0, num_top=2)
    assert result.scores.tolist() == [0, 0]
