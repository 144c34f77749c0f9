"""Fields of request bodies. A field both reads its value and describes it in the API document, so
the two agree."""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, runtime_checkable

from regard.config.checks import format_value
from regard.data.files.lines import SURROGATE
from regard.serving.api.errors import RequestError

Schema = dict[str, Any]
"""A schema of JSON Schema, as in a document of OpenAPI 3.1."""
WHOLE_NUMBER = re.compile(r"-?\d{1,9}")
NAMES_SHOWN = 40


@runtime_checkable
class Field(Protocol):
    """A field of a body."""

    @property
    def name(self) -> str:
        """Name of the field."""

    @property
    def is_required(self) -> bool:
        """Whether every body has the field."""

    def schema(self) -> Schema:
        """Return the schema of the field's values."""

    def read(self, value: Any) -> Any:
        """Return the value of the field. RequestError for an invalid value."""


@dataclass(frozen=True)
class Integer:
    """A whole number in a range."""

    name: str
    maximum: int
    about: str
    minimum: int = 1
    is_required = False

    def schema(self) -> Schema:
        return {
            "type": "integer",
            "minimum": self.minimum,
            "maximum": self.maximum,
            "description": self.about,
        }

    def read(self, value: Any) -> int:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and self.minimum <= value <= self.maximum and value == int(value):
            return int(value)
        _reject(
            self.name, value, f"expected a whole number from {self.minimum} to {self.maximum:,}"
        )


@dataclass(frozen=True)
class Switch:
    """True or false."""

    name: str
    about: str
    is_required = False

    def schema(self) -> Schema:
        return {"type": "boolean", "default": False, "description": self.about}

    def read(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        _reject(self.name, value, "expected true or false")


@dataclass(frozen=True)
class Text:
    """A text."""

    name: str
    max_characters: int
    about: str
    is_required = False

    def schema(self) -> Schema:
        return {"type": "string", "maxLength": self.max_characters, "description": self.about}

    def read(self, value: Any) -> str:
        return read_text(self.name, value, self.max_characters)


@dataclass(frozen=True)
class Texts:
    """A list of texts."""

    name: str
    max_texts: int
    max_characters: int
    about: str
    is_required = True

    def schema(self) -> Schema:
        text = {"type": "string", "maxLength": self.max_characters}
        return _list_schema(text, self.max_texts, self.about)

    def read(self, value: Any) -> tuple[str, ...]:
        entries = _entries(self.name, value, self.max_texts, "texts")
        return tuple(
            read_text(f"{self.name}[{number}]", text, self.max_characters)
            for number, text in enumerate(entries)
        )


@dataclass(frozen=True)
class Pairs:
    """A list of pairs of source and target."""

    name: str
    max_pairs: int
    max_characters: int
    about: str
    is_required = True

    def schema(self) -> Schema:
        text = {"type": "string", "maxLength": self.max_characters}
        pair = {
            "type": "object",
            "properties": {"source": text, "target": text},
            "required": ["source", "target"],
            "additionalProperties": False,
        }
        return _list_schema(pair, self.max_pairs, self.about)

    def read(self, value: Any) -> tuple[tuple[str, str], ...]:
        pairs = []
        for number, pair in enumerate(_entries(self.name, value, self.max_pairs, "pairs")):
            place = f"{self.name}[{number}]"
            if not isinstance(pair, dict) or set(pair) != {"source", "target"}:
                _reject(place, pair, "expected an object with the fields source and target")
            source, target = (
                read_text(f"{place}.{side}", pair[side], self.max_characters)
                for side in ("source", "target")
            )
            pairs.append((source, target))
        return tuple(pairs)


@dataclass(frozen=True)
class Images:
    """A list of images in base64."""

    name: str
    max_images: int
    about: str
    is_required = True

    def schema(self) -> Schema:
        image = {"type": "string", "contentEncoding": "base64"}
        return _list_schema(image, self.max_images, self.about)

    def read(self, value: Any) -> tuple[bytes, ...]:
        images = []
        for number, text in enumerate(_entries(self.name, value, self.max_images, "images")):
            place = f"{self.name}[{number}]"
            if not isinstance(text, str):
                _reject(place, text, "expected an image in base64")
            try:
                images.append(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                _reject(place, text, "expected an image in base64")
        return tuple(images)


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body. RequestError (400) for any other body."""
    try:
        value = json.loads(
            body.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_distinct
        )
    except UnicodeDecodeError as error:
        raise RequestError(400, f"the body is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise RequestError(400, "the body is nested too deeply") from error
    except ValueError as error:  # no JSON, NaN, a number of thousands of digits
        raise RequestError(400, f"the body is not valid JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise RequestError(422, f"the body is {_shown(value)}: expected a JSON object")
    return value


def read_fields(fields: Sequence[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields that a body has. RequestError (422) for an unknown field, for
    a required field that is missing, and for an invalid value."""
    names = [field.name for field in fields]
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name[:NAMES_SHOWN], names, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"expected {', '.join(names)}"
            raise RequestError(422, f"unknown field {_shown(name)}: {remedy}")
    for field in fields:
        if field.is_required and field.name not in values:
            raise RequestError(422, f"the field {field.name} is missing")
    return {field.name: field.read(values[field.name]) for field in fields if field.name in values}


def typed_values(
    parameters: Sequence[tuple[str, str]], fields: Sequence[Field] = ()
) -> dict[str, Any]:
    """Return the parameters of a query as JSON values: whole numbers, true and false, except for
    texts of these fields. RequestError (422) for a name that comes twice."""
    texts = {field.name for field in fields if isinstance(field, Text)}
    values: dict[str, Any] = {}
    for name, text in parameters:
        if name in values:
            raise RequestError(422, f"the parameter {_shown(name)} comes twice")
        if name in texts:
            values[name] = text
        elif WHOLE_NUMBER.fullmatch(text):
            values[name] = int(text)
        else:
            values[name] = {"true": True, "false": False}.get(text, text)
    return values


def read_text(place: str, value: Any, max_characters: int) -> str:
    """Return a text. RequestError (422) for another type, a text that is too long and half of a
    surrogate pair."""
    if not isinstance(value, str):
        _reject(place, value, "expected a text")
    if len(value) > max_characters:
        raise RequestError(
            422,
            f"{place} has {len(value):,} characters: expected at most {max_characters:,}; split "
            "the text",
        )
    if SURROGATE.search(value):
        raise RequestError(422, f"{place} has half of a surrogate pair: correct it")
    return value


def _entries(place: str, value: Any, maximum: int, noun: str) -> list[Any]:
    if not isinstance(value, list):
        _reject(place, value, f"expected a list of {noun}")
    if not 1 <= len(value) <= maximum:
        raise RequestError(
            422, f"{place} has {len(value):,} {noun}: expected 1 to {maximum:,} in a request"
        )
    return value


def _list_schema(items: Schema, maximum: int, about: str) -> Schema:
    return {
        "type": "array",
        "items": items,
        "minItems": 1,
        "maxItems": maximum,
        "description": about,
    }


def _reject(place: str, value: Any, expected: str) -> NoReturn:
    raise RequestError(422, f"{place} is {_shown(value)}: {expected}")


def _shown(value: Any) -> str:
    """Return a value in a message. Lists and objects can be large, so they have their type only."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return ascii(value)[:NAMES_SHOWN] if isinstance(value, str) else format_value(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("an object has two fields of one name")
    return values
