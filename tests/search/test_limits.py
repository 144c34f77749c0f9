"""Impossible limits are rejected; log probabilities are at least float32."""

import sys
from itertools import chain

import pytest
import torch

from regard.search import Average, BeamSettings, Limits, NoPenalty, beam, greedy, limits
from regard.search.candidates import log_probabilities
from regard.search.limits import Rules
from tests.search.fake import END, START, FakeDecoder, memories


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(maximum=0), "maximum is 0"),
        (dict(maximum=torch.tensor([3, 0])), "at least 1 token"),
        (dict(maximum=3, minimum=-1), "minimum is -1"),
        (dict(maximum=3, forbidden=(0, -1)), r"forbidden is \(0, -1\)"),
    ],
)
def test_impossible_limits_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Limits(start=1, end=2, **arguments)


def test_maxima_for_another_number_of_sentences_are_refused():
    with pytest.raises(ValueError, match="2 lengths for 3 sentences"):
        Rules.of(Limits(start=1, end=2, maximum=torch.tensor([3, 5])), memories([2, 3, 1]))


def test_the_end_is_forbidden_below_the_minimum_length():
    rules = Rules.of(Limits(start=1, end=2, maximum=7, minimum=3, forbidden=(0, 1)), memories([2]))
    for position in range(5):
        values = log_probabilities(torch.zeros(1, 5), rules.forbidden(position))
        forbidden = [0, 1] if position >= 3 else [0, 1, 2]
        assert (values == -torch.inf).nonzero()[:, 1].tolist() == forbidden
        assert values[0, 3] == pytest.approx(-torch.log(torch.tensor(5.0)))


def test_half_precision_is_summed_in_float32():
    rules = Rules.of(Limits(start=1, end=2, maximum=7), memories([2]))
    logits = torch.randn(1, 997).bfloat16()
    values = log_probabilities(logits, rules.forbidden(0))
    assert values.dtype == torch.float32
    assert float(values.exp().sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("penalty", [Average(), NoPenalty()])
def test_checking_for_finished_sentences_less_often_changes_no_result(penalty, monkeypatch):
    """On a GPU, active sentences are counted at every eighth step."""
    decoder, encoded = FakeDecoder(11, seed=5), memories([4, 2, 3, 5, 1, 2, 3, 4, 2, 1, 3, 2])
    maxima = torch.arange(1, 13) % 7 + 1
    bounds = Limits(start=START, end=END, maximum=maxima, forbidden=(0, START))

    def search():
        result = beam(decoder, encoded, bounds, BeamSettings(3, 2, penalty))
        lattices = [result.lattice(row).tokens.tolist() for row in range(12)]
        hypotheses = [*chain.from_iterable(result), *greedy(decoder, encoded, bounds)]
        texts = [(hypothesis.tokens, hypothesis.finished) for hypothesis in hypotheses]
        return texts, lattices, [hypothesis.score for hypothesis in hypotheses]

    usual = search()
    seldom = limits.PATIENCE
    for module in ("beam", "greedy"):
        monkeypatch.setattr(
            sys.modules[f"regard.search.{module}"],
            "count_active",
            lambda active, position: int(active.sum()) if (position + 1) % seldom == 0 else None,
        )
    texts, lattices, scores = search()
    assert (texts, lattices) == usual[:2]
    assert scores == pytest.approx(usual[2], rel=1e-5)
