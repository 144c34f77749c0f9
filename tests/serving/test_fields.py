"""Bodies of requests: each is read, or rejected with one line, and the schema says which."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import SearchConfig
from regard.serving.api.errors import RequestError
from regard.serving.api.fields import read_object, typed_values
from regard.serving.api.limits import Limits
from regard.serving.api.verbs import VERBS
from regard.serving.openapi import _body_schema
from tests.messages import check_message

LIMITS = Limits(texts=3, characters=11, beam=5, max_length=7)


def read(verb, values):
    return VERBS[verb].read(values, SearchConfig(), LIMITS)


def rejected(verb, values):
    with pytest.raises(RequestError) as caught:
        read(verb, values)
    assert caught.value.status == 422
    return str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe{\0}\0",
        b"\xef\xbb\xbf{}",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": 1, "a": 2}',
    ],
)
def test_a_body_that_is_no_json_has_status_400(body):
    with pytest.raises(RequestError) as caught:
        read_object(body)
    assert caught.value.status == 400
    check_message(str(caught.value))


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"text"', b"true", b"1e999"])
def test_a_body_that_is_no_object_has_status_422(body):
    with pytest.raises(RequestError, match="expected a JSON object") as caught:
        read_object(body)
    assert caught.value.status == 422


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("translate", {}),
        ("translate", {"text": ["a"]}),
        ("translate", {"texts": "a"}),
        ("translate", {"texts": None}),
        ("translate", {"texts": []}),
        ("translate", {"texts": ["a"] * 4}),
        ("translate", {"texts": ["a", 3]}),
        ("translate", {"texts": ["a", ["b"]]}),
        ("translate", {"texts": ["a" * 12]}),
        ("translate", {"texts": ["\ud800"]}),
        ("translate", {"texts": ["a"], "beam": 0}),
        ("translate", {"texts": ["a"], "beam": 6}),
        ("translate", {"texts": ["a"], "beam": True}),
        ("translate", {"texts": ["a"], "beam": 1.5}),
        ("translate", {"texts": ["a"], "beam": float("inf")}),
        ("translate", {"texts": ["a"], "nbest": "2"}),
        ("translate", {"texts": ["a"], "max_length": 10**400}),
        ("translate", {"texts": ["a"], "attention": 1}),
        ("classify", {"texts": ["a"], "beam": 1}),
        ("score", {"pairs": ["a"]}),
        ("score", {"pairs": [{"source": "a"}]}),
        ("score", {"pairs": [{"source": "a", "target": None}]}),
        ("caption", {"images": ["%"]}),
        ("caption", {"images": ["aé"]}),
        ("caption", {"images": [3]}),
    ],
)
def test_an_invalid_value_is_one_line(verb, values):
    line = rejected(verb, values)
    check_message(line)
    assert "\n" not in line
    assert len(line) < 200


def test_options_change_the_search_of_the_run():
    items, settings = read("translate", {"texts": ["a"], "beam": 2.0, "max_length": 4})
    assert items == ("a",)
    assert (settings.search.beam, settings.search.max_length) == (2, 4)
    assert (settings.num_best, settings.attention) == (1, False)


def test_options_that_contradict_the_run_are_rejected():
    with pytest.raises(RequestError, match=r"search\.min_length is 5") as caught:
        VERBS["translate"].read(
            {"texts": ["a"], "max_length": 4}, SearchConfig(min_length=5), LIMITS
        )
    assert caught.value.status == 422


def test_parameters_of_a_query_are_typed():
    pairs = [("beam", "3"), ("attention", "true"), ("other", "false"), ("name", "a")]
    assert typed_values(pairs) == {"beam": 3, "attention": True, "other": False, "name": "a"}
    with pytest.raises(RequestError, match="the parameter 'beam' comes twice"):
        typed_values([("beam", "3"), ("beam", "3")])


def error_of(function, *arguments):
    """Return the error of a request, or None."""
    try:
        function(*arguments)
    except RequestError as error:
        return error


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=15),
    lambda values: (
        st.lists(values, max_size=4)
        | st.dictionaries(st.sampled_from(["source", "target", "x"]), values, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["texts", "pairs", "images", "beam", "nbest", "max_length", "attention"])
NEARLY = st.fixed_dictionaries(
    {"texts": st.lists(st.text(max_size=12), max_size=4)},
    optional={
        "beam": st.integers(-1, 7) | st.floats(0, 6),
        "nbest": st.integers(0, 6),
        "attention": st.booleans() | st.integers(0, 1),
    },
)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(VERBS)), st.dictionaries(NAMES, VALUES, max_size=3) | NEARLY)
def test_the_schema_accepts_what_the_service_reads(verb, values):
    """For all bodies: a body is valid by the document if and only if it is read. The schema knows
    neither base64 nor surrogates."""
    schema = _body_schema(VERBS[verb].fields(LIMITS))
    is_valid = jsonschema.Draft202012Validator(schema).is_valid(values)
    error = error_of(read, verb, values)
    assert error is None or (error.status == 422 and "\n" not in str(error))
    assert is_valid == (error is None) or "base64" in str(error) or "surrogate" in str(error)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_read_or_rejected(body):
    error = error_of(read_object, body)
    assert error is None or error.status in (400, 422)
