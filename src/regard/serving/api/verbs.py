"""Verbs of the API: the fields of their requests and the schemas of their responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.config import SearchConfig
from regard.errors import UserError
from regard.serving.api.errors import RequestError
from regard.serving.api.fields import (
    Field,
    Images,
    Integer,
    Pairs,
    Schema,
    Switch,
    Text,
    Texts,
    read_fields,
)
from regard.serving.api.limits import Limits

TRACE: Schema = {
    "description": "What the output attended to, as `regard translate --trace` writes it. Null "
    "unless the request has attention true.",
    "anyOf": [{"$ref": "#/components/schemas/Trace"}, {"type": "null"}],
}
SCORE: Schema = {"type": ["number", "null"]}
IS_LONG: Schema = {
    "type": "boolean",
    "description": "Whether the source is longer than data.max_length of the training.",
}
IS_CUT: Schema = {
    "type": "boolean",
    "description": "Whether the output reached the maximum length before its end token.",
}
IS_EXCEPTION: Schema = {
    "type": "boolean",
    "description": "Whether the output is from the exceptions of the service, without decoding.",
}
UNKNOWN: Schema = {
    "type": "number",
    "minimum": 0,
    "maximum": 1,
    "description": "Share of unknown tokens in the source.",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a request. Requests with equal settings can be in one batch."""

    search: SearchConfig
    num_best: int = 1
    attention: bool = False
    prefix: str = ""


@dataclass(frozen=True)
class Verb:
    """A verb of the API, such as translate."""

    name: str
    about: str
    items: str
    """Name of the field with the list of texts, pairs or images."""
    result: Mapping[str, Schema]
    """Fields of the result for one text, with their schemas."""
    has_search: bool = False
    """Whether the verb generates texts, so its requests can set the search."""
    takes_images: bool = False

    def fields(self, limits: Limits) -> tuple[Field, ...]:
        """Return the fields of a request's body."""
        return (self.list_field(limits), *self.options(limits))

    def list_field(self, limits: Limits) -> Field:
        """Return the field with the list of texts, pairs or images."""
        match self.items:
            case "images":
                return Images(
                    "images", limits.texts, "Images in base64: BMP, GIF, JPEG, PNG, WEBP."
                )
            case "pairs":
                about = "Pairs of source and target."
                return Pairs("pairs", limits.texts, limits.characters, about)
            case _:
                return Texts(self.items, limits.texts, limits.characters, "Sources.")

    def options(self, limits: Limits) -> tuple[Field, ...]:
        """Return the fields of a body besides the list."""
        attention = Switch("attention", "Return the attention of each output.")
        if not self.has_search:
            return (attention,)
        return (
            Integer("beam", limits.beam, "Beam size; 1 is greedy search. Default: of the run."),
            Integer(
                "nbest",
                limits.beam,
                "Number of outputs for each text. Default: 1. The beam is at least as large, so "
                "the best output may differ from that of a smaller beam.",
            ),
            Integer(
                "max_length",
                limits.max_length,
                "Maximum number of tokens of an output. Default: of the run.",
            ),
            Text(
                "prefix",
                limits.characters,
                "Text that each output begins with. Default: none. A result has an error if the "
                "vocabulary lacks a part of the prefix, or if the prefix has more tokens than "
                "max_length. If no text has a result, the status is 422.",
            ),
            attention,
        )

    def read(
        self, values: Mapping[str, Any], search: SearchConfig, limits: Limits
    ) -> tuple[Sequence[Any], Settings]:
        """Return the texts, pairs or images of a body and its settings. Those that the body does
        not set are of the run's search. RequestError (422) for an invalid body."""
        values = read_fields(self.fields(limits), values)
        return values[self.items], self.settings(values, search)

    def settings(self, values: Mapping[str, Any], search: SearchConfig) -> Settings:
        """Return the settings of a request whose fields are read already."""
        changes = {name: values[name] for name in ("beam", "max_length") if name in values}
        num_best = values.get("nbest", 1)
        if num_best > changes.get("beam", search.beam):
            changes["beam"] = num_best
        if changes:
            try:
                search = replace(search, **changes)
            except UserError as error:
                raise RequestError(422, str(error)) from error
        attention, prefix = values.get("attention", False), values.get("prefix", "")
        return Settings(search, num_best, attention, prefix)


TEXT_RESULT = {
    "text": {"type": "string"},
    "score": SCORE,
    "alternatives": {
        "type": "array",
        "description": "Further outputs, best first, if the request has nbest above 1.",
        "items": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "score": SCORE, "is_cut": IS_CUT},
            "required": ["text", "score", "is_cut"],
            "additionalProperties": False,
        },
    },
    "is_cut": IS_CUT,
}
VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            "translate",
            "Translate texts. A blank text has a blank translation.",
            "texts",
            {
                **TEXT_RESULT,
                "is_long": IS_LONG,
                "unknown": UNKNOWN,
                "is_exception": IS_EXCEPTION,
                "trace": TRACE,
            },
            has_search=True,
        ),
        Verb(
            "score",
            "Compute the log probability of given targets. It is null if a side is blank.",
            "pairs",
            {"score": SCORE, "trace": TRACE},
        ),
        Verb(
            "classify",
            "Predict a label or numbers for each text. A blank text has a blank prediction.",
            "texts",
            {
                "text": {"type": "string"},
                "probabilities": {
                    "type": "array",
                    "description": "All labels, the most probable first; empty for numbers.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "label": {"type": "string"},
                            "probability": {"type": "number", "minimum": 0, "maximum": 1},
                        },
                        "required": ["label", "probability"],
                        "additionalProperties": False,
                    },
                },
                "is_long": IS_LONG,
                "unknown": UNKNOWN,
                "trace": TRACE,
            },
        ),
        Verb(
            "caption",
            "Caption images. The body can be one image itself, with its content type; then the "
            "options are parameters of the query.",
            "images",
            {**TEXT_RESULT, "trace": TRACE},
            has_search=True,
            takes_images=True,
        ),
    )
}
"""All verbs by their names."""
VERBS_OF_TASKS = {
    "translate": ("translate", "score"),
    "classify": ("classify",),
    "caption": ("caption",),
}
"""Verbs of the runs of each task (`data.task`)."""
