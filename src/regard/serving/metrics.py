"""Metrics of a service, in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from regard.serving.batches.worker import Batch

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
UNKNOWN_ROUTE = "unknown"
"""Route of requests for paths that the service does not have."""


class Metrics:
    """Counters, histograms and gauges of a service, and the memory and CPU time of its process."""

    def __init__(self, num_texts: Callable[[], float], held_bytes: Callable[[], float]) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "regard_requests", "Requests.", ("route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "regard_request_seconds",
            "Time from the first byte of a request to its response.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._batches = Histogram(
            "regard_batch_texts",
            "Texts of a batch.",
            ("run", "verb"),
            buckets=TEXTS,
            registry=self.registry,
        )
        self._batch_seconds = Histogram(
            "regard_batch_seconds",
            "Time of a batch.",
            ("run", "verb"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._tokens = Counter(
            "regard_source_tokens", "Source tokens.", ("run", "verb"), registry=self.registry
        )
        queue = Gauge(
            "regard_queue_texts", "Texts that are not answered yet.", registry=self.registry
        )
        queue.set_function(num_texts)
        held = Gauge(
            "regard_held_bytes", "Bytes of the bodies of open requests.", registry=self.registry
        )
        held.set_function(held_bytes)

    def add_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is the path of the API document, not of the request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def add_batch(self, batch: Batch) -> None:
        """Count a batch."""
        names = batch.run, batch.verb
        self._batches.labels(*names).observe(batch.num_texts)
        self._batch_seconds.labels(*names).observe(batch.seconds)
        self._tokens.labels(*names).inc(batch.num_tokens)

    def page(self) -> bytes:
        """Return all metrics."""
        return generate_latest(self.registry)
