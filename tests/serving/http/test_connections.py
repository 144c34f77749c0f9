"""Connections whose clients are silent, slow, gone, or send bytes that are no request."""

import http.client
import json
import select
import socket
import struct
import time
import urllib.request
from contextlib import ExitStack, closing, contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from regard.serving import server
from regard.serving.http import connections, transport
from tests.serving.services import SECONDS, Fake, listening, service_of

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b'{"texts": ["a"]}'
POST = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
REQUEST = POST + b"Content-Length: 16\r\n\r\n" + BODY


@pytest.fixture(autouse=True)
def _waits(monkeypatch):
    """Let each part of a request wait for its turn, as on a busy server."""
    monkeypatch.setattr("regard.serving.http.turns.SECONDS", 0.0)


@contextmanager
def connected(url):
    """Connect to a server."""
    host = urlsplit(url)
    with closing(socket.create_connection((host.hostname, host.port), SECONDS)) as client:
        yield client


def received(client):
    """Return all bytes until the server closes the connection."""
    chunks = []
    while chunk := client.recv(1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


def exchange(url, sent, *, ends=False):
    """Send bytes and return the response: its status and the JSON object of its body."""
    with connected(url) as client:
        client.sendall(sent)
        if ends:
            client.shutdown(socket.SHUT_WR)
        return parsed(received(client))


def parsed(response):
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    return int(head.split()[1]), json.loads(body)


def health(url):
    """Ask for the health, and return the CPU time of this process until the answer. The elapsed
    time would depend on other processes of the machine."""
    began = time.process_time()
    with urllib.request.urlopen(f"{url}/health", timeout=SECONDS) as response:
        assert response.status == 200
    return time.process_time() - began


def metrics(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=SECONDS) as response:
        return response.read().decode()


MALFORMED = {
    "no request": b"hello\r\n\r\n",
    "http 0.9": b"GET /health\r\n\r\n",
    "blank method": b" /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no colon": b"GET /health HTTP/1.1\r\nHost: localhost\r\nx y\r\n\r\n",
    "space before colon": b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "two lengths": POST + b"Content-Length: 16\r\nContent-Length: 17\r\n\r\n" + BODY,
    "negative length": POST + b"Content-Length: -16\r\n\r\n" + BODY,
    "length with plus": POST + b"Content-Length: +16\r\n\r\n" + BODY,
    "both framings": POST
    + b"Content-Length: 16\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n"
    + BODY
    + b"\r\n0\r\n\r\n",
    "chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY,
    "negative chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + BODY,
    "chunk without end": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabcdef",
    "chunks of http 1.0": POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n",
    "control characters": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_bytes_have_a_json_error_with_status_400(name):
    with listening(service_of(Fake())) as url:
        status, answer = exchange(url, MALFORMED[name])
        assert status == 400
        assert answer["error"].startswith("the request is not valid HTTP: ")
        assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 3_000_000, 431),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: x\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n", 501),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 30_000, 400),
        (POST + b"Content-Length: 3000000\r\n\r\n" + b" " * 3_000_000, 413),
        (b"FETCH /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
    ],
    ids=lambda value: str(value)[:40],
)
def test_other_requests_without_a_result_have_a_json_error(sent, status):
    with listening(service_of(Fake())) as url:
        assert exchange(url, sent)[0] == status


def test_malformed_bytes_have_a_line_in_the_log_and_a_metric(caplog):
    with listening(service_of(Fake())) as url, caplog.at_level("INFO", "regard.serving"):
        exchange(url, b"hello\r\n\r\n")
        exchange(url, MALFORMED["both framings"])
        assert 'regard_requests_total{route="unknown",status="400"} 2.0' in metrics(url)
    lines = [each.fields for each in caplog.records if each.getMessage() == "request"]
    assert [(each["status"], each["path"]) for each in lines[:2]] == [
        (400, None),
        (400, "/translate"),
    ]


def test_a_client_that_resets_after_malformed_bytes_has_no_traceback_in_the_log(caplog):
    with listening(service_of(Fake())) as url, caplog.at_level("ERROR"):
        for _ in range(20):
            with connected(url) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(b"hello\r\n\r\n")
        health(url)
    assert not [each for each in caplog.records if each.exc_info]


def test_the_request_before_malformed_bytes_is_answered():
    with listening(service_of(Fake())) as url, connected(url) as client:
        client.sendall(HEALTH + b"hello\r\n\r\n")
        first, second = received(client).split(b"HTTP/1.1 ")[1:]
        assert first.startswith(b"200")
        assert second.startswith(b"400")


def test_a_request_with_an_upgrade_or_an_expectation_is_answered():
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AA==\r\n\r\n"
    with listening(service_of(Fake())) as url:
        with connected(url) as client:
            client.sendall(HEALTH[:-2] + upgrade)
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        with connected(url) as client:
            client.sendall(POST + b"Content-Length: 16\r\nExpect: 100-continue\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 100")
            client.sendall(BODY)
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        assert exchange(url, HEALTH.replace(b"1.1", b"1.0")) == (200, {"status": "alive"})


SILENT = {
    "nothing": b"",
    "a part of the headers": HEALTH[:-2],
    "a blank line": b"\r\n",
    "a part of the body": REQUEST[:-1],
    "a request, then a part of one": HEALTH + HEALTH[:-2],
    "a request alone": HEALTH,
    "a body that is not read": POST.replace(b"translate", b"nowhere")
    + b"Content-Length: 9\r\n\r\n",
}


@pytest.mark.parametrize("name", SILENT)
def test_silent_connections_are_closed(name, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.4)
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.4)
    with listening(service_of(Fake(), seconds=0.4)) as url, connected(url) as client:
        client.sendall(SILENT[name])
        began = time.monotonic()
        response = received(client)
        assert time.monotonic() - began < 10
        if name in ("a part of the headers", "a part of the body"):
            status, answer = parsed(response)
            assert status == 408
            assert answer["error"].endswith("did not arrive within 0.4 s")


@pytest.mark.parametrize("sent", [HEALTH[:-2], REQUEST, HEALTH + b"POST"], ids=str)
def test_bytes_that_come_one_by_one_do_not_keep_a_connection_open(sent, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.4)
    with listening(service_of(Fake(), seconds=0.4)) as url, connected(url) as client:
        began = time.monotonic()
        with suppress(ConnectionError):
            for byte in sent * 3:
                client.sendall(byte.to_bytes())
                time.sleep(0.05)
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("number", [100, 200])
@pytest.mark.parametrize("sent", [b"", HEALTH[:-2], REQUEST[:-1]], ids=str)
def test_silent_connections_do_not_take_the_places_of_others(sent, number, monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 100)
    operation = Fake()
    with listening(service_of(operation)) as url, ExitStack() as clients:
        operation.open.clear()
        waiting = clients.enter_context(connected(url))
        waiting.sendall(REQUEST)
        while not operation.batches:
            time.sleep(0.01)
        for _ in range(number):
            client = clients.enter_context(connected(url))
            client.sendall(sent)
        assert health(url) < 1
        operation.open.set()
        assert waiting.recv(1000).startswith(b"HTTP/1.1 200"), "its place was not taken"


def test_a_connection_that_loses_its_place_has_a_json_error(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 64)
    with listening(service_of(Fake())) as url, ExitStack() as clients:
        first = clients.enter_context(connected(url))
        first.sendall(REQUEST[:-1])
        health(url)
        for _ in range(64):
            client = clients.enter_context(connected(url))
            client.sendall(REQUEST[:-1])
        status, answer = parsed(received(first))
        assert status == 503
        assert answer["error"].startswith("the service has more than 64 connections")
        assert 'route="/translate",status="503"' in metrics(url)


def test_requests_that_wait_for_the_model_leave_places_for_others(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 68)
    operation = Fake()
    operation.open.clear()
    with listening(service_of(operation)) as url, ExitStack() as clients:
        opened = [clients.enter_context(connected(url)) for _ in range(6)]
        for client in opened:
            client.sendall(REQUEST)
        waiting = set(opened)
        while len(waiting) > 4:  # the server may read the requests in another order
            ready = select.select(waiting, (), (), SECONDS)[0]
            assert ready
            assert {client.recv(1000).split()[1] for client in ready} == {b"429"}
            waiting -= set(ready)
        assert health(url) < 1
        operation.open.set()
        assert all(client.recv(1000).startswith(b"HTTP/1.1 200") for client in waiting)


@pytest.mark.parametrize("seconds", [0.0, 0.7])
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_client_that_closes_its_writing_side_gets_its_answer(seconds, version):
    with listening(service_of(Fake(seconds=seconds))) as url:
        status, answer = exchange(url, REQUEST.replace(b"1.1", version), ends=True)
        assert (status, answer["results"][0]["text"]) == (200, "a")


def test_all_requests_before_the_end_of_the_writing_side_are_answered():
    with listening(service_of(Fake(seconds=0.3))) as url, connected(url) as client:
        client.sendall(REQUEST * 3)
        client.shutdown(socket.SHUT_WR)
        responses = received(client).split(b"HTTP/1.1 ")[1:]
        assert [each[:3] for each in responses] == [b"200"] * 3


@pytest.mark.parametrize("sent", [HEALTH[:-2], REQUEST[:-2]], ids=len)
def test_a_request_that_ends_before_its_end_has_status_400(sent):
    with listening(service_of(Fake())) as url:
        status, answer = exchange(url, sent, ends=True)
        assert (status, answer["error"]) == (400, "the request ended before its end")


def test_a_client_that_has_closed_its_connection_is_noticed():
    operation = Fake()
    service = service_of(operation)
    with listening(service) as url:
        operation.open.clear()
        with connected(url) as client:
            client.sendall(REQUEST)
            while not operation.batches:
                time.sleep(0.01)
        deadline = time.monotonic() + SECONDS
        while 'status="499"' not in metrics(url):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        operation.open.set()


def test_clients_that_leave_at_once_have_turns(monkeypatch):
    waiting, work = [], connections.Connection._handle_end

    def handle_end(connection):
        waiting.append(len(connection._connections.turns(False)))
        work(connection)

    monkeypatch.setattr(connections.Connection, "_handle_end", handle_end)
    service = service_of(Fake())
    with listening(service) as url:
        with ExitStack() as clients:
            for _ in range(20):
                clients.enter_context(connected(url)).sendall(REQUEST[:-1])
            health(url)
            service.worker._loop.call_soon_threadsafe(time.sleep, 0.5)
        deadline = time.monotonic() + SECONDS
        while len(waiting) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert max(waiting) > 5, "one part of the work in each iteration"


class Large(Fake):
    """An operation with large results."""

    def run(self, items, settings):
        return [json.dumps({"text": text * 10_000_000}) for text in items]


def test_a_client_that_reads_slowly_gets_its_answer():
    with listening(service_of(Large(), seconds=2.0)) as url, connected(url) as client:
        client.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        size = 0
        while chunk := client.recv(200_000):
            size += len(chunk)
            time.sleep(0.06)
        assert size > 10_000_000


def test_a_client_that_does_not_read_is_disconnected():
    service = service_of(Large(), seconds=2.0)
    with listening(service) as url, connected(url) as client:
        client.sendall(REQUEST)
        deadline = time.monotonic() + SECONDS
        while not service.num_unread:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        while service.num_unread:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with suppress(ConnectionError):
            assert len(received(client)) < 10_000_000


def test_a_client_that_still_sends_its_body_receives_the_error(monkeypatch):
    monkeypatch.setattr(transport, "LINGER_SECONDS", 1.0)
    with listening(service_of(Fake())) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)
        with closing(connection):
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/translate", b" " * 20_000_000, headers)
            assert connection.getresponse().status == 413


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/runs/fake/translate", 200),
        (b"/runs/%66ake/translate", 200),
        (b"http://localhost/runs/fake/translate", 200),
        (b"http://evil.com/runs/fake/translate", 400),
        (b"/runs/fake%2ftranslate", 404),
        (b"/runs%2ffake/translate", 404),
        (b"/runs/..%2fruns/fake/translate", 404),
        (b"/runs/../runs/fake/translate", 404),
        (b"//runs/fake/translate", 404),
        (b"/runs//fake/translate", 404),
        (b"/runs/fake/translate/", 404),
        (b"/runs/fake/translate;a=b", 404),
        (b"/runs/fake/translate%00", 404),
        (b"/runs/fake/translate%", 400),
    ],
)
def test_a_path_has_one_spelling(target, status):
    with listening(service_of(Fake())) as url:
        sent = REQUEST.replace(b"/translate", target).replace(
            b"localhost\r\n", b"localhost\r\nConnection: close\r\n"
        )
        assert exchange(url, sent)[0] == status
