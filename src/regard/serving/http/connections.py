"""Connections: the protocol of uvicorn, with bounds on their number and on the time of silence.

    first byte ------- headers ------- body ------------- result ------- response is read
    IDLE_SECONDS       Limits.seconds  Limits.seconds     (the worker)   Limits.seconds for each
    closed             408             408 (requests.py)                 READ_BYTES, then closed

A connection beyond the largest number takes the place of the oldest one that waits for its client.
A connection whose request is complete keeps its place.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from regard.serving.api.errors import CLOSE, FAULT, RETRY, RequestError
from regard.serving.http.parser import Parser
from regard.serving.http.transport import Transport
from regard.serving.http.turns import Turns

IDLE_SECONDS = 15
"""Time until a connection without a request is closed."""
MAX_LEAVING = 100
"""Largest number of connections that lost their places and still receive their response."""
READ_AT_A_TIME = 1 << 13
"""Largest number of bytes that are read from a connection before other connections are served."""


class Connections:
    """Open connections of a server, in the order of their last requests."""

    def __init__(self, maximum: int, seconds: float) -> None:
        """`seconds` is the time in which headers must arrive, and in which a part of a response
        must be read."""
        self.maximum = maximum
        self.seconds = seconds
        self.problem = ""
        """Reason why no request is received any more."""
        self._turns: tuple[Turns, Turns] | None = None
        self._open: dict[Connection, None] = {}
        self._leaving: dict[Connection, None] = {}
        """Connections that lost their places and still receive their response."""

    def turns(self, is_probe: bool) -> Turns:
        """Return the turns in which probes, or other requests, are read."""
        if self._turns is None:
            self._turns = Turns(), Turns()
        return self._turns[is_probe]

    @property
    def is_reading(self) -> bool:
        """Whether received bytes wait for their turn."""
        return any(map(len, self._turns or ()))

    def abort(self, message: str) -> None:
        """End all connections that wait for their client, now and later."""
        self.problem = message
        for connection in [each for each in self._open if each.waits_for_client]:
            connection.end(message)

    def add(self, connection: Connection) -> None:
        """Add a connection. If there are too many, end the oldest one that waits for its client."""
        self._open[connection] = None
        if len(self._open) > self.maximum:
            oldest = next(each for each in self._open if each.waits_for_client)
            del self._open[oldest]
            self._leaving[oldest] = None
            oldest.end(f"the service has more than {self.maximum:,} connections: try again later")
        if len(self._leaving) > MAX_LEAVING:
            first = next(iter(self._leaving))
            self.remove(first)
            first.transport.abort()

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self._open.pop(connection, None)
        self._leaving.pop(connection, None)

    def use(self, connection: Connection) -> None:
        """Make a connection the newest one."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)


class Connection(H11Protocol):
    """One connection."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connections = connections
        self.conn: Parser = Parser()
        self._has_ended = False
        """Whether the client sends no more."""
        self._has_failed = False
        self._is_queued = False
        """Whether received bytes wait for their turn."""
        self._timer: asyncio.TimerHandle | None = None
        """Timer of a request that has begun to arrive."""

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def waits_for_client(self) -> bool:
        """Whether the connection waits for a request, for a part of it, or for its response to be
        read."""
        return not self.is_answering or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place among the connections, and wait for a request."""
        transport.max_size = READ_AT_A_TIME  # type: ignore[attr-defined]
        self._patient = Transport(transport, self._connections.seconds, self._is_receiving)
        super().connection_made(cast(asyncio.Transport, self._patient))
        self._wait()
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the connections."""
        self._connections.remove(self)
        super().connection_lost(exc)
        self._stop_timer()
        self._unset_keepalive_if_required()
        self._patient.end()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request. What comes after a malformed request is discarded."""
        if not self._has_failed and not self.transport.is_closing():
            super().data_received(data)

    def handle_events(self) -> None:
        """Read the received bytes when it is the connection's turn. Probes have turns of their
        own."""
        if self._is_queued:
            return
        self._is_queued = True
        self._connections.turns(self.conn.is_probe).run(self._handle_events)
        if self._is_queued:
            self._patient.pause_reading()

    def _handle_events(self) -> None:
        self._is_queued = False
        if self._has_failed or self.transport.is_closing():
            return
        before = self.cycle
        super().handle_events()
        if not self.flow.read_paused:
            self._patient.resume_reading()
        self._after_events(before)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open for a response, though the client has closed its writing
        side."""
        self._has_ended = True
        self._connections.turns(False).run(self._handle_end)
        return True

    def _handle_end(self) -> None:
        """Answer a request that ends before its end, and close a connection without a request."""
        if self.transport.is_closing():
            return
        if self.is_answering and not self.cycle.more_body:
            self._patient.probe()
        elif not self._has_failed and self.conn.has_part:
            self._fail(RequestError(400, "the request ended before its end", CLOSE))
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request, or close the connection if no further one comes."""
        cycle = self.cycle
        super().on_response_complete()
        if not self._is_queued and not self.transport.is_closing():
            self._after_events(cycle)

    def send_400_response(self, msg: str) -> None:
        """Answer malformed bytes."""
        fault, self.conn.fault = self.conn.fault, None
        self._fail(fault or RequestError(400, msg, CLOSE))

    def end(self, message: str) -> None:
        """End the connection, with status 503 if a request has begun to arrive."""
        if self._has_failed or not (self.is_answering or self.conn.has_part):
            self.transport.abort()
            return
        self._fail(RequestError(503, message, {**RETRY, **CLOSE}))

    def _after_events(self, before: RequestResponseCycle | None) -> None:
        """Set the timers, after bytes were read; `before` is the last request before them. A
        connection whose client sends no more is closed after its last response."""
        if self.cycle is not before:
            self._connections.use(self)
            self._stop_timer()
        if self.transport.is_closing():
            return
        if self._connections.problem and self.waits_for_client:
            self.end(self._connections.problem)
            return
        if self.is_answering:
            if self._has_ended:
                self._patient.probe()
            return
        if self._has_ended:
            self.transport.close()
            return
        if not self.conn.has_part:
            self._stop_timer()
            self._wait()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._connections.seconds, self._end_waiting)

    def _wait(self) -> None:
        """Close the connection after some time without a byte."""
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                IDLE_SECONDS, self.timeout_keep_alive_handler
            )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_waiting(self) -> None:
        """End a connection whose request does not arrive in time."""
        self._timer = None
        if self.conn.their_state is not h11.IDLE:  # its body; the response is sent
            self.transport.close()
            return
        message = f"the headers did not arrive within {self._connections.seconds:g} s"
        self._fail(RequestError(408, message, CLOSE))

    def _is_receiving(self) -> bool:
        return not self._has_ended and (self._has_failed or self.conn.is_receiving)

    def _fail(self, error: RequestError) -> None:
        """Answer the present request, or the one that is arriving, with an error, and close the
        connection."""
        self._has_failed = True
        self._stop_timer()
        if self.is_answering:  # the body is malformed or late
            cast(dict[str, Any], self.cycle.scope)[FAULT] = error
            self.cycle.keep_alive = self.cycle.more_body = False
            self.cycle.message_event.set()
            return
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # answered already
            self.transport.close()
            return
        self._answer(error)

    def _answer(self, error: RequestError) -> None:
        """Send the response of an error as that of the application to a request."""
        self._unset_keepalive_if_required()
        request = self.conn.request
        scope: Any = {
            "type": "http",
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": request.method.decode() if request else None,
            "root_path": "",
            "path": request.target.decode().partition("?")[0] if request else None,
            "query_string": b"",
            "headers": list(request.headers) if request else [],
            "state": {},
            FAULT: error,
        }
        self.cycle = RequestResponseCycle(
            scope=scope,
            conn=self.conn,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=self.on_response_complete,
        )
        self.cycle.keep_alive = self.cycle.more_body = False
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
