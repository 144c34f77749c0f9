"""Errors of requests, each with the status of its response."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NOTHING: Mapping[str, str] = MappingProxyType({})
RETRY = MappingProxyType({"Retry-After": "1"})
"""Header of responses to requests that can succeed later."""
CLOSE = MappingProxyType({"Connection": "close"})
"""Header of responses before the whole request was received."""
FAULT = "fault"
"""Name in an ASGI scope of the RequestError of a request that is malformed or incomplete."""


class RequestError(Exception):
    """Request that has no result: the status of the response and one line for the client."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] = NOTHING) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class ClientGoneError(Exception):
    """The client closed the connection before its response."""
