"""The server: a real process that is terminated, and requests of all kinds by schemathesis."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import closing, suppress
from urllib.parse import urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from regard.errors import UserError
from regard.serving.api.limits import Limits
from regard.serving.server import listen
from regard.serving.service import Service, served_runs
from tests.serving.http.test_connections import (
    REQUEST,
    connected,
    health,
    parsed,
    received,
)
from tests.serving.services import SECONDS, Fake, fake_run, listening, service_of
from tests.small_runs import RUNS

NUM_CLIENTS = 12


def post(url, body, seconds=SECONDS):
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=seconds) as response:
        return json.loads(response.read())


def num_accepted(url):
    """Return the number of texts that wait or are answered, where each request has one text."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=SECONDS) as response:
        lines = response.read().decode().splitlines()
    names = "regard_queue_texts ", 'regard_requests_total{route="/runs/transformer/translate"'
    return sum(float(line.split()[-1]) for line in lines if line.startswith(names))


@pytest.fixture
def process():
    """The command in a process of its own, with its address and the lines of its log. A thread
    reads the log, since a server whose log is not read waits."""
    command = ["serve", RUNS / "transformer", RUNS / "classifier", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "regard", *map(str, command), "--batch-texts", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("transformer, classifier at http://127.0.0.1:")
            url = line.split()[3]
            ready = json.loads(process.stderr.readline())
            assert (ready["event"], ready["runs"]) == ("ready", ["transformer", "classifier"])
            lines = []
            reader = threading.Thread(target=lambda: lines.extend(process.stderr))
            reader.start()
            yield process, url, lines, reader
        finally:
            process.kill()


def test_requests_that_wait_at_sigterm_are_answered_and_the_status_is_0(process):
    process, url, lines, reader = process
    host = urlsplit(url)
    path = "/runs/transformer/translate"
    body = {"texts": ["a b c d b b a"], "beam": 16, "max_length": 40}
    expected = post(url + path, body)
    sent, results, threads = threading.Semaphore(0), [], []

    def send():
        with closing(http.client.HTTPConnection(host.netloc, timeout=SECONDS)) as connection:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            sent.release()
            results.append(json.loads(connection.getresponse().read()))

    process.send_signal(signal.SIGSTOP)  # all requests are sent before the first is answered
    for _ in range(NUM_CLIENTS):
        threads.append(threading.Thread(target=send))
        threads[-1].start()
    assert all(sent.acquire(timeout=SECONDS) for _ in range(NUM_CLIENTS))
    process.send_signal(signal.SIGCONT)
    deadline = time.monotonic() + SECONDS
    while num_accepted(url) < 1 + NUM_CLIENTS:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    num_done = len(results)
    for thread in threads:
        thread.join(SECONDS)
    assert num_done < NUM_CLIENTS
    assert results == [expected] * NUM_CLIENTS
    assert process.wait(SECONDS) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host.hostname, host.port), 5)
    reader.join(SECONDS)
    events = [json.loads(line) for line in lines]
    names = [event["event"] for event in events]
    assert "shutting down" in names
    assert names[-1] == "shut down"
    assert all(event.get("status") in (200, None) for event in events)


def test_requests_that_are_not_done_in_time_have_status_503():
    operation = Fake()
    operation.open.clear()
    service = service_of(operation, drain=0.3)
    with listening(service) as url, connected(url) as partial, connected(url) as client:
        partial.sendall(REQUEST[:-1])
        health(url)
        client.sendall(REQUEST)
        while not operation.batches:
            time.sleep(0.01)
        service.end_server()
        for each in (client, partial):
            assert parsed(received(each)) == (503, {"error": "the service is shutting down"})
        operation.open.set()


@pytest.mark.parametrize(
    ("host", "words"),
    [("nowhere.invalid", "cannot listen at nowhere.invalid"), ("203.0.113.1", "")],
)
def test_an_address_of_no_interface_is_one_line(host, words):
    with pytest.raises(UserError, match="name another --host or --port") as caught:
        listen(host, 0).close()
    assert words in str(caught.value)


def test_a_port_in_use_is_one_line():
    refusal = pytest.raises(UserError, match="address already in use; name another")
    with listen("127.0.0.1", 0) as first, refusal:
        listen("127.0.0.1", first.getsockname()[1]).close()


def test_connections_are_reused_and_large_headers_are_rejected():
    with listening(service_of(Fake())) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)
        with closing(connection):
            for _ in range(3):
                connection.request("GET", "/health")
                assert json.loads(connection.getresponse().read()) == {"status": "alive"}
            status = 431
            with suppress(ConnectionError):  # the server may close the connection first
                connection.request("GET", "/health", headers={"X-Large": "x" * 2_000_000})
                status = connection.getresponse().status
            assert status == 431


@pytest.mark.parametrize("runs", [("plain",), ("classifier", "captioner")], ids=str)
def test_requests_of_schemathesis_have_the_responses_of_the_document(runs):
    service = Service(
        served_runs([RUNS / run for run in runs], "cpu"),
        Limits(texts=3, characters=20, beam=3, max_length=9),
    )
    with listening(service) as url:
        document = schemathesis.openapi.from_url(f"{url}/openapi.json")
        operations = [each.ok() for each in document.get_all_operations()]
        for operation in operations:
            if len(runs) > 1 or not operation.path.startswith("/runs/"):
                check_operation(operation)


OF_A_VALID_BODY = (" has a prefix ", "expected an image in base64", "cannot read the image")
"""Parts of the errors of bodies that schemathesis takes for valid: prefixes with unknown words or
more tokens than the maximum length, and texts that are no image."""


def check_operation(operation):
    strategy = operation.as_strategy() | operation.as_strategy(
        generation_mode=schemathesis.GenerationMode.NEGATIVE
    )

    @settings(
        max_examples=10,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def check(case):
        response = case.call(timeout=SECONDS)
        error = response.json()["error"] if response.status_code == 422 else ""
        is_possible = any(part in error for part in OF_A_VALID_BODY)
        names = ["positive_data_acceptance"] if is_possible else []
        excluded = schemathesis.checks.CHECKS.get_by_names(names)
        case.validate_response(response, excluded_checks=excluded)

    check()


def test_a_fake_run_is_served():
    with listening(Service([fake_run(Fake())])) as url:
        assert post(f"{url}/translate", {"texts": ["a"]})["results"][0]["text"] == "a"


def test_small_responses_are_sent_at_once():
    """asyncio sets TCP_NODELAY only for sockets with this protocol; else a response waits 40 ms."""
    with listen("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP
