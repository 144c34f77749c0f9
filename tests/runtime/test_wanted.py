"""Searches stop between two steps when nobody waits for their results."""

import pytest

from regard.runtime.wanted import UnwantedError, check_wanted, while_wanted
from regard.search import BeamSettings, Limits, beam, greedy
from tests.search.fake import START, FakeDecoder, memories

LIMITS = Limits(start=START, end=None, maximum=30)


def searches():
    return {
        "greedy": lambda decoder, memory: greedy(decoder, memory, LIMITS),
        "beam": lambda decoder, memory: beam(decoder, memory, LIMITS, BeamSettings(size=3)),
    }


@pytest.mark.parametrize("name", searches())
def test_a_search_stops_between_steps(name):
    decoder, answers = FakeDecoder(7), iter([True] * 5 + [False])
    with pytest.raises(UnwantedError), while_wanted(lambda: next(answers)):
        searches()[name](decoder, memories([5, 3]))
    assert len(decoder.steps) == 5


def test_without_a_block_all_is_wanted():
    check_wanted()
    with pytest.raises(UnwantedError), while_wanted(lambda: False):
        check_wanted()
    check_wanted()
