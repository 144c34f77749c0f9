"""The service on a local Ray cluster of two workers, each with one core and one replica."""

import json
import logging
import os
import socket
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import ray
from ray import serve

from regard.cluster import deployment as ray_deployment
from regard.errors import UserError
from regard.pipeline.load import load
from regard.serving.api.limits import Limits
from regard.serving.service import Access
from tests.small_runs import RUNS

ROOT = Path(__file__).parents[2]
SECONDS = 120
TOKEN = {"Authorization": "Bearer secret", "Content-Type": "application/json"}


@pytest.fixture
def url(monkeypatch):
    """The address of Ray Serve on a local cluster. Nothing of it is left after the test."""
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    # Replicas unpickle functions with checks of shapes, which are part of the tests.
    paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    for name in ("READY_CHECK", "HEALTH_CHECK"):  # the machine of the tests may be busy
        monkeypatch.setenv(f"RAY_SERVE_PROXY_{name}_TIMEOUT_S", "200")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        http_options = {"host": "127.0.0.1", "port": port}
        with suppress(TimeoutError):  # the proxy may start later
            serve.start(http_options=http_options, logging_config={"log_level": "ERROR"})
        yield f"http://127.0.0.1:{port}"
        serve.shutdown()
    finally:
        ray.shutdown()


def send(url, body=None, headers=TOKEN):
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        return response.read().decode()


def wait_for(url):
    """Wait until the proxy of Ray Serve accepts connections."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with suppress(urllib.error.URLError):
            return send(f"{url}/-/healthz")
        time.sleep(0.1)


def num_translated(url):
    """Return the number of requests to translate of the replica that answers."""
    lines = send(f"{url}/metrics").splitlines()
    counts = [line for line in lines if line.startswith('regard_requests_total{route="/translate"')]
    return sum(float(line.split()[-1]) for line in counts)


def test_two_replicas_answer_as_the_model(url):
    deployment = ray_deployment.deployment(
        [RUNS / "transformer"],
        Limits(texts=5),
        Access("secret"),
        num_replicas=2,
        ray_actor_options={"num_cpus": 1},
    )
    serve.run(deployment, name="regard", route_prefix="/")
    wait_for(url)
    assert json.loads(send(f"{url}/ready", headers={})) == {"status": "ready"}
    texts = ["a b", "d c a b", "", "b"]
    expected = [each.text for each in load(RUNS / "transformer").translate(texts)]
    for _ in range(9):  # an odd number, so two replicas answer different numbers of requests
        results = json.loads(send(f"{url}/translate", {"texts": texts}))["results"]
        assert [result["text"] for result in results] == expected
    counts = {num_translated(url) for _ in range(20)}
    assert (len(counts), sum(counts)) == (2, 9)
    for body, headers, status in [
        ({"texts": texts * 2}, TOKEN, 422),
        ({"texts": texts}, {}, 401),
    ]:
        with pytest.raises(urllib.error.HTTPError) as caught:
            send(f"{url}/translate", body, headers)
        assert caught.value.code == status


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no runs: expected runs=FOLDER"),
        ({"run": "a"}, "unknown setting 'run': expected runs, replicas"),
        ({"runs": "nowhere"}, "nowhere is not a run"),
        ({"runs": str(RUNS / "plain"), "replicas": "two"}, "must be numbers"),
    ],
)
def test_wrong_settings_are_one_line(settings, message):
    with pytest.raises(UserError, match=message):
        ray_deployment.application(settings)


def test_settings_are_those_of_the_deployment():
    settings = {"runs": str(RUNS / "plain"), "replicas": "3", "cpus": "0.5"}
    application = ray_deployment.application(settings)
    deployment = application._bound_deployment
    assert deployment.num_replicas == 3
    assert deployment.ray_actor_options == {"num_cpus": 0.5, "num_gpus": 0.0}
    assert deployment.max_ongoing_requests == Limits().queue + ray_deployment.WAITING
