"""The ASGI application of a service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serving.access import RequestLayer, RequestRecord
from regard.serving.api.errors import RETRY, RequestError
from regard.serving.api.verbs import VERBS, Verb
from regard.serving.metrics import CONTENT_TYPE
from regard.serving.openapi import document_of
from regard.serving.page import page_of
from regard.serving.requests import answer
from regard.serving.service import ServedRun, Service

CLOSE_SECONDS = 5.0
"""Time in which the worker ends after the last response."""
MAX_PATHS = 3
"""Largest number of paths in a message."""
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}
Endpoint = Callable[[Request], Awaitable[Response]]


def build_app(service: Service, *, waits_for_models: bool = False) -> RequestLayer:
    """Return the application. Its lifespan starts and ends the worker of the service. If
    `waits_for_models` is true, the lifespan starts when the models are loaded, and fails if they
    cannot be loaded."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        service.worker.start()
        if waits_for_models:
            await service.loaded.wait()
            if service.worker.error is not None:
                raise service.worker.error
        yield
        service.worker.close(CLOSE_SECONDS)

    document = document_of(service)
    paths = {
        "/": _page(document),
        "/openapi.json": _constant(_json(document)),
        "/runs": _constant(_json(_runs(service))),
        "/health": _constant(_json({"status": "alive"})),
        "/ready": _ready(service),
        "/metrics": _metrics(service),
    }
    routes = [Route(path, _routed(path, endpoint)) for path, endpoint in paths.items()]
    routes.append(Route("/runs/{run}/{verb}", _verb_of_run(service), methods=["POST"]))
    if len(service.runs) == 1:
        (run,) = service.runs.values()
        for verb in run.verbs:
            endpoint = _routed(f"/{verb.name}", _verb(service, run, verb))
            routes.append(Route(f"/{verb.name}", endpoint, methods=["POST"]))
    router = Router(routes, redirect_slashes=False, default=_not_found(service), lifespan=lifespan)
    return RequestLayer(router, service)


def _routed(path: str, endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that records its path for metrics."""

    async def routed(request: Request) -> Response:
        record: RequestRecord = request.scope["regard"]
        record.route = path
        return await endpoint(request)

    return routed


def _constant(response: Response) -> Endpoint:
    async def constant(_: Request) -> Response:
        return response

    return constant


def _page(document: Mapping[str, Any]) -> Endpoint:
    async def page(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        return HTMLResponse(page_of(document, address), headers=PAGE_HEADERS)

    return page


def _ready(service: Service) -> Endpoint:
    async def ready(_: Request) -> Response:
        if service.problem:
            raise RequestError(503, service.problem, RETRY)
        return _json({"status": "ready"})

    return ready


def _metrics(service: Service) -> Endpoint:
    async def metrics(_: Request) -> Response:
        return Response(service.metrics.page(), media_type=CONTENT_TYPE)

    return metrics


def _verb(service: Service, run: ServedRun, verb: Verb) -> Endpoint:
    async def respond(request: Request) -> Response:
        return await answer(service, run, verb, request)

    return respond


def _verb_of_run(service: Service) -> Endpoint:
    async def respond(request: Request) -> Response:
        run = service.runs.get(request.path_params["run"])
        verb = VERBS.get(request.path_params["verb"])
        if run is None or verb not in run.verbs:
            raise RequestError(404, "there is no such run or verb: GET /runs lists them")
        path = path_of(run, verb)
        return await _routed(path, _verb(service, run, verb))(request)

    return respond


def path_of(run: ServedRun, verb: Verb) -> str:
    """Return the path of a verb of a run."""
    return f"/runs/{quote(run.name, safe='')}/{verb.name}"


def _runs(service: Service) -> dict[str, Any]:
    return {
        "runs": [
            {"name": run.name, "paths": [path_of(run, verb) for verb in run.verbs]}
            for run in service.runs.values()
        ]
    }


def _json(value: Any) -> Response:
    return Response(json.dumps(value), media_type="application/json")


def _not_found(service: Service) -> ASGIApp:
    """Return the application of unknown paths. To a path of a verb without a run, it names the
    paths of the verb, of which there are several."""

    async def not_found(scope: Scope, _receive: Receive, _send: Send) -> None:
        verb = VERBS.get(scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/"))
        paths = [path_of(run, verb) for run in service.runs.values() if verb in run.verbs]
        if len(service.runs) == 1 or verb is None or not paths:
            raise RequestError(404, "there is no such path: GET /openapi.json lists the paths")
        more = ", or another path of GET /runs" if len(paths) > MAX_PATHS else ""
        shown = " or ".join(paths[:MAX_PATHS])
        raise RequestError(404, f"several runs are served: expected {shown}{more}")

    return not_found
