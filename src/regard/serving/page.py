"""Page of the API document: plain HTML without scripts, so it needs no other server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
h2 { border-top: 1px solid #ccc; padding-top: 1rem } code, pre { background: #f3f3f3 }
pre { padding: .7rem; overflow-x: auto } table { border-collapse: collapse }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
"""
EXAMPLES = {
    "texts": ["first text", "second text"],
    "pairs": [{"source": "a source", "target": "a target"}],
}


def page_of(document: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI document of `openapi.document_of`."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    body = "\n".join(_lines(document))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>'
        f"\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"<p>{escape(document['info']['description'])}</p>"
    yield '<p>For programs: <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>'
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"<h2>{method.upper()} {escape(path)}</h2>"
            yield f"<p>{escape(operation['summary'])}</p>"
            if "requestBody" in operation:
                yield from _request(path, operation, has_token="security" in document)
            yield from _responses(operation)


def _request(path: str, operation: Mapping[str, Any], *, has_token: bool) -> Iterator[str]:
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
    yield f"<pre>curl{token} {escape(data)} http://HOST:PORT{escape(path)}</pre>"


def _values(field: Mapping[str, Any]) -> str:
    """Return the values of a field in words."""
    match field["type"]:
        case "integer":
            return f"A whole number from {field['minimum']} to {field['maximum']:,}"
        case "array":
            return f"A list of 1 to {field['maxItems']:,}"
        case _:
            return "true or false"


def _responses(operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table of the responses."""
    yield "<table><tr><th>status</th><th></th></tr>"
    for status, response in operation["responses"].items():
        yield f"<tr><td>{status}</td><td>{escape(response['description'])}</td></tr>"
    yield "</table>"
