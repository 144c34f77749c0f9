"""Beam search compared with all texts, with a plain search in lists, and with itself."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies

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
from tests.messages import raises
from tests.search import brute_force
from tests.search.fake import (
    END,
    PAD,
    START,
    FakeDecoder,
    ScriptDecoder,
    TableDecoder,
    memories,
    pick,
)

VOCABULARY = 7
LIMITS = dict(start=START, end=END, forbidden=(PAD, START))
LENGTH_PENALTIES = (NoPenalty(), Average(), GoogleLength(0.6), GoogleLength(1.7))


def divisor(penalty, length):
    if isinstance(penalty, GoogleLength):
        return ((5 + length) / 6) ** penalty.alpha
    return length if isinstance(penalty, Average) else 1


def rank_by(decoder, memory, penalty, beta=0.0):
    def rank(text, values):
        score = sum(values) / divisor(penalty, len(text))
        if beta:
            score += beta * brute_force.coverage(decoder, memory, START, text)
        return score

    return rank


def texts(result):
    return [[hypothesis.tokens for hypothesis in output] for output in result]


def alone(given, row):
    """Return one sentence of a memory without its padding."""
    return pick(given, slice(row, row + 1))


@pytest.mark.parametrize(
    ("limits", "beta"),
    [
        (Limits(maximum=3, **LIMITS), 0.0),
        (Limits(maximum=3, **LIMITS), 0.7),
        (Limits(maximum=3, minimum=2, **LIMITS), 0.0),
        (Limits(start=START, end=None, maximum=2), 0.0),
    ],
    ids=["free", "coverage", "minimum", "endless"],
)
@pytest.mark.parametrize("penalty", LENGTH_PENALTIES, ids=str)
def test_a_wide_beam_equals_brute_force(limits, beta, penalty):
    decoder, given = FakeDecoder(VOCABULARY, seed=3), memories([5, 3])
    everything = brute_force.texts(
        VOCABULARY, START, limits.end, limits.maximum, limits.minimum, limits.forbidden
    )
    size = len(everything) + 1
    result = beam(decoder, given, limits, BeamSettings(size, size, penalty, beta))
    for row, output in enumerate(result):
        memory = alone(given, row)
        rank = rank_by(decoder, memory, penalty, beta)
        scored = {
            text: rank(text, brute_force.log_probabilities(decoder, memory, START, text))
            for text in everything
        }
        assert len(output) == len(everything)
        assert {hypothesis.tokens for hypothesis in output} == set(everything)
        expected = sorted(everything, key=lambda text: -scored[text])
        assert [hypothesis.tokens for hypothesis in output] == expected
        for hypothesis in output:
            assert hypothesis.score == pytest.approx(scored[hypothesis.tokens], rel=1e-5)
            assert hypothesis.finished == (hypothesis.tokens[-1] == limits.end)


@settings(max_examples=25, deadline=None)
@given(
    seed=strategies.integers(0, 10_000),
    vocabulary=strategies.sampled_from([4, VOCABULARY]),
    size=strategies.integers(1, 6),
    maximum=strategies.integers(1, 7),
    early_stopping=strategies.booleans(),
    penalty=strategies.sampled_from(LENGTH_PENALTIES),
    data=strategies.data(),
)
def test_a_narrow_beam_equals_a_plain_search_with_early_stopping(
    seed, vocabulary, size, maximum, early_stopping, penalty, data
):
    num_best = data.draw(strategies.integers(1, size))
    minimum = data.draw(strategies.integers(0, 3))
    decoder, given = FakeDecoder(vocabulary, seed), memories([4, 2, 3], seed)
    setting = BeamSettings(size, num_best, penalty, early_stopping=early_stopping)
    maxima = torch.tensor([maximum, 1, 5])
    result = beam(decoder, given, Limits(maximum=maxima, minimum=minimum, **LIMITS), setting)
    for row, output in enumerate(result):
        limits = Limits(maximum=int(maxima[row]), minimum=minimum, **LIMITS)
        memory = alone(given, row)
        rank = rank_by(decoder, memory, penalty)
        expected = brute_force.plain_beam(decoder, memory, limits, setting, rank)
        assert [hypothesis.tokens for hypothesis in output] == [text for text, _ in expected]
        for hypothesis, (text, values) in zip(output, expected, strict=True):
            assert hypothesis.log_probabilities == pytest.approx(values, rel=1e-9)
            assert hypothesis.score == pytest.approx(rank(text, values), rel=1e-5)


def test_a_finished_short_hypothesis_does_not_stop_a_better_live_one():
    """The end token is first with 0.5; the other token, with 0.4, continues with certainty."""
    script = torch.tensor([[0, 0.1, 0.5, 0.4], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 0]])
    limits = Limits(start=START, end=END, maximum=4)
    for penalty, text, score in (
        (NoPenalty(), (END,), math.log(0.5)),
        (Average(), (3, 3, END), math.log(0.4) / 3),
        (GoogleLength(2.0), (3, 3, END), math.log(0.4) / (8 / 6) ** 2),
    ):
        decoder = ScriptDecoder(script)
        ((best,),) = beam(decoder, memories([3]), limits, BeamSettings(2, 1, penalty))
        assert best.tokens == text
        assert best.score == pytest.approx(score)
        assert (decoder.num_steps == 1) == isinstance(penalty, NoPenalty)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("penalty", LENGTH_PENALTIES, ids=str)
def test_finished_hypotheses_do_not_stop_a_more_probable_live_one(penalty, early_stopping):
    """After two steps two texts are finished, with 0.1 and 0.09; a live one with 0.81 needs only
    its end."""
    script = torch.tensor([[0, 0, 0.1, 0.9], [0, 0, 0.1, 0.9], [0, 0, 1, 0], [0, 0, 1, 0]])
    limits = Limits(start=START, end=END, maximum=4)
    setting = BeamSettings(2, 1, penalty, early_stopping=early_stopping)
    ((best,),) = beam(ScriptDecoder(script), memories([3]), limits, setting)
    assert best.tokens == (3, 3, END)


def test_early_stopping_ignores_possible_later_gains():
    """All live hypotheses have a worse mean than both finished ones; only a very long text could
    win."""
    script = torch.tensor([[0, 0, 0.6, 0.4], [0, 0, 0.8, 0.2], *[[0, 0, 0.5, 0.5]] * 7])
    limits = Limits(start=START, end=END, maximum=9)
    steps = []
    for early_stopping in (True, False):
        decoder = ScriptDecoder(script)
        setting = BeamSettings(2, 1, early_stopping=early_stopping)
        ((best,),) = beam(decoder, memories([3]), limits, setting)
        assert best.tokens == (END,)
        steps.append(decoder.num_steps)
    assert steps[0] == 2 < steps[1] < 9


def test_the_best_hypothesis_does_not_depend_on_num_best():
    decoder, given = FakeDecoder(VOCABULARY, seed=4), memories([4, 2, 3, 6])
    limits = Limits(maximum=9, **LIMITS)
    for early_stopping in (True, False):
        queries = [
            texts(beam(decoder, given, limits, BeamSettings(4, n, early_stopping=early_stopping)))
            for n in (1, 2, 4)
        ]
        for fewer, count in zip(queries[:2], (1, 2), strict=True):
            assert fewer == [output[:count] for output in queries[2]]


def test_impossible_hypotheses_do_not_count_as_finished():
    """If a beam has more places than there are texts, its remaining places are pruned."""
    decoder, given = FakeDecoder(4, seed=1), memories([3])
    limits = Limits(maximum=5, **LIMITS)
    assert len(beam(decoder, given, limits, BeamSettings(6, 6))[0]) == 6


@pytest.mark.parametrize("penalty", LENGTH_PENALTIES, ids=str)
@pytest.mark.parametrize("end", [END, None])
def test_a_beam_of_one_is_greedy(penalty, end):
    decoder, given = FakeDecoder(VOCABULARY, seed=11), memories([5, 2, 3, 1, 7])
    limits = Limits(start=START, end=end, forbidden=(PAD,), maximum=torch.tensor([9, 3, 1, 9, 4]))
    single_beam = beam(decoder, given, limits, BeamSettings(1, 1, penalty), need_weights=True)
    for (output,), hypothesis in zip(
        single_beam, greedy(decoder, given, limits, need_weights=True), strict=True
    ):
        assert output.tokens == hypothesis.tokens
        assert output.log_probabilities == hypothesis.log_probabilities
        assert output.finished == hypothesis.finished
        for left, right in zip(output.attention, hypothesis.attention, strict=True):
            assert torch.equal(left.weights, right.weights)


def test_results_do_not_depend_on_the_batch():
    lengths = [5, 2, 3, 7, 1, 4, 6, 2, 3, 5, 7]
    decoder, given = FakeDecoder(VOCABULARY, seed=5), memories(lengths)
    maxima = torch.tensor([2 * length + 1 for length in lengths])
    setting = BeamSettings(3, 2, coverage_penalty=0.2)

    def run(rows):
        limits = Limits(maximum=maxima[rows], **LIMITS)
        return beam(decoder, pick(given, rows), limits, setting)

    together = run(torch.arange(11))
    assert len({len(output[0].tokens) for output in together}) > 2
    order = torch.randperm(11, generator=torch.Generator().manual_seed(2))
    for rows in (order, *order.split(3), *order.split(1)):
        for row, output in zip(rows.tolist(), run(rows), strict=True):
            assert [h.tokens for h in output] == [h.tokens for h in together[row]]
            for left, right in zip(output, together[row], strict=True):
                assert left.score == pytest.approx(right.score, rel=1e-5)


def test_finished_sentences_leave_the_batch():
    decoder, given = FakeDecoder(VOCABULARY, seed=5), memories([5, 2, 3, 7, 1])
    limits = Limits(maximum=torch.tensor([2, 1, 4, 2, 3]), start=START, end=None)
    beam(decoder, given, limits, BeamSettings(3))
    assert decoder.steps == [(5, 1), (4, 3), (2, 3), (1, 3)]


def test_hypotheses_have_the_attention_of_their_own_path():
    decoder, given = FakeDecoder(VOCABULARY, seed=8), memories([5, 3, 4])
    limits = Limits(maximum=torch.tensor([7, 3, 5]), **LIMITS)
    result = beam(decoder, given, limits, BeamSettings(4, 3), need_weights=True)
    for row, output in enumerate(result):
        assert len(output) == 3
        for hypothesis in output:
            outputs = torch.tensor([hypothesis.tokens])
            inputs = torch.cat([torch.tensor([[START]]), outputs[:, :-1]], dim=1)
            mask = torch.ones_like(outputs, dtype=torch.bool)
            judge = forced(decoder, alone(given, row), inputs, outputs, mask, need_weights=True)
            assert hypothesis.log_probabilities == pytest.approx(
                judge.log_probabilities[0].tolist(), rel=1e-9
            )
            assert [block.kind for block in hypothesis.attention] == ["cross", "decoder"]
            for map_, block in zip(hypothesis.attention, judge.attention, strict=True):
                torch.testing.assert_close(map_.weights, block.weights[0])
                if block.scores is not None:
                    torch.testing.assert_close(map_.scores, block.scores[0])
            assert hypothesis.attention[1].scores is None


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_attention_is_returned_on_request_only(beta):
    limits = Limits(maximum=3, **LIMITS)
    result = beam(
        FakeDecoder(VOCABULARY), memories([3]), limits, BeamSettings(2, 2, coverage_penalty=beta)
    )
    assert all(hypothesis.attention == () for hypothesis in result[0])


def test_equal_candidates_keep_their_order():
    limits = Limits(start=START, end=2, maximum=2, forbidden=(0, 1))
    result = beam(TableDecoder([0.0] * 211), memories([3, 2]), limits, BeamSettings(5, 5))
    ended = [(2,)]  # longer texts have the same mean: the one that was complete first leads
    cut = [(3, 2), (3, 3), (3, 4), (3, 5), (3, 6)]
    assert texts(result) == [[*ended, *cut[:4]]] * 2


@pytest.mark.parametrize("size", [3, 7, 8, 9, 12, 30])
@pytest.mark.parametrize("maximum", [1, 2])
def test_equal_candidates_keep_their_order_in_a_vocabulary_smaller_than_the_beam(size, maximum):
    """Finished hypotheses come first, then those with the lower parent, then the lower token."""
    limits = Limits(start=START, end=2, maximum=maximum, forbidden=(0, 1))
    result = beam(TableDecoder([0.0] * 5), memories([3, 2]), limits, BeamSettings(size, size))
    two = [(3, 2), (4, 2), (3, 3), (3, 4), (4, 3), (4, 4)]
    expected = [(2,), *two] if maximum == 2 else [(2,), (3,), (4,)]
    if size == 3 and maximum == 2:
        expected = [(2,), (3, 2), (3, 3)]
    assert texts(result) == [expected] * 2


def test_the_lattice_has_every_live_hypothesis():
    decoder, given = FakeDecoder(VOCABULARY, seed=8), memories([5, 3, 4])
    limits = Limits(maximum=torch.tensor([6, 2, 5]), **LIMITS)
    result = beam(decoder, given, limits, BeamSettings(4, 4, NoPenalty()))
    for row, output in enumerate(result):
        lattice = result.lattice(row)
        written = {}
        for step, parents in enumerate(lattice.parents.tolist()):
            for slot, parent in enumerate(parents):
                if parent < 0:
                    assert lattice.scores[step, slot] == -math.inf
                    continue
                before = written[step - 1, parent] if step else ()
                assert END not in before
                written[step, slot] = (*before, int(lattice.tokens[step, slot]))
        scores = {text: float(lattice.scores[place]) for place, text in written.items()}
        assert len(scores) == len(written)
        for hypothesis in output:
            assert scores[hypothesis.tokens] == pytest.approx(hypothesis.score, rel=1e-5)
    assert torch.equal(result.lattice(-1).tokens, result.lattice(2).tokens)


def test_fewer_hypotheses_are_returned_if_no_more_exist():
    limits = Limits(start=START, end=END, maximum=2, forbidden=(PAD, START, 3))
    result = beam(
        TableDecoder([0.0, 0.0, 1.0, 2.0, 0.0]), memories([3]), limits, BeamSettings(9, 9)
    )
    assert sorted(texts(result)[0]) == [(END,), (4, END), (4, 4)]


@pytest.mark.parametrize("logits", [[math.nan] * 5, [0.0] * 3], ids=["nan", "nothing allowed"])
def test_nan_logits_are_reported(logits):
    limits = Limits(start=START, end=END, maximum=3, forbidden=(0, 1, 2))
    with pytest.raises(ValueError, match=r"sentence 0.*expected a finite log probability"):
        beam(TableDecoder(logits), memories([3]), limits, BeamSettings())


def test_no_sentences_give_no_hypotheses():
    limits = Limits(maximum=3, **LIMITS)
    assert len(beam(FakeDecoder(VOCABULARY), memories([]), limits, BeamSettings())) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(size=0), "size is 0"),
        (dict(size=3, num_best=4), "num_best is 4"),
        (dict(coverage_penalty=-0.1), "coverage_penalty"),
    ],
)
def test_invalid_settings_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        BeamSettings(**arguments)


def test_a_coverage_penalty_without_attention_is_refused():
    setting = BeamSettings(2, coverage_penalty=0.1)
    with raises(ValueError):
        beam(TableDecoder([0.0] * 5), memories([3]), Limits(maximum=3, **LIMITS), setting)
