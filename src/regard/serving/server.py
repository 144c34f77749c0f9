"""Server of a service: uvicorn on a socket, with a shutdown that finishes accepted requests."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import uvicorn

from regard.errors import UserError
from regard.serving.app import build_app
from regard.serving.http.arrivals import Arrivals
from regard.serving.http.connections import IDLE_SECONDS, Connection, Connections
from regard.serving.logs import log_event
from regard.serving.service import Service

MAX_CONNECTIONS = 1000
"""Largest number of open connections. A further one takes the place of one that waits for its
client."""
SPARE_CONNECTIONS = 64
"""Connections that cannot wait for results, so that a machine can always ask for the health."""
OTHER_FILES = 300
"""Open files of the process besides its connections."""
MAX_ARRIVALS = 2000
"""Largest number of connections that have sent nothing yet, and of those whose first request waits
to be read."""
BACKLOG = 4096
"""Largest number of connections that wait to be accepted."""
SEND_BYTES = 1 << 18
"""Bytes of a response that the system holds for a client."""
SPARE_SECONDS = 2
"""Time after `Limits.drain` in which the responses with status 503 are sent."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at a host and a port; port 0 is a free port. Connections wait
    until the server starts. UserError if the address is not one of this machine, or if another
    program has the port."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sends small packets at once (TCP_NODELAY) only if the protocol is named
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
            bound.bind(address)
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"cannot listen at {host} port {port}: {reason.lower()}; name another --host or --port"
        ) from error
    return bound


def url_of(bound: socket.socket) -> str:
    """Return the address of a socket for a client."""
    host, port, *_ = bound.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(service: Service, bound: socket.socket) -> bool:
    """Serve until SIGTERM or Ctrl-C; then finish the accepted requests. Return whether the worker
    has ended too. The error of a model that cannot be loaded is raised."""
    limits = service.limits
    max_connections, max_arrivals = _max_open()
    connections = Connections(max_connections, limits.seconds)
    service.worker.max_jobs = max(1, connections.maximum - SPARE_CONNECTIONS)
    protocol: Any = partial(Connection, connections)
    app = build_app(service)
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
    )
    server = _Server(config, service, connections, max_arrivals, app.reject)
    server.run([bound])
    if service.worker.error is not None:
        raise service.worker.error
    return service.worker.close(0.0)


def _max_open() -> tuple[int, int]:
    """Return the largest number of connections, and of arrivals of each kind. The limit of the
    system for open files is raised as far as this process may."""
    try:
        import resource
    except ImportError:  # a system without POSIX
        return MAX_CONNECTIONS, MAX_ARRIVALS
    wanted = MAX_CONNECTIONS + 2 * MAX_ARRIVALS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS, MAX_ARRIVALS
    files = max(4 * SPARE_CONNECTIONS, soft - OTHER_FILES)
    connections = min(MAX_CONNECTIONS, files // 2)
    return connections, min(MAX_ARRIVALS, (files - connections) // 2)


class _Server(uvicorn.Server):
    """uvicorn's server. The process exits with status 0 after a signal, and open requests are
    answered before."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        connections: Connections,
        max_arrivals: int,
        reject: Callable[[socket.socket], None],
    ) -> None:
        super().__init__(config)
        self._service = service
        self._connections = connections
        self._max_arrivals = max_arrivals
        self._reject = reject
        self._arrivals: list[Arrivals] = []
        service.end_server = self.end

    def end(self) -> None:
        """End the server as a signal does."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT until the block ends. uvicorn would raise them again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = signal.SIGTERM, signal.SIGINT
        handlers = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup([])
        for bound in sockets or []:
            bound.setblocking(False)
            arrivals = Arrivals(
                bound, self._max_arrivals, float(IDLE_SECONDS), self._connect, self._reject
            )
            arrivals.start()
            self._arrivals.append(arrivals)

    async def _connect(self, client: socket.socket) -> None:
        """Open a connection."""
        await asyncio.get_running_loop().connect_accepted_socket(self._connection, client)

    def _connection(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        return cast(
            asyncio.Protocol,
            protocol(
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            ),
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the socket, and wait until all accepted requests are answered, at most for the time
        `Limits.drain`. Then all others have status 503."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._service.limits.drain
        self._service.stop()
        timer = loop.call_at(end, self._abort)
        for arrivals in self._arrivals:
            await arrivals.close(end)
        while self._connections.is_reading and loop.time() < end:
            await asyncio.sleep(0.001)
        log_event("shutting down", open_texts=self._service.worker.num_texts)
        seconds = max(0, math.ceil(end - loop.time())) + SPARE_SECONDS
        self.config.timeout_graceful_shutdown = seconds
        await super().shutdown(sockets)
        timer.cancel()
        log_event("shut down")

    def _abort(self) -> None:
        """Answer all open requests, and those that are still received, with status 503."""
        self._service.abort()
        self._connections.abort(self._service.problem)
