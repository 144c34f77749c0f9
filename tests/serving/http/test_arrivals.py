"""Arrivals: connections whose first request is not read yet."""

import asyncio
import errno
import gc
import socket
import time
from contextlib import ExitStack
from itertools import pairwise

import pytest

from regard.serving import server
from regard.serving.http import arrivals, turns
from regard.serving.http.arrivals import Arrivals
from regard.serving.server import listen, url_of
from tests.serving.http.test_connections import (
    HEALTH,
    REQUEST,
    connected,
    health,
    parsed,
    received,
)
from tests.serving.services import SECONDS, Fake, listening, service_of, serving, until


class Opened:
    """Arrivals at a free port, with the sockets that they open and reject."""

    def __init__(self, bound, maximum=100, seconds=float(SECONDS)):
        self.address = bound.getsockname()
        bound.setblocking(False)
        self.opened, self.rejected = [], []
        self.arrivals = Arrivals(bound, maximum, seconds, self.connect, self.rejected.append)

    async def connect(self, client):
        self.opened.append(client)

    def clients(self, stack, *beginnings):
        """Connect a client for each of these first bytes."""
        for beginning in beginnings:
            client = stack.enter_context(socket.create_connection(self.address, SECONDS))
            client.sendall(beginning)
            yield client


def run(test, **options):
    """Run a test of arrivals in an event loop."""

    errors = []

    async def in_loop():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        with listen("127.0.0.1", 0) as bound, ExitStack() as stack:
            opened = Opened(bound, **options)
            try:
                await test(opened, stack)
            finally:
                for client in (*opened.opened, *opened.rejected):
                    client.close()

    asyncio.run(in_loop())
    assert not errors


async def closed(client):
    """Wait until the server closes a connection."""
    return await asyncio.to_thread(client.recv, 1) == b""


@pytest.mark.parametrize("probe", [HEALTH, HEALTH.replace(b"health", b"ready")], ids=str)
def test_a_probe_waits_for_no_turn(probe, monkeypatch):
    monkeypatch.setattr(turns, "MAX_PARTS", 1)

    async def test(here, stack):
        clients = list(here.clients(stack, *[REQUEST[:-1]] * 50, probe))
        here.arrivals.start()
        await until(lambda: len(here.opened) == 51)
        peers = [each.getpeername() for each in here.opened]
        clients.insert(1, clients.pop())
        assert peers == [each.getsockname() for each in clients], "in their order"

    run(test)


def test_few_connections_are_opened_before_others_are_served(monkeypatch):
    monkeypatch.setattr(turns, "MAX_PARTS", 2)

    async def test(here, stack):
        list(here.clients(stack, *[REQUEST] * 9))
        here.arrivals.start()
        counts = []
        while len(here.opened) < 9:
            await asyncio.sleep(0)
            counts.append(len(here.opened))
        assert max(after - before for before, after in pairwise(counts)) <= 2

    run(test)


def test_connections_beyond_the_largest_number_of_waiting_ones_are_rejected(monkeypatch):
    monkeypatch.setattr(turns, "MAX_PARTS", 1)

    async def test(here, stack):
        clients = list(here.clients(stack, *[REQUEST] * 6, HEALTH))
        here.arrivals.start()
        await until(lambda: len(here.opened) == 5)
        assert [each.getpeername() for each in here.rejected] == [
            each.getsockname() for each in clients[4:6]
        ]

    run(test, maximum=3)


@pytest.mark.parametrize("maximum", [0, 1])
def test_a_connection_beyond_the_bound_is_closed_or_rejected(maximum):
    """The first bytes of a client may arrive before or after its connection is accepted."""

    async def test(here, stack):
        here.arrivals.start()
        silent = list(here.clients(stack, *[b""] * (maximum + 1)))
        assert await closed(silent[0])
        clients = list(here.clients(stack, *[REQUEST] * (maximum + 1)))
        await until(lambda: len(here.opened) + len(here.rejected) == len(clients))

    run(test, maximum=maximum)


def test_the_oldest_silent_connections_are_closed():
    async def test(here, stack):
        clients = list(here.clients(stack, *[b""] * 5))
        here.arrivals.start()
        assert [await closed(each) for each in clients[:2]] == [True, True]
        for each in clients[2:]:
            each.sendall(REQUEST)
        await until(lambda: len(here.opened) == 3)

    run(test, maximum=3)


def test_connections_that_are_silent_for_too_long_are_closed():
    async def test(here, stack):
        clients = list(here.clients(stack, b"", b"", REQUEST))
        here.arrivals.start()
        assert [await closed(each) for each in clients[:2]] == [True, True]
        await until(lambda: here.opened)

    run(test, seconds=0.1)


def test_connections_that_are_not_open_at_the_end_are_rejected(monkeypatch):
    monkeypatch.setattr(turns, "MAX_PARTS", 1)

    async def test(here, stack):
        list(here.clients(stack, *[REQUEST] * 5))
        here.arrivals._accept()
        await here.arrivals.close(asyncio.get_running_loop().time())
        assert (len(here.opened), len(here.rejected)) == (1, 4)

    run(test)


def test_a_process_with_too_many_open_files_accepts_later(monkeypatch):
    monkeypatch.setattr(arrivals, "RETRY_SECONDS", 0.01)

    async def test(here, stack):
        accept, faults = here.arrivals._listener.accept, [errno.EMFILE, errno.EMFILE]

        class Listener:
            fileno = here.arrivals._listener.fileno

            def accept(self):
                if faults:
                    raise OSError(faults.pop(), "too many open files")
                return accept()

        here.arrivals._listener = Listener()
        list(here.clients(stack, REQUEST))
        here.arrivals.start()
        await until(lambda: here.opened)
        assert not faults

    run(test)


def test_silent_connections_take_no_place(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 70)
    with listening(service_of(Fake())) as url, ExitStack() as stack, connected(url) as client:
        client.sendall(HEALTH)
        assert client.recv(1000)
        for _ in range(200):
            stack.enter_context(connected(url))
        assert health(url) < 1
        client.sendall(HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert b"HTTP/1.1 200" in received(client), "its place was not taken"


def test_a_rejected_connection_has_a_json_error_a_line_in_the_log_and_a_metric(monkeypatch, caplog):
    monkeypatch.setattr(server, "MAX_ARRIVALS", 0)
    service = service_of(Fake())
    with listen("127.0.0.1", 0) as bound, connected(url_of(bound)) as client:
        client.sendall(REQUEST)
        with caplog.at_level("INFO", "regard.serving"), serving(service, bound):
            status, answer = parsed(received(client))
    assert status == 503
    assert "too many connections" in answer["error"]
    metrics = service.metrics.page().decode()
    assert 'regard_requests_total{route="unknown",status="503"} 1.0' in metrics
    (line,) = [each.fields for each in caplog.records if each.getMessage() == "request"][:1]
    assert (line["status"], line["client"], line["path"]) == (503, "127.0.0.1", None)


def test_health_is_answered_while_partial_bodies_arrive():
    with listening(service_of(Fake())) as url, ExitStack() as stack:
        began = time.process_time()
        for _ in range(200):
            stack.enter_context(connected(url)).sendall(REQUEST[:-1])
        health(url)
        assert time.process_time() - began < 1


def test_connections_that_are_closed_leave_little_garbage():
    """Garbage in cycles takes collections, which delay all requests."""

    def send(number):
        for _ in range(number):
            with connected(url) as client:
                client.sendall(b"hello\r\n\r\n")
                received(client)
            with connected(url) as client:
                client.sendall(REQUEST)
                client.recv(1000)

    with listening(service_of(Fake())) as url:
        send(2)
        time.sleep(0.2)
        gc.collect()
        gc.disable()
        try:
            send(10)
            time.sleep(0.2)
            assert gc.collect() < 20 * 20
        finally:
            gc.enable()
