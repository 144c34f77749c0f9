"""Ensembles, compared with the probabilities of their members, text by text."""

import math

import numpy as np
import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import pad
from regard.models.contracts import Decoder, State
from regard.models.ensemble import Ensemble, EnsembleDecoder
from regard.search import (
    Average,
    BeamSettings,
    GoogleLength,
    Limits,
    NoPenalty,
    beam,
    forced,
    greedy,
)
from tests import configs
from tests.search.brute_force import log_probabilities, texts
from tests.search.fake import END, PAD, SIZE, START, FakeDecoder, TableDecoder, memories, pick

VOCABULARY, LENGTHS = 5, (3, 2, 4)
SIZES = [2 * SIZE, 2 * SIZE]


def members():
    """Return two decoders that disagree, each with its own memories of the same three sentences."""
    decoders = [FakeDecoder(VOCABULARY, seed=1), FakeDecoder(VOCABULARY, seed=2, sharpness=3.0)]
    return decoders, [memories(LENGTHS, seed=3), memories(LENGTHS, seed=4)]


def mean(decoders, own, text):
    """Return the mean log probability of each token of a text over the members, by loops."""
    by_member = [
        log_probabilities(decoder, encoded, START, text)
        for decoder, encoded in zip(decoders, own, strict=True)
    ]
    return [
        math.log(sum(map(math.exp, values)) / len(values))
        for values in zip(*by_member, strict=True)
    ]


def test_an_ensemble_follows_the_decoder_contract():
    decoder = EnsembleDecoder(members()[0], SIZES)
    assert isinstance(decoder, Decoder)
    assert isinstance(decoder.start(sum(members()[1], ())), State)


@pytest.mark.parametrize("penalty", [NoPenalty(), Average(), GoogleLength(0.6)])
def test_a_wide_beam_equals_brute_force(penalty):
    """All texts of up to four tokens are scored member by member."""
    decoders, own = members()
    limits = Limits(start=START, end=END, maximum=4, forbidden=(PAD, START))
    settings = BeamSettings(99, 7, penalty, early_stopping=False)
    result = beam(EnsembleDecoder(decoders, SIZES), sum(own, ()), limits, settings)
    for sentence in range(len(LENGTHS)):
        alone = [pick(each, [sentence]) for each in own]
        scored = []
        for text in texts(VOCABULARY, START, END, 4, forbidden=(PAD, START)):
            values = mean(decoders, alone, text)
            divisor = float(penalty(torch.tensor([len(text)]))[0])
            scored.append((sum(values) / divisor, text, values))
        scored.sort(reverse=True)
        for hypothesis, (score, text, values) in zip(result[sentence], scored, strict=False):
            assert hypothesis.tokens == text
            assert hypothesis.score == pytest.approx(score, abs=1e-6)
            assert hypothesis.log_probabilities == pytest.approx(values, abs=1e-6)


def test_forced_texts_have_the_mean_probability():
    decoders, own = members()
    decoder = EnsembleDecoder(decoders, SIZES)
    outputs = torch.tensor([[3, 4, END], [4, 4, 3], [3, END, PAD]])
    inputs = torch.cat([torch.full((3, 1), START), outputs[:, :-1]], dim=1)
    result = forced(decoder, sum(own, ()), inputs, outputs, outputs != PAD)
    for row, text in enumerate(((3, 4, END), (4, 4, 3), (3, END))):
        values = mean(decoders, [pick(each, [row]) for each in own], text)
        np.testing.assert_allclose(result.log_probabilities[row, : len(text)], values, atol=1e-6)


def test_the_probabilities_of_a_step_are_a_distribution():
    decoder = EnsembleDecoder(members()[0], SIZES)
    features = torch.randn(2, 7, sum(SIZES), dtype=torch.float64)
    sums = decoder.project(features).exp().sum(dim=-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_tokens_impossible_for_one_member_stay_possible():
    sure = [TableDecoder(torch.tensor(each).log()) for each in ([1.0, 0.0, 0.0], [0.5, 0.5, 0.0])]
    result = EnsembleDecoder(sure, [1, 1]).project(torch.zeros(1, 2)).exp()
    torch.testing.assert_close(result, torch.tensor([[0.75, 0.25, 0.0]]))


@pytest.mark.parametrize("size", [1, 3])
def test_an_ensemble_of_one_model_twice_equals_the_model(size):
    decoder, encoded = FakeDecoder(VOCABULARY, seed=1), memories(LENGTHS, seed=3)
    limits = Limits(start=START, end=END, maximum=6, forbidden=(PAD, START))
    settings = BeamSettings(size, size, coverage_penalty=0.2)
    once = beam(decoder, encoded, limits, settings, need_weights=True)
    both = EnsembleDecoder([decoder, decoder], SIZES)
    twice = beam(both, encoded + encoded, limits, settings, need_weights=True)
    for ours, theirs in zip(twice, once, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.tokens == other.tokens
            assert one.score == pytest.approx(other.score, abs=1e-9)
            assert len(one.attention) == 2 * len(other.attention)
            for block, expected in zip(one.attention, other.attention * 2, strict=True):
                assert block.kind == expected.kind
                torch.testing.assert_close(block.weights, expected.weights)


def test_attention_is_returned_per_member():
    decoders, own = members()
    limits = Limits(start=START, end=END, maximum=5, forbidden=(PAD, START))
    (first, *_) = greedy(EnsembleDecoder(decoders, SIZES), sum(own, ()), limits, need_weights=True)
    inputs = torch.tensor([[START, *first.tokens[:-1]]])
    expected = [
        block
        for decoder, encoded in zip(decoders, own, strict=True)
        for block in decoder(inputs, pick(encoded, [0]), need_weights=True).attention
    ]
    assert [block.kind for block in first.attention] == ["cross", "decoder", "cross", "decoder"]
    for block, alone in zip(first.attention, expected, strict=True):
        torch.testing.assert_close(block.weights, alone.weights[0])


def test_the_number_of_memories_must_match_the_members():
    decoders, own = members()
    with pytest.raises(ValueError, match="memories: expected 2 for 2 members, got 3"):
        EnsembleDecoder(decoders, SIZES).start((*own[0], *own[1], *own[0]))
    with pytest.raises(ValueError, match=r"got 2 members, 1 feature sizes"):
        EnsembleDecoder(decoders, SIZES[:1])


def test_members_may_have_other_sizes_and_kinds():
    """All steps in one call equal single steps, and both are the mean of the members."""
    torch.manual_seed(5)
    attention = dict(size=3)
    members = [
        configs.recurrent(cell="gru", size=11, embedding=7, attention=attention, memory_vectors=3),
        configs.recurrent(wiring="bahdanau", size=13, embedding=5, attention=attention),
        configs.transformer(size=6, layers=2, heads=3, feed_forward=7, attention=attention),
    ]
    models = [build_translation(config, 17, 19).eval() for config in members]
    ensemble = Ensemble(models)
    source = pad([[4, 5, 6], [6, 2]])
    inputs = torch.tensor([[1, 4, 5, 6], [1, 6, 6, 4]])
    encoded = ensemble.encode(source)
    decoder = ensemble.decoder
    whole = decoder.project(decoder(inputs, encoded).features)
    alone = [
        model.decoder.project(model.decoder(inputs, model.encode(source)).features).softmax(-1)
        for model in models
    ]
    torch.testing.assert_close(whole.exp(), (alone[0] + alone[1] + alone[2]) / 3)
    state = decoder.start(encoded)
    for position in range(inputs.size(1)):
        output, state = decoder.step(inputs[:, position : position + 1], state)
        step = decoder.project(output.features)[:, 0]
        torch.testing.assert_close(step, whole[:, position], rtol=1e-4, atol=1e-5)
    memories, attention = ensemble.encode_with_attention(source, need_weights=True)
    assert len(memories) == 4  # one of them has vectors beside the source
    assert [(block.kind, block.weights.shape[1:3]) for block in attention] == [("encoder", (2, 3))]
