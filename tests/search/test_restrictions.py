"""Restrictions of a search compared with brute force over every sequence that obeys them."""

import math
from functools import cache
from operator import mul

import pytest
import torch

from regard import kernels
from regard.compiled.candidates import top_candidates
from regard.search import (
    Average,
    BeamSettings,
    ImpossibleError,
    Limits,
    NoPenalty,
    Restrictions,
    beam,
    forced,
    greedy,
    sample,
)
from tests.search import brute_force
from tests.search.fake import END, PAD, START, FakeDecoder, TableDecoder, memories, pick

LENGTHS = [5, 2, 3]
ALL = BeamSettings(size=400, num_best=7, length_penalty=NoPenalty(), early_stopping=False)
RESTRICTIONS = [
    Restrictions(no_repeat_ngram=1),
    Restrictions(no_repeat_ngram=2),
    Restrictions(no_repeat_ngram=3),
    Restrictions(repetition_penalty=1.7),
    Restrictions(no_repeat_ngram=2, repetition_penalty=1.3, prefixes=((4, 4, 4), (), (3,))),
    Restrictions(prefixes=((4, 5), (3,), ())),
]


def limited(restrictions, **changes):
    values = dict(start=START, end=END, maximum=4, forbidden=(PAD, START)) | changes
    return Limits(**values, restrictions=restrictions)


def repeats(text, size, num_free):
    """Whether a text has an n-gram twice, whose second one ends after this number of tokens."""
    ngrams = [text[place : place + size] for place in range(len(text) - size + 1)]
    return any(
        ngram in ngrams[:place] for place, ngram in enumerate(ngrams) if place + size > num_free
    )


@cache
def probabilities(row):
    """Return the log probability of each token of every text of a sentence."""
    decoder, encoded = FakeDecoder(6, seed=3), memories(LENGTHS)
    sentence = pick(encoded, slice(row, row + 1))
    texts = brute_force.texts(6, START, END, 4, forbidden=(PAD, START))
    return {text: brute_force.log_probabilities(decoder, sentence, START, text) for text in texts}


def texts_that_obey(restrictions, row):
    """Return every text that obeys the restrictions with its total by definition, best first."""
    prefix = restrictions.prefixes[row] if restrictions.prefixes else ()
    size, penalty, obeying = restrictions.no_repeat_ngram, restrictions.repetition_penalty, []
    for text, values in probabilities(row).items():
        if text[: len(prefix)] != prefix or (size and repeats(text, size, len(prefix))):
            continue
        factors = [
            penalty if token in text[:place] and place >= len(prefix) else 1
            for place, token in enumerate(text)
        ]
        obeying.append((sum(map(mul, values, factors)), text))
    return sorted(obeying, reverse=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("restrictions", RESTRICTIONS, ids=str)
def test_a_wide_beam_gives_the_best_of_all_texts_that_obey(restrictions, dtype):
    decoder, encoded = FakeDecoder(6, seed=3), memories(LENGTHS)
    project = decoder.project
    decoder.project = lambda features: project(features).to(dtype)
    results = beam(decoder, encoded, limited(restrictions), ALL)
    for row, hypotheses in enumerate(results):
        expected = texts_that_obey(restrictions, row)[: ALL.num_best]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [text for _, text in expected]
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == pytest.approx([value for value, _ in expected], rel=1e-5)


@pytest.mark.parametrize("restrictions", RESTRICTIONS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_greedy_equals_a_beam_of_1_and_top_1_sampling(restrictions, seed):
    decoder, encoded = FakeDecoder(11, seed), memories(LENGTHS)
    limits = limited(restrictions, maximum=torch.tensor([13, 4, 7]), minimum=3)
    result = greedy(decoder, encoded, limits, Average(), need_weights=True)
    beams = beam(decoder, encoded, limits, BeamSettings(size=1), need_weights=True)
    for best, (only,) in zip(result, beams, strict=True):
        assert only.tokens == best.tokens
        assert only.log_probabilities == pytest.approx(best.log_probabilities)
        assert only.score == pytest.approx(best.score)
        for ours, theirs in zip(only.attention, best.attention, strict=True):
            torch.testing.assert_close(ours.weights, theirs.weights)
    drawn = sample(decoder, encoded, limits, top_k=1)
    assert [each.tokens for each in drawn] == [each.tokens for each in result]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("restrictions", RESTRICTIONS, ids=str)
def test_batched_equals_one_by_one(restrictions, size):
    decoder, encoded = FakeDecoder(11, seed=5), memories(LENGTHS)
    settings = BeamSettings(size=size, num_best=size)
    maxima = torch.tensor([9, 3, 6])
    together = beam(decoder, encoded, limited(restrictions, maximum=maxima), settings)
    for row, hypotheses in enumerate(together):
        own = restrictions.prefixes[row : row + 1]
        alone = Restrictions(
            no_repeat_ngram=restrictions.no_repeat_ngram,
            repetition_penalty=restrictions.repetition_penalty,
            prefixes=own,
        )
        limits = limited(alone, maximum=int(maxima[row]))
        (result,) = beam(decoder, pick(encoded, slice(row, row + 1)), limits, settings)
        assert [each.tokens for each in result] == [each.tokens for each in hypotheses]
        assert [each.score for each in result] == pytest.approx([each.score for each in hypotheses])


@pytest.mark.parametrize("size", [1, 4])
def test_every_prefix_of_the_best_output_gives_this_output(size):
    decoder, encoded = FakeDecoder(11, seed=1), memories(LENGTHS)
    settings = BeamSettings(size=size, num_best=size)
    limits = limited(None, maximum=7)
    best = [hypotheses[0] for hypotheses in beam(decoder, encoded, limits, settings)]
    for length in range(8):
        prefixes = tuple(hypothesis.tokens[:length] for hypothesis in best)
        prefixes = tuple(tuple(token for token in prefix if token != END) for prefix in prefixes)
        restricted = limited(Restrictions(prefixes=prefixes), maximum=7)
        results = beam(decoder, encoded, restricted, settings, need_weights=True)
        for hypotheses, expected, prefix in zip(results, best, prefixes, strict=True):
            assert hypotheses[0].tokens == expected.tokens
            assert hypotheses[0].log_probabilities == pytest.approx(expected.log_probabilities)
            for hypothesis in hypotheses:
                assert hypothesis.tokens[: len(prefix)] == prefix
                for block in hypothesis.attention:
                    assert block.weights.size(2) == len(hypothesis.tokens)


def test_tokens_of_a_prefix_keep_the_probabilities_of_the_model():
    decoder, encoded = FakeDecoder(11, seed=1), memories(LENGTHS)
    prefix = (PAD, 7, 7, 7)  # forbidden, and repeated
    restrictions = Restrictions(no_repeat_ngram=1, repetition_penalty=2.0, prefixes=(prefix,) * 3)
    for row, result in enumerate(greedy(decoder, encoded, limited(restrictions))):
        assert result.tokens[:4] == prefix
        outputs = torch.tensor([result.tokens[:4]])
        inputs = torch.cat([torch.tensor([[START]]), outputs[:, :-1]], dim=1)
        sentence = pick(encoded, slice(row, row + 1))
        judge = forced(decoder, sentence, inputs, outputs, outputs >= 0)
        assert result.log_probabilities[:4] == pytest.approx(judge.log_probabilities[0].tolist())


def test_a_prefix_is_cut_at_the_maximum():
    limits = limited(Restrictions(prefixes=((4, 5, 6),)), maximum=2)
    (hypotheses,) = beam(FakeDecoder(11), memories([3]), limits, BeamSettings(size=3, num_best=3))
    assert [each.tokens for each in hypotheses] == [(4, 5)]
    assert not hypotheses[0].finished


def test_samples_obey_the_restrictions():
    restrictions = Restrictions(no_repeat_ngram=2, prefixes=((3, 4),) * 200)
    limits = limited(restrictions, maximum=9)
    generator = torch.Generator().manual_seed(3)
    texts = sample(
        TableDecoder([0, 0, -1, 1, 1, 0.0]), memories([1] * 200), limits, generator=generator
    )
    assert len({each.tokens for each in texts}) > 20
    for each in texts:
        assert each.tokens[:2] == (3, 4)
        assert not repeats(each.tokens, 2, 2)


def test_a_penalty_never_raises_a_probability():
    """Logits of one sign or the other give equal outputs."""
    limits = limited(Restrictions(repetition_penalty=2.0), maximum=4, end=None)
    for shift in (-50.0, 50.0):
        logits = torch.tensor([0.0, 0.0, 0.0, 2.0, 1.5]) + shift
        (result,) = greedy(TableDecoder(logits), memories([1]), limits)
        assert result.tokens == (3, 4, 3, 3)
        own = torch.log_softmax(logits, dim=0).tolist()
        assert result.log_probabilities[0] == pytest.approx(own[3], rel=1e-4)
        assert result.log_probabilities[2] == pytest.approx(2 * own[3], rel=1e-4)


def test_restrictions_that_leave_no_token_are_reported():
    limits = limited(Restrictions(no_repeat_ngram=1), maximum=4, end=None)
    with pytest.raises(ImpossibleError, match="sentence 0"):
        greedy(TableDecoder([0.0] * 5), memories([1]), limits)
    with pytest.raises(ImpossibleError, match="sentence 0"):
        beam(TableDecoder([0.0] * 5), memories([1]), limits, BeamSettings(size=2))


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (dict(no_repeat_ngram=-1), "no_repeat_ngram"),
        (dict(repetition_penalty=0.5), "repetition_penalty"),
        (dict(repetition_penalty=math.nan), "repetition_penalty"),
        (dict(prefixes=((3, -1),)), "prefixes"),
    ],
)
def test_values_out_of_range_are_rejected(values, name):
    with pytest.raises(ValueError, match=name):
        Restrictions(**values)


def test_another_number_of_prefixes_is_rejected():
    with pytest.raises(ValueError, match="2 entries for 3 sentences"):
        greedy(FakeDecoder(11), memories(LENGTHS), limited(Restrictions(prefixes=((3,), (4,)))))


def test_the_kernel_chooses_after_the_prefixes(monkeypatch):
    """Without a restriction of repetition, the history ends with the longest prefix."""
    calls = []
    suit = kernels.suit
    monkeypatch.setattr(kernels, "suit", lambda *tensors: calls.append(1) or suit(*tensors))
    limits = limited(Restrictions(prefixes=((4, 5, 4),)), maximum=8, end=None)
    decoder = TableDecoder([0.0, 0, 0, 1, 2, 3])
    greedy(decoder, memories([1]), limits, find=top_candidates)
    assert len(calls) == 5
    calls.clear()
    greedy(decoder, memories([1]), limited(Restrictions()), find=top_candidates)
    assert len(calls) == 4
