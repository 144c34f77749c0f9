"""Page of the API document: plain HTML without scripts, so it needs no other server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from shlex import quote
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
h2 { border-top: 1px solid #ccc; padding-top: 1rem } code, pre { background: #f3f3f3 }
pre { padding: .7rem; overflow-x: auto } table { border-collapse: collapse }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
"""
SUCCESS = "200"
ERROR_BODY = '{"error": "one line: what to correct"}'
EXAMPLES = {
    "texts": ["first text", "second text"],
    "pairs": [{"source": "a source", "target": "a target"}],
}


def page_of(document: Mapping[str, Any], address: str) -> str:
    """Return the page of an OpenAPI document of `openapi.document_of`. The address is that of the
    service for the client."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    body = "\n".join(_lines(document, address))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>'
        f"\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _lines(document: Mapping[str, Any], address: str) -> Iterator[str]:
    yield f"<p>{escape(document['info']['description'])}</p>"
    yield '<p>For programs: <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>'
    has_token = "security" in document
    if has_token:
        yield (
            "<p>Requests need the token of the service (<code>regard serve --token</code>), except "
            "where a path says otherwise.</p>"
        )
    errors: dict[str, str] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"<h2>{method.upper()} {escape(path)}</h2>"
            free = " It needs no token." if has_token and "security" in operation else ""
            yield f"<p>{escape(operation['summary'])}{free}</p>"
            if "requestBody" in operation:
                yield from _request(address + path, operation, has_token=has_token)
            descriptions = {
                status: response["description"]
                for status, response in operation["responses"].items()
            }
            success = descriptions.pop(SUCCESS)
            yield f"<p>Status 200: {escape(success)}. Errors: {', '.join(descriptions)}.</p>"
            errors |= descriptions
    yield "<h2>Errors</h2>"
    yield f"<p>The body of an error is {escape(ERROR_BODY)}.</p>"
    yield "<table><tr><th>status</th><th></th></tr>"
    for status, description in sorted(errors.items()):
        yield f"<tr><td>{status}</td><td>{escape(description)}</td></tr>"
    yield "</table>"


def _request(url: str, operation: Mapping[str, Any], *, has_token: bool) -> Iterator[str]:
    """Yield the fields of a body and an example."""
    content = operation["requestBody"]["content"]
    schema = content["application/json"]["schema"]
    yield "<table><tr><th>field</th><th>values</th><th></th></tr>"
    for name, field in schema["properties"].items():
        required = "required" if name in schema["required"] else ""
        text = f"{_values(field)}. {field['description']}"
        yield f"<tr><td><code>{escape(name)}</code></td><td>{escape(text)}</td>"
        yield f"<td>{required}</td></tr>"
    yield "</table>"
    name = schema["required"][0]
    token = " -H 'Authorization: Bearer TOKEN'" if has_token else ""
    if name in EXAMPLES:
        body = json.dumps({name: EXAMPLES[name]})
        data = f"-H 'Content-Type: application/json' -d '{body}'"
    else:
        data = "-H 'Content-Type: image/jpeg' --data-binary @photo.jpg"
    yield f"<pre>{escape(f'curl{token} {data} {quote(url)}')}</pre>"


def _values(field: Mapping[str, Any]) -> str:
    """Return the values of a field in words."""
    match field["type"]:
        case "integer":
            return f"A whole number from {field['minimum']} to {field['maximum']:,}"
        case "array":
            return f"A list of 1 to {field['maxItems']:,}"
        case _:
            return "true or false"
