"""Statuses of requests that have no results, and the headers and log of each request."""

import asyncio
import json
import shlex
from html import unescape

import pytest

from regard.errors import UserError
from regard.serving import logs
from regard.serving.api.limits import Limits
from regard.serving.app import build_app
from regard.serving.openapi import document_of
from regard.serving.service import Access, Service
from tests.messages import raises
from tests.serving.services import (
    JSON,
    Fake,
    call,
    fake_run,
    request,
    requests,
    running,
    service_of,
    until,
)

BODY = {"texts": ["a"]}


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "expected application/json"),
        ({"content-type": "text/plain"}, "expected application/json"),
        ({"content-type": "image/png"}, "expected application/json"),
        ({"content-type": "application/json; charset=utf-16"}, "expected application/json"),
        ({**JSON, "content-encoding": "gzip"}, "send it without Content-Encoding"),
    ],
)
def test_another_content_type_has_status_415(headers, message):
    answer = request(service_of(Fake()), "/translate", BODY, headers=headers)
    assert answer.status == 415
    assert answer.error.endswith(message)


def test_content_types_of_json():
    for kind in (
        "application/json; charset=UTF-8",
        "Application/JSON",
        'application/json; charset="utf-8"',
    ):
        answer = request(service_of(Fake()), "/translate", BODY, headers={"content-type": kind})
        assert answer.status == 200


def test_a_body_beyond_the_bound_has_status_413_before_it_is_received():
    service = service_of(Fake(), body_bytes=20)
    for headers in ({**JSON, "content-length": "21"}, {**JSON, "content-length": "9" * 30}):

        async def receive():
            raise AssertionError("the body is received")

        answer = request(service, "/translate", headers=headers, receive=receive)
        assert (answer.status, answer.error) == (413, "the body has more than 20 bytes")
        assert answer.headers["connection"] == "close"
        service = service_of(Fake(), body_bytes=20)
    sizes = []

    async def chunks():
        sizes.append(6)
        return {"type": "http.request", "body": b" " * 6, "more_body": True}

    answer = request(service, "/translate", receive=chunks)
    assert answer.status == 413
    assert sum(sizes) == 24
    assert service.held_bytes == 0


def test_bodies_of_all_requests_together_have_a_bound():
    async def run():
        operation = Fake()
        operation.open.clear()
        service = service_of(operation, body_bytes=30, image_bytes=30, held_bytes=45)
        async with running(service) as app:
            first = asyncio.ensure_future(call(app, "/translate", {"texts": ["a" * 15]}))
            await until(lambda: operation.batches)
            held = service.held_bytes
            second = await call(app, "/translate", {"texts": ["a" * 15]})
            operation.open.set()
            await first
            return held, second, service.held_bytes

    held, second, after = asyncio.run(run())
    assert (held, after) == (30, 0)
    assert second.status == 429


def test_a_slow_body_has_status_408():
    messages = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive():
        if messages:
            return messages.pop()
        await asyncio.sleep(10)

    answer = request(service_of(Fake(), seconds=0.1), "/translate", receive=receive)
    assert (answer.status, answer.error) == (408, "the body did not arrive within 0.1 s")


def test_a_client_that_is_gone_before_its_body_has_no_response():
    async def receive():
        return {"type": "http.disconnect"}

    service = service_of(Fake())
    assert request(service, "/translate", receive=receive).status == 499
    assert (service.held_bytes, service.worker.num_texts) == (0, 0)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/health/", 404),
        ("POST", "/classify", 404),
        ("POST", "/runs/fake/classify", 404),
        ("POST", "/runs/nobody/translate", 404),
        ("GET", "/translate", 405),
        ("GET", "/runs/fake/translate", 405),
        ("POST", "/health", 405),
        ("TRACE", "/translate", 405),
        ("OPTIONS", "/translate", 405),
    ],
)
def test_unknown_paths_and_methods(method, path, status):
    answer = request(service_of(Fake()), path, BODY, method=method)
    assert answer.status == status
    assert "\n" not in answer.error
    if status == 405:
        assert answer.headers["allow"]


def test_several_runs_have_paths_with_their_names():
    service = service_of(Fake(), Fake())
    answer = request(service, "/translate", BODY)
    assert answer.status == 404
    assert answer.error.endswith("expected /runs/fake/translate or /runs/second/translate")
    answer = request(service_of(Fake(), Fake()), "/caption", BODY)
    assert (answer.status, "GET /openapi.json" in answer.error) == (404, True)
    answer = request(service_of(Fake(), Fake()), "/runs", method="GET")
    assert answer.json["runs"][1] == {"name": "second", "paths": ["/runs/second/translate"]}


def test_names_of_runs_may_have_any_character():
    name = "training.seed=1,50% {a}?"
    service = Service([fake_run(Fake(), name)])
    assert "/runs/training.seed%3D1%2C50%25%20%7Ba%7D%3F/translate" in document_of(service)["paths"]
    assert request(service, f"/runs/{name}/translate", BODY).status == 200


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("", 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        ("Basic secret", 401),
        ("Bearer sécret", 401),
        ("Bearer secret", 200),
        ("bearer  secret", 200),
    ],
)
def test_a_token(header, status):
    service = Service([fake_run(Fake())], access=Access("secret"))
    headers = {**JSON, "authorization": header}
    answer = request(service, "/translate", BODY, headers=headers)
    assert answer.status == status
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs", 401),
        ("/metrics", 401),
        ("/nowhere", 401),
        ("/", 200),
        ("/openapi.json", 200),
        ("/health", 200),
        ("/ready", 200),
    ],
)
def test_only_the_document_and_the_readiness_need_no_token(path, status):
    service = Service([fake_run(Fake())], access=Access("secret"))
    operation = document_of(service)["paths"].get(path, {}).get("get", {})
    assert request(service, path, method="GET").status == status
    assert ("security" in operation) == (status == 200)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:80", 200),
        ("[::1]:8000", 200),
        ("models.example", 200),
        ("Models.Example.:443", 200),
        ("attacker.example", 400),
        ("models.example.attacker", 400),
        ("127.0.0.1.attacker", 400),
        ("", 400),
        ("[::1", 400),
    ],
)
def test_the_header_host_names_this_service(host, status):
    service = Service([fake_run(Fake())], access=Access(hosts=("models.example",)))
    answer = request(service, "/health", method="GET", headers={"host": host})
    assert answer.status == status
    assert status == 200 or "--allowed-host NAME" in answer.error


def test_each_response_has_the_identifier_of_its_request():
    answers = [
        request(service_of(Fake()), path, BODY, headers={**JSON, "x-request-id": identifier})
        for path, identifier in [
            ("/translate", "a-1.b"),
            ("/nowhere", "c_2"),
            ("/translate", "é\n"),
        ]
    ]
    assert [answer.headers["x-request-id"] for answer in answers[:2]] == ["a-1.b", "c_2"]
    assert len(answers[2].headers["x-request-id"]) == 32


def test_a_log_line_has_facts_of_the_request_without_its_texts(caplog):
    caplog.set_level("INFO", "regard.serving")
    request(service_of(Fake()), "/translate", {"texts": ["very private", "b"]})
    formatter = logs.JsonFormatter()
    lines = [json.loads(formatter.format(record)) for record in caplog.records]
    (line,) = [line for line in lines if line["event"] == "request"]
    assert {name: line[name] for name in ("method", "path", "status", "texts", "level")} == {
        "method": "POST",
        "path": "/translate",
        "status": 200,
        "texts": 2,
        "level": "info",
    }
    assert line["time"].endswith("Z")
    assert 0 <= line["queue_seconds"] <= line["seconds"]
    assert "private" not in str(lines)


def test_probes_are_logged_when_their_status_changes(caplog):
    caplog.set_level("INFO", "regard.serving")

    async def run():
        service = service_of(Fake())
        async with running(service) as app:
            for _ in range(3):
                await call(app, "/ready", method="GET")
                await call(app, "/health", method="GET")
                await call(app, "/runs", method="GET")
            service.stop()
            for _ in range(3):
                await call(app, "/ready", method="GET")
        return service.metrics.page().decode()

    metrics = asyncio.run(run())
    fields = [getattr(record, logs.FIELDS) for record in caplog.records]
    lines = [(line["path"], line["status"]) for line in fields if "path" in line]
    assert lines == [("/ready", 200), ("/health", 200), *[("/runs", 200)] * 3, ("/ready", 503)]
    counts = [line for line in metrics.splitlines() if '"/ready"' in line and '"503"' in line]
    assert any(line.endswith("} 3.0") for line in counts)


def test_an_unexpected_error_has_status_500_and_its_traceback_in_the_log(caplog):
    answer = request(service_of(Fake()), "/translate", {"texts": ["bad"]})
    assert (answer.status, answer.error) == (500, "internal error")
    (record,) = [record for record in caplog.records if record.exc_info]
    line = logs.JsonFormatter().format(record)
    assert "\n" not in line
    assert "KeyError: 'a fault of the model'" in json.loads(line)["traceback"]


def test_the_page_has_every_path_and_loads_nothing():
    answer = request(service_of(Fake()), "/", method="GET")
    text = answer.body.decode()
    for path in ("/runs/fake/translate", "/translate", "/health", "/ready", "/metrics"):
        assert f" {path}</h2>" in text
    assert "http://" not in text.replace("http://localhost:8000/", "")
    assert "https://" not in text
    assert "<script" not in text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def page(host, access=None):
    service = Service([fake_run(Fake())], access=access)
    return request(service, "/", method="GET", headers={"host": host}).body.decode()


def test_commands_of_the_page_have_the_address_of_the_client():
    access = Access("secret", ("models.example",))
    for host in ("localhost:8123", "[::1]:8000", "models.example"):
        line = unescape(page(host, access)).partition("<pre>")[2].partition("</pre>")[0]
        words = shlex.split(line)
        assert words[0] == "curl"
        assert "Authorization: Bearer TOKEN" in words
        assert words[-1] == f"http://{host}/translate"
    text = page("localhost")
    assert "Bearer" not in text
    assert "needs no token" not in text
    assert "evil" not in page("localhost:8000/<evil>")


def test_the_page_has_one_table_of_errors():
    text = page("localhost", Access("secret"))
    assert text.count("The queue is full.") == 1
    assert text.count("It needs no token.") == 4
    assert "Status 200: One result for each of the texts. Errors: 400, 401, 404," in text


def test_limits_that_contradict_each_other_are_one_line():
    with raises(UserError):
        Limits(queue=2, texts=3)
    with pytest.raises(UserError, match="lower the first, or raise the second"):
        Limits(held_bytes=5)
    with raises(UserError):
        Limits(window=2000.0)


def test_the_order_of_results_is_that_of_the_request():
    bodies = [{"texts": [f"{'x' * (n * k % 7)}{k}" for k in range(5)]} for n in range(9)]
    for body, answer in zip(bodies, requests(service_of(Fake()), *bodies), strict=True):
        assert [result["text"] for result in answer.results] == body["texts"]


def test_an_application_without_a_lifespan_is_alive():
    app = build_app(service_of(Fake()))
    assert asyncio.run(call(app, "/health", method="GET")).json == {"status": "alive"}
