"""Addresses of requests: the header Host and the path."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from regard.serving.api.errors import RequestError

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::([0-9]{0,5}))?", re.ASCII | re.IGNORECASE)
"""Header Host: an IPv6 address in brackets, or an IPv4 address or a name, and a port."""
MAX_PORT = 65_535
ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)
"""Target of a request to a proxy."""
WRONG_ESCAPE = re.compile(rb"%(?![0-9a-f]{2})", re.IGNORECASE)
ESCAPED_SLASH = re.compile(rb"%2f", re.IGNORECASE)


def take_authority(scope: Scope) -> list[str]:
    """Return the host of a target such as http://localhost:8000/health, and set the path to its
    path. Empty for any other target."""
    match = ABSOLUTE.fullmatch(scope.get("raw_path", b""))
    if match is None:
        return []
    authority, scope["raw_path"] = match[1], match[2] or b"/"
    path = unquote_to_bytes(scope["raw_path"]).decode(errors="replace")
    scope["path"] = scope.get("root_path", "") + path
    return [authority.decode("latin-1")]


def check_host(hosts: Sequence[str], names: Iterable[str]) -> None:
    """Raise a RequestError (400) unless each host is localhost, an IP address, or one of the
    names. So no page on the web can reach the service by a name that it resolves to this
    machine."""
    allowed = {"localhost", *(name.lower() for name in names)}
    if hosts and all(_is_allowed(host, allowed) for host in hosts):
        return
    raise RequestError(
        400,
        "the header Host is no name of this service: expected localhost, an IP address, or a name "
        "that the service was started with (--allowed-host NAME)",
    )


def _is_allowed(host: str, allowed: set[str]) -> bool:
    match = HOST.fullmatch(host)
    if match is None or int(match[2] or 0) > MAX_PORT:
        return False
    if match[1].startswith("["):
        return _is_address(match[1][1:-1], 6)
    name = match[1].lower().removesuffix(".")
    return name in allowed or _is_address(name, 4)


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def check_path(raw_path: bytes) -> None:
    """Raise a RequestError for a path that is not percent-encoded UTF-8 (400), and for a slash that
    is percent-encoded, which no path of the service has (404)."""
    try:
        unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        is_utf8 = False
    else:
        is_utf8 = True
    if not is_utf8 or WRONG_ESCAPE.search(raw_path):
        raise RequestError(400, "the path is not percent-encoded UTF-8")
    if ESCAPED_SLASH.search(raw_path):
        raise RequestError(404, "there is no such path: it has a slash as %2F")
