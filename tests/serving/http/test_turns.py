"""Turns: the work of many connections does not fill an iteration of the event loop."""

import asyncio
import time

from regard.serving.http import turns
from regard.serving.http.turns import Turns


def test_work_is_done_at_once_while_there_is_time():
    async def test():
        done = []
        Turns().run(lambda: done.append(1))
        assert done == [1]

    asyncio.run(test())


def test_long_work_is_done_in_its_order_in_several_iterations(monkeypatch):
    monkeypatch.setattr(turns, "SECONDS", 0.002)

    async def test():
        done, queue, iterations = [], Turns(), 0

        def work(number):
            time.sleep(0.001)
            done.append(number)

        for number in range(10):
            queue.run(lambda number=number: work(number))
        assert 1 <= len(done) <= 2
        while len(queue):
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) - before <= 2
            iterations += 1
        assert done == list(range(10))
        assert iterations >= 4

    asyncio.run(test())


def test_an_iteration_has_few_parts_of_work(monkeypatch):
    """The time of tasks that the work starts is unknown."""
    monkeypatch.setattr(turns, "SECONDS", 60.0)
    monkeypatch.setattr(turns, "MAX_PARTS", 3)

    async def test():
        done, queue = [], Turns()
        for number in range(7):
            queue.run(lambda number=number: done.append(number))
        counts = [len(done)]
        while len(queue):
            await asyncio.sleep(0)
            counts.append(len(done))
        assert counts == [3, 6, 7]
        assert done == list(range(7))

    asyncio.run(test())


def test_work_may_add_work():
    async def test():
        done, queue = [], Turns()
        queue.run(lambda: queue.run(lambda: done.append(2)) or done.append(1))
        await asyncio.sleep(0.01)
        assert sorted(done) == [1, 2]

    asyncio.run(test())
