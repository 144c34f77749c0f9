"""Items taken in advance: their order, their errors, and the end of the thread."""

import itertools
import threading

import pytest

from regard.training.prefetch import prefetched


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "regard-batches"]


def test_items_keep_their_order():
    with prefetched(iter(range(57)), 2) as items:
        assert list(items) == list(range(57))
    assert threads() == []


def test_leaving_the_block_stops_an_endless_iterator():
    made = []
    with prefetched((made.append(n) or n for n in itertools.count()), 3) as items:
        assert list(itertools.islice(items, 5)) == [0, 1, 2, 3, 4]
    assert len(made) <= 5 + 3 + 1
    assert threads() == []


def test_an_error_is_raised_at_its_position():
    def failing():
        yield 1
        raise ValueError("the file ended")

    with prefetched(failing(), 4) as items:
        assert next(items) == 1
        with pytest.raises(ValueError, match="the file ended"):
            next(items)


def test_an_error_in_the_block_ends_the_thread():
    def interrupted():
        with prefetched(itertools.count(), 2) as items:
            next(items)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threads() == []
