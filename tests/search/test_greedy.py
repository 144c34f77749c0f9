"""Greedy search compared with a loop over whole forward passes."""

import math

import pytest
import torch

from regard.search import Average, Limits, forced, greedy
from tests.search.fake import END, PAD, START, FakeDecoder, TableDecoder, memories, pick

LENGTHS = [5, 2, 3, 7, 1]


def slowly(decoder, encoded, limits, maximum):
    """Decode one sentence with a whole forward pass for every token."""
    written, values = [], []
    while len(written) < maximum and limits.end not in written:
        inputs = torch.tensor([[limits.start, *written]])
        logits = decoder.project(decoder(inputs, encoded).features)[0, -1]
        row = (logits - logits.logsumexp(0)).tolist()
        allowed = [
            token
            for token in range(len(row))
            if token not in limits.forbidden
            and (token != limits.end or len(written) >= limits.minimum)
        ]
        written.append(max(allowed, key=lambda token: row[token]))
        values.append(row[written[-1]])
    return tuple(written), values


@pytest.mark.parametrize("minimum", [0, 4])
@pytest.mark.parametrize("end", [END, None])
@pytest.mark.parametrize("seed", range(5))
def test_outputs_equal_a_plain_loop(seed, end, minimum):
    decoder, encoded = FakeDecoder(11, seed), memories(LENGTHS, seed)
    maxima = torch.tensor([9, 3, 1, 13, 5])
    limits = Limits(start=START, end=end, maximum=maxima, minimum=minimum, forbidden=(PAD, START))
    for row, result in enumerate(greedy(decoder, encoded, limits)):
        text, values = slowly(decoder, pick(encoded, slice(row, row + 1)), limits, maxima[row])
        assert result.tokens == text
        assert result.log_probabilities == pytest.approx(values, rel=1e-9)
        assert result.score == pytest.approx(sum(values))
        assert result.finished == (text[-1] == end)
        assert result.attention == ()


def test_probabilities_and_attention_equal_a_forced_pass():
    decoder, encoded = FakeDecoder(11, seed=1), memories(LENGTHS)
    limits = Limits(start=START, end=END, maximum=13)
    for row, result in enumerate(greedy(decoder, encoded, limits, need_weights=True)):
        outputs = torch.tensor([result.tokens])
        inputs = torch.cat([torch.tensor([[START]]), outputs[:, :-1]], dim=1)
        sentence = pick(encoded, slice(row, row + 1))
        judge = forced(decoder, sentence, inputs, outputs, outputs >= 0, need_weights=True)
        assert result.score == pytest.approx(float(judge.scores))
        for map_, block in zip(result.attention, judge.attention, strict=True):
            assert map_.kind == block.kind
            torch.testing.assert_close(map_.weights, block.weights[0])


def test_finished_sentences_leave_the_batch():
    decoder = FakeDecoder(11)
    limits = Limits(start=START, end=None, maximum=torch.tensor([2, 4, 1, 2, 3]))
    greedy(decoder, memories(LENGTHS), limits)
    assert decoder.steps == [(5, 1), (4, 1), (2, 1), (1, 1)]


def test_ties_select_the_lowest_token():
    result = greedy(
        TableDecoder([5.0, 1.0, 0.0, 1.0]),
        memories([3]),
        Limits(start=1, end=2, maximum=2, forbidden=(0,)),
    )
    assert result[0].tokens == (1, 1)
    assert result[0].log_probabilities[0] == pytest.approx(
        1 - math.log(math.exp(5) + 2 * math.e + 1)
    )


def test_no_sentences_give_no_hypotheses():
    assert greedy(FakeDecoder(11), memories([]), Limits(start=1, end=2, maximum=3)) == []


@pytest.mark.parametrize(
    ("logits", "forbidden"), [([math.nan] * 5, ()), ([0.0] * 3, (0, 1, 2))], ids=["nan", "all"]
)
def test_nan_logits_are_reported(logits, forbidden):
    limits = Limits(start=1, end=2, maximum=3, forbidden=forbidden)
    with pytest.raises(ValueError, match="sentence 0, token 0"):
        greedy(TableDecoder(logits), memories([3]), limits)


def test_scores_are_normalised_as_in_beam_search():
    decoder, encoded = FakeDecoder(11), memories(LENGTHS)
    limits = Limits(start=START, end=None, maximum=torch.tensor([2, 4, 1, 2, 3]))
    divided = greedy(decoder, encoded, limits, Average())
    for sums, means in zip(greedy(decoder, encoded, limits), divided, strict=True):
        assert means.tokens == sums.tokens
        assert means.score == pytest.approx(sum(sums.log_probabilities) / len(sums.tokens))
