"""Requests of verbs: from the body to the response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from regard.serving.access import RequestRecord
from regard.serving.api.errors import CLOSE, FAULT, RETRY, ClientGoneError, RequestError
from regard.serving.api.fields import read_fields, read_object, typed_values
from regard.serving.api.verbs import Settings, Verb
from regard.serving.batches.jobs import Job
from regard.serving.service import HeldBytes, ServedRun, Service


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
    content = f'{{"results": [{", ".join(results)}]}}'.encode()
    return Response(content, media_type="application/json")


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
    if fault := request.scope.get(FAULT):
        raise fault
    return bytes(body)


def _image(
    service: Service, run: ServedRun, verb: Verb, request: Request, body: bytes
) -> tuple[Sequence[Any], Settings]:
    """Return an image that is the body itself, and the settings of the query."""
    values = typed_values(request.query_params.multi_items())
    values = read_fields(verb.options(service.limits), values)
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
