"""Parser of requests: that of h11, and the checks that it leaves out."""

from __future__ import annotations

from typing import Any

import h11

from regard.serving.access import PROBES
from regard.serving.api.errors import CLOSE, RequestError

MAX_HEADER_BYTES = 1 << 16
MAX_HEADERS = 100
MAX_CHUNKS = 20_000
"""Largest number of chunks of a body, because each takes time of its own."""
VERSIONS = (b"1.0", b"1.1")
PROBE_LINES = tuple(f"GET {path}".encode() for path in PROBES)
"""Beginnings of requests for the health of the service."""


class Parser(h11.Connection):
    """Parser of one connection. `fault` is the reason why the last bytes are no request."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEADER_BYTES)
        self.fault: RequestError | None = None
        self.request: h11.Request | None = None
        """Present request, if its headers are well-formed."""
        self._num_chunks = 0

    def next_event(self) -> Any:
        """Return the next event, as h11 does. RemoteProtocolError for malformed bytes."""
        if self.their_state is h11.IDLE:
            self.request = None
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                self.request, self._num_chunks = event, 0
                _check(event)
            elif isinstance(event, h11.Data):
                self._num_chunks += event.chunk_start
                if self._num_chunks > MAX_CHUNKS:
                    raise h11.RemoteProtocolError(f"the body has more than {MAX_CHUNKS:,} chunks")
        except h11.RemoteProtocolError as error:
            self.fault = _fault(error)
            # its frames refer to it and to this connection, and would be freed late
            raise error.with_traceback(None) from None
        return event

    @property
    def is_probe(self) -> bool:
        """Whether the next request asks for the health of the service."""
        return self.their_state is h11.IDLE and self.trailing_data[0].startswith(PROBE_LINES)

    @property
    def has_part(self) -> bool:
        """Whether a request has begun to arrive and is incomplete."""
        if self.their_state is h11.IDLE:
            return bool(self.trailing_data[0])
        return self.their_state is h11.SEND_BODY

    @property
    def is_receiving(self) -> bool:
        """Whether the client may still be sending a request."""
        return self.has_part or self.their_state is h11.ERROR


def _check(request: h11.Request) -> None:
    """Raise a RemoteProtocolError for a request that h11 accepts, but whose end two programs could
    see at different places (RFC 9112, section 6.1), or which has too many headers."""
    if request.http_version not in VERSIONS:
        version = request.http_version.decode()
        raise h11.RemoteProtocolError(f"HTTP/{version}: expected HTTP/1.1", 505)
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names:
        if b"content-length" in names:
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        if request.http_version == b"1.0":
            raise h11.RemoteProtocolError("Transfer-Encoding in HTTP/1.0")
    if len(names) > MAX_HEADERS:
        raise h11.RemoteProtocolError(f"more than {MAX_HEADERS} headers", 431)


def _fault(error: h11.RemoteProtocolError) -> RequestError:
    reason = " ".join(str(error).split())[:200]
    if error.error_status_hint == 431 and "buffer" in reason:
        reason = f"the headers have more than {MAX_HEADER_BYTES:,} bytes"
    return RequestError(error.error_status_hint, f"the request is not valid HTTP: {reason}", CLOSE)
