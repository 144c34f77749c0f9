"""The outermost layer of the service: each request's identifier, log line, metrics and errors, and
the checks of Host and token."""

from __future__ import annotations

import hmac
import json
import re
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.api.errors import FAULT, NOTHING, ClientGoneError, RequestError
from regard.serving.http.addresses import check_host, check_path, take_authority
from regard.serving.logs import log_error, log_event
from regard.serving.metrics import UNKNOWN_ROUTE
from regard.serving.service import Access, Service

IDENTIFIER = re.compile(r"[\w.-]{1,64}", re.ASCII)
"""Identifiers of requests that are taken from the header X-Request-ID."""
PROBES = ("/health", "/ready")
"""Paths that a machine asks for each few seconds: requests are logged if the status changes."""
OPEN_PATHS = ("/", "/openapi.json", *PROBES)
"""Paths that need no token. A browser sends none with the address of a page."""
CLIENT_GONE = 499
"""Status in logs and metrics of a request whose client closed the connection."""
MAX_PATH = 200
"""Largest number of characters of a path in a log line."""
READ_BYTES = 1 << 16
"""Largest number of bytes of a request that are read before it is rejected."""
BUSY_MESSAGE = b'{"error": "too many connections wait to be read: try again later"}'
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
) % (len(BUSY_MESSAGE), BUSY_MESSAGE)
"""Response to a request that is not read."""


@dataclass
class RequestRecord:
    """Facts of a request for its log line. The layers below fill them in."""

    identifier: str
    began: float = field(default_factory=time.monotonic)
    route: str = UNKNOWN_ROUTE
    """Path as in the API document."""
    num_texts: int | None = None
    queue_seconds: float | None = None
    status: int = CLIENT_GONE
    has_started: bool = False
    """Whether the response has started."""


class RequestLayer:
    """ASGI application around another one."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._statuses: dict[str, int] = {}
        """Last status of each path in `PROBES`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and count and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        identifier = headers.get("x-request-id", "")
        if not IDENTIFIER.fullmatch(identifier):
            identifier = uuid.uuid4().hex
        record = scope["regard"] = RequestRecord(identifier)
        scope["app"] = self  # so that the router raises a HTTPException for a wrong method

        async def send_response(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status, record.has_started = message["status"], True
                MutableHeaders(scope=message)["X-Request-ID"] = identifier
            await send(message)

        try:
            if FAULT in scope:
                raise scope.pop(FAULT)
            hosts = [*take_authority(scope), *headers.getlist("host")]
            check_host(hosts, self._service.access.hosts)
            check_path(scope.get("raw_path", b""))
            if scope["path"] not in OPEN_PATHS:
                check_token(headers.get("authorization", ""), self._service.access)
            await self._app(scope, receive, send_response)
        except RequestError as error:
            response = error_response(error.status, str(error), error.headers)
            await response(scope, receive, send_response)
        except HTTPException as error:
            message = f"{error.detail.lower()}: expected {(error.headers or NOTHING).get('Allow')}"
            response = error_response(error.status_code, message, error.headers or NOTHING)
            await response(scope, receive, send_response)
        except ClientGoneError:
            pass
        except Exception as error:  # noqa: BLE001 - logged, and status 500
            log_error(error, id=identifier)
            if not record.has_started:
                await error_response(500, "internal error")(scope, receive, send_response)
        finally:
            self._log(record, scope)

    def reject(self, client: socket.socket) -> None:
        """Answer a connection whose request is not read, because too many others wait, and close
        it."""
        try:
            address = client.getpeername()
            client.recv(READ_BYTES)  # a client that has sent all receives the response
            client.send(BUSY)
        except OSError:  # the client is gone
            address = None
        client.close()
        scope = {"client": address, "method": None, "path": None}
        self._log(RequestRecord(uuid.uuid4().hex, status=503), scope)

    def _log(self, record: RequestRecord, scope: Mapping[str, Any]) -> None:
        seconds = time.monotonic() - record.began
        self._service.metrics.add_request(record.route, record.status, seconds)
        if record.route in PROBES:
            last, self._statuses[record.route] = self._statuses.get(record.route), record.status
            if record.status == last:
                return
        client = scope.get("client")
        facts = {
            "id": record.identifier,
            "client": client[0] if client else None,
            "method": scope["method"],
            "path": scope["path"] and scope["path"][:MAX_PATH],
            "status": record.status,
            "seconds": round(seconds, 4),
        }
        if record.num_texts is not None:
            facts["texts"] = record.num_texts
        if record.queue_seconds is not None:
            facts["queue_seconds"] = round(record.queue_seconds, 4)
        log_event("request", **facts)


def error_response(status: int, message: str, headers: Mapping[str, str] = NOTHING) -> Response:
    """Return the response of an error: a JSON object with the message."""
    content = json.dumps({"error": message}).encode()
    return Response(content, status, dict(headers), "application/json")


def check_token(authorization: str, access: Access) -> None:
    """Raise a RequestError (401) unless the header has the token of the service. The comparison
    takes the same time for all tokens of one length."""
    if access.token is None:
        return
    scheme, _, token = authorization.partition(" ")
    expected = access.token.encode()
    is_equal = hmac.compare_digest(token.strip().encode("latin-1", "replace"), expected)
    if scheme.lower() != "bearer" or not is_equal:
        raise RequestError(
            401,
            "the header Authorization has no valid token: expected Bearer TOKEN",
            {"WWW-Authenticate": "Bearer"},
        )
