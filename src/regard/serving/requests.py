"""Requests of verbs: from the body to the response."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.serving.access import RequestRecord
from regard.serving.api.errors import CLOSE, FAULT, RETRY, ClientGoneError, RequestError
from regard.serving.api.fields import read_fields, read_object, typed_values
from regard.serving.api.verbs import Settings, Verb
from regard.serving.batches.jobs import Job
from regard.serving.service import HeldBytes, ServedRun, Service

JSON = "application/json"
PART_BYTES = 1 << 16


async def answer(service: Service, run: ServedRun, verb: Verb, request: Request) -> Response:
    """Return the response with the results of a request. RequestError for an invalid request, and
    for results that do not come; ClientGoneError if the client closes the connection."""
    record: RequestRecord = request.scope["regard"]
    deadline = record.began + service.limits.seconds
    service.check_loaded()
    with service.held() as held:
        maximum = service.limits.image_bytes if verb.takes_images else service.limits.body_bytes
        is_image = _is_image(request, verb)
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                body = await _body(request, maximum, held)
        except TimeoutError as error:
            message = f"the body did not arrive within {service.limits.seconds:g} s"
            raise RequestError(408, message, CLOSE) from error
        except ClientDisconnect as error:
            raise ClientGoneError from error
        if is_image:
            items, settings = _image(service, run, verb, request, body)
        else:
            items, settings = verb.read(read_object(body), run.search, service.limits)
        del body
        job = Job(run.name, verb.name, items, settings, deadline, verb.items)
        record.num_texts = len(items)
        service.worker.submit(job)
        try:
            results = await _results(job, request, service.limits.seconds)
        finally:
            service.worker.cancel(job)
            if job.started is not None:
                record.queue_seconds = job.started - job.submitted
    return ResultsResponse(service, results)


class ResultsResponse(Response):
    """Response with results, which are sent one by one as the client reads them."""

    def __init__(self, service: Service, results: list[str]) -> None:
        self._service = service
        self._parts = _in_parts(results)
        self._size = sum(map(len, self._parts))
        super().__init__(None, headers={"Content-Length": str(self._size)}, media_type=JSON)
        service.num_unread += self._size

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while self._parts:
                part = self._parts.popleft()
                for first in range(0, len(part), PART_BYTES):
                    end = first + PART_BYTES
                    has_more = bool(self._parts) or end < len(part)
                    body = part[first:end]
                    await send({"type": "http.response.body", "body": body, "more_body": has_more})
        finally:
            self._service.num_unread -= self._size


def _in_parts(results: list[str]) -> deque[bytes]:
    """Return the body in parts of about `PART_BYTES`. The list of results becomes empty."""
    parts, part = deque[bytes](), bytearray(b'{"results": [')
    results.reverse()
    while results:
        part += results.pop().encode()
        part += b", " if results else b"]}"
        if len(part) > PART_BYTES:
            parts.append(bytes(part))
            part = bytearray()
    if part:
        parts.append(bytes(part))
    return parts


def _is_image(request: Request, verb: Verb) -> bool:
    """Return whether the body is an image. RequestError (415) for a body that is neither an image
    nor JSON."""
    content_type, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError(415, "the body is compressed: send it without Content-Encoding", CLOSE)
    if verb.takes_images and content_type.strip().startswith("image/"):
        return True
    charset = parameters.partition("charset=")[2].strip(' "')
    if content_type.strip() != "application/json" or charset not in ("", "utf-8", "utf8"):
        expected = "application/json" + ", or an image type" * verb.takes_images
        raise RequestError(415, f"the content type is not supported: expected {expected}", CLOSE)
    return False


async def _body(request: Request, maximum: int, held: HeldBytes) -> bytes:
    """Return the body. RequestError (413) if it has more than `maximum` bytes, and the fault of a
    body that is malformed or does not arrive."""
    problem = RequestError(413, f"the body has more than {maximum:,} bytes", CLOSE)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > maximum):
        raise problem
    body = bytearray()
    async for chunk in request.stream():
        held.add(len(chunk))
        body += chunk
        if len(body) > maximum:
            raise problem
    if FAULT in request.scope:
        raise request.scope.pop(FAULT)
    return bytes(body)


def _image(
    service: Service, run: ServedRun, verb: Verb, request: Request, body: bytes
) -> tuple[Sequence[Any], Settings]:
    """Return an image that is the body itself, and the settings of the query."""
    fields = verb.options(service.limits)
    values = read_fields(fields, typed_values(request.query_params.multi_items(), fields))
    return (body,), verb.settings(values, run.search)


async def _results(job: Job, request: Request, seconds: float) -> list[str]:
    """Wait for the results of a job, for the end of its time, or until the client is gone."""
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        waiting: set[asyncio.Future[Any]] = {job.future, gone}
        done, _ = await asyncio.wait(
            waiting,
            timeout=job.deadline - time.monotonic(),
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        gone.cancel()
    if job.future in done:
        return job.future.result()
    if gone in done:
        raise ClientGoneError
    raise RequestError(503, f"there is no result after {seconds:g} s: try again later", RETRY)


async def _disconnected(request: Request) -> None:
    """Return when the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
