"""Sampling compared with its distribution."""

import math

import pytest
import torch

from regard.search import ImpossibleError, Limits, forced, greedy, sample
from tests.search.fake import END, START, FakeDecoder, TableDecoder, memories

LOGITS = [0.0, 1.0, -1.0, 2.0, 0.5]


def shares(**arguments):
    limits = Limits(start=START, end=None, maximum=40, forbidden=(0,))
    generator = torch.Generator().manual_seed(7)
    result = sample(
        TableDecoder(LOGITS), memories([1] * 300), limits, generator=generator, **arguments
    )
    tokens = torch.tensor([hypothesis.tokens for hypothesis in result]).flatten()
    return (torch.bincount(tokens, minlength=5) / tokens.numel()).tolist()


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.5, 9), (3.0, 2)])
def test_sampled_frequencies_equal_the_probabilities(temperature, top_k):
    allowed = {2: (1, 3)}.get(top_k, (1, 2, 3, 4))
    masses = [math.exp(x / temperature) if i in allowed else 0 for i, x in enumerate(LOGITS)]
    expected = [mass / sum(masses) for mass in masses]
    result = shares(temperature=temperature, top_k=top_k)
    assert result == pytest.approx(expected, abs=0.02)  # 12 000 draws: four standard deviations
    assert [share > 0 for share in result] == [mass > 0 for mass in masses]


def test_top_1_sampling_is_greedy():
    decoder, encoded = FakeDecoder(11, seed=2), memories([5, 3, 2])
    limits = Limits(start=START, end=END, maximum=7)
    assert sample(decoder, encoded, limits, top_k=1, temperature=0.3) == greedy(
        decoder, encoded, limits
    )


def test_probabilities_are_the_models_and_a_seed_repeats_samples():
    decoder, encoded = FakeDecoder(11, seed=2), memories([5])
    limits = Limits(start=START, end=END, maximum=7)

    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        return sample(decoder, encoded, limits, temperature=2.0, generator=generator)[0]

    assert draw(3) == draw(3)
    drawn = [draw(seed) for seed in range(5)]
    assert len({hypothesis.tokens for hypothesis in drawn}) > 1
    for hypothesis in drawn:
        outputs = torch.tensor([hypothesis.tokens])
        inputs = torch.cat([torch.tensor([[START]]), outputs[:, :-1]], dim=1)
        judge = forced(decoder, encoded, inputs, outputs, outputs >= 0)
        assert hypothesis.score == pytest.approx(float(judge.scores))


@pytest.mark.parametrize(
    ("arguments", "message"), [(dict(temperature=0.0), "use greedy"), (dict(top_k=0), "top_k is 0")]
)
def test_invalid_settings_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample(FakeDecoder(5), memories([2]), Limits(start=1, end=2, maximum=3), **arguments)


@pytest.mark.parametrize("top_k", [None, 2])
@pytest.mark.parametrize(
    ("logits", "forbidden"), [([math.nan] * 5, ()), ([0.0] * 3, (0, 1, 2))], ids=["nan", "all"]
)
def test_nan_logits_are_reported(logits, forbidden, top_k):
    limits = Limits(start=1, end=2, maximum=3, forbidden=forbidden)
    with pytest.raises(ImpossibleError, match="sentence 0, token 0"):
        sample(TableDecoder(logits), memories([3]), limits, top_k=top_k)
