"""The document of the API, in OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from regard.serving.api.fields import Field, Schema
from regard.serving.api.verbs import Verb
from regard.serving.service import ServedRun, Service
from regard.version import VERSION

ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "One line: what to correct."}},
    "required": ["error"],
    "additionalProperties": False,
}
UNREAD = {
    "type": "object",
    "description": "Result of a text that does not have the form of the training sources, that "
    "needs too much memory, or whose output cannot begin with the prefix. If no text has another "
    "result, the status is 422.",
    "properties": {"error": {"type": "string", "description": "One line: what to correct."}},
    "required": ["error"],
    "additionalProperties": False,
}
SEQUENCE = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "pieces": {"type": "array", "items": {"type": "string"}},
        "words": {"type": "array", "items": {"type": "integer"}},
        "language": {"type": ["string", "null"]},
        "texts": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["text", "pieces", "words", "language"],
}
TRACE = {
    "type": "object",
    "description": "What an output attended to, as in a file of `regard translate --trace`. The "
    "weights of each kind of attention have the axes layer, head, target and source.",
    "properties": {
        "format": {"const": 1},
        "source": {"$ref": "#/components/schemas/Sequence"},
        "target": {"$ref": "#/components/schemas/Sequence"},
        "attention": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "kind": {"type": "string"},
                    "weights": {"type": "array"},
                    "scores": {"type": ["array", "null"]},
                },
                "required": ["kind", "weights", "scores"],
            },
        },
        "steps": {"type": "array", "items": {"type": "object"}},
        "score": {"type": ["number", "null"]},
        "lattice": {"type": ["object", "null"]},
        "is_cut": {"type": "boolean"},
    },
    "required": ["format", "source", "target", "attention", "steps", "score", "lattice", "is_cut"],
}
ERRORS = {
    400: "The request or its body is malformed, or the header Host is not a name of this service.",
    401: "The token is missing or wrong.",
    404: "There is no such path.",
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    415: "The content type is not supported.",
    422: "A field is unknown, missing or outside its range, no text can be read, or no output can "
    "begin with the prefix.",
    429: "The queue is full. Retry-After has a number of seconds.",
    500: "The service or a model failed; its log has the reason.",
    503: "The service is not ready, is shutting down, or did not answer in time.",
}
STATUS = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
RUNS = {
    "type": "object",
    "properties": {
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "paths": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["name", "paths"],
            },
        }
    },
    "required": ["runs"],
}


def document_of(service: Service) -> dict[str, Any]:
    """Return the document of a service."""
    paths: dict[str, Any] = {}
    is_single = len(service.runs) == 1
    for run in service.runs.values():
        for verb in run.verbs:
            operation = _operation(service, run, verb)
            paths[f"/runs/{quote(run.name, safe='')}/{verb.name}"] = {"post": operation}
            if is_single:
                short = operation | {"operationId": verb.name}
                paths[f"/{verb.name}"] = {"post": short}
    schemas = {"Error": ERROR, "Sequence": SEQUENCE, "Trace": TRACE}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Regard",
            "version": VERSION,
            "description": "Runs of attention models: texts and images in, outputs with their "
            "attention out.",
        },
        "paths": dict(sorted(paths.items(), key=lambda item: item[0].startswith("/runs/")))
        | dict(_other_paths()),
        "components": {"schemas": schemas},
    }
    if service.access.token is not None:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _other_paths() -> Iterator[tuple[str, Any]]:
    """Yield the paths without verbs."""
    yield "/runs", _get("runs", "List the runs and their paths.", RUNS)
    yield "/health", _get("health", "Whether the process is alive.", STATUS, needs_token=False)
    yield (
        "/ready",
        _get("ready", "Whether the models are loaded.", STATUS, 503, needs_token=False),
    )
    text = {"type": "string"}
    yield "/metrics", _get("metrics", "Metrics for Prometheus.", text, kind="text/plain")
    yield "/openapi.json", _get("document", "This document.", {"type": "object"}, needs_token=False)
    page = _get("page", "This document as a page.", text, kind="text/html", needs_token=False)
    yield "/", page


def _get(
    name: str,
    about: str,
    schema: Schema,
    *errors: int,
    kind: str = "application/json",
    needs_token: bool = True,
) -> dict[str, Any]:
    statuses = (400, 401, *errors) if needs_token else (400, *errors)
    operation = {
        "operationId": name,
        "summary": about,
        "responses": {
            "200": {"description": "OK", "content": {kind: {"schema": schema}}},
            **_errors({status: ERRORS[status] for status in statuses}),
        },
    }
    return {"get": operation if needs_token else {**operation, "security": []}}


def _operation(service: Service, run: ServedRun, verb: Verb) -> dict[str, Any]:
    """Return the operation of a verb of a run."""
    limits = service.limits
    content = {"application/json": {"schema": _body_schema(verb.fields(limits))}}
    parameters: list[dict[str, Any]] = []
    if verb.takes_images:
        image = {"schema": {"type": "string", "format": "binary"}}
        content |= {f"image/{kind}": image for kind in ("bmp", "gif", "jpeg", "png", "webp")}
        parameters = [
            {"name": field.name, "in": "query", "schema": field.schema()}
            for field in verb.options(limits)
        ]
    return {
        "operationId": f"{verb.name} {run.name}",
        "summary": verb.about,
        **({"parameters": parameters} if parameters else {}),
        "requestBody": {"required": True, "content": content},
        "responses": {
            "200": {
                "description": "One result for each of the " + verb.items,
                "content": {"application/json": {"schema": _results_schema(verb)}},
            },
            **_errors(ERRORS),
        },
    }


def _errors(statuses: Mapping[int, str]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        str(status): {"description": about, "content": content}
        for status, about in statuses.items()
    }


def _body_schema(fields: tuple[Field, ...]) -> Schema:
    return {
        "type": "object",
        "properties": {field.name: field.schema() for field in fields},
        "required": [field.name for field in fields if field.is_required],
        "additionalProperties": False,
    }


def _results_schema(verb: Verb) -> Schema:
    result = {
        "type": "object",
        "properties": dict(verb.result),
        "required": list(verb.result),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"results": {"type": "array", "items": {"anyOf": [result, UNREAD]}}},
        "required": ["results"],
        "additionalProperties": False,
    }
