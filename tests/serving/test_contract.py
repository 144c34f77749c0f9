"""Results of the service are those of the models, for every task, and have the document's form."""

import asyncio
import base64
import io
import json
import math
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from PIL import Image

from regard.data.images.images import decode_image
from regard.pipeline.load import load
from regard.runtime.wanted import UnwantedError, while_wanted
from regard.serving.api.limits import Limits
from regard.serving.openapi import document_of
from regard.serving.service import Service, served_runs
from regard.trace import Trace
from tests.serving.services import call, running
from tests.small_runs import RUNS

TEXTS = ["a b", "", "d c a b b d a", "a unknown c", "b"]
ITEMS = ["cola 1.20; bread 0.80", "", "soap 2.00; tea 0.70; milk 1.10"]
SERIES = ["0.1,0 0.5,1 -0.2,0", "0.9,1", "", "1,1 2,2 3,3 4,4"]


def responses(run, *requests, **limits):
    """Send requests to a service of a run. A request is a verb, a body and options of `call`."""

    async def send():
        service = Service(served_runs([RUNS / run], "cpu"), Limits(**limits))
        document = document_of(service)
        async with running(service) as app:
            answers = await asyncio.gather(
                *(call(app, f"/{verb}", body, **options) for verb, body, options in requests)
            )
        for (verb, _, _), answer in zip(requests, answers, strict=True):
            check_form(document, f"/{verb}", answer)
        return answers

    return asyncio.run(send())


def check_form(document, path, answer):
    """Check a response against its schema in the API document."""
    response = document["paths"][path]["post"]["responses"][str(answer.status)]
    schema = response["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(answer.json)


def as_trace(result):
    return None if result["trace"] is None else Trace.from_json(json.dumps(result["trace"]))


def assert_same_trace(result, expected):
    trace = as_trace(result)
    assert (trace is None) == (expected is None)
    if trace is None or expected is None:
        return
    assert (trace.source, trace.target) == (expected.source, expected.target)
    for ours, theirs in zip(trace.attention, expected.attention, strict=True):
        assert ours.kind == theirs.kind
        np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("run", ["transformer", "luong-coverage", "bahdanau", "plain"])
def test_translations_are_those_of_the_model(run):
    model = load(RUNS / run)
    (together, beam), singles = (
        responses(run, ("translate", {"texts": TEXTS}, {}), BEAM),
        responses(run, *(("translate", {"texts": [text]}, {}) for text in TEXTS)),
    )
    expected = model.translate(TEXTS)
    for answers in (together.results, [single.results[0] for single in singles]):
        assert [result["text"] for result in answers] == [each.text for each in expected]
        for result, each in zip(answers, expected, strict=True):
            assert result["score"] == pytest.approx(each.score, rel=1e-5, abs=1e-6)
            assert (result["is_long"], result["unknown"]) == (each.is_long, each.unknown)
            assert result["trace"] is None
    expected = model.translate(TEXTS, beam=4, num_best=3)
    for result, each in zip(beam.results, expected, strict=True):
        texts = [result["text"], *(other["text"] for other in result["alternatives"])]
        assert texts == [each.text, *(other.text for other in each.alternatives)]
        assert_same_trace(result, each.trace)


BEAM = ("translate", {"texts": TEXTS, "beam": 4, "nbest": 3, "attention": True}, {})


def test_max_length_is_that_of_the_request():
    body = {"texts": ["a b c d a b"], "max_length": 2}
    (answer,) = responses("transformer", ("translate", body, {}))
    model = load(RUNS / "transformer")
    search = replace(model.experiment.search, max_length=2)
    assert answer.results[0]["text"] == model.translate("a b c d a b", search=search).text


def test_scores_are_those_of_the_model():
    pairs = [("a b", "B A"), ("", "A"), ("a", ""), ("d d c", "D D C")]
    fields = [{"source": source, "target": target} for source, target in pairs]
    plain, traced = responses(
        "bahdanau",
        ("score", {"pairs": fields}, {}),
        ("score", {"pairs": fields, "attention": True}, {}),
    )
    expected = load(RUNS / "bahdanau").score(pairs)
    for result, other, each in zip(plain.results, traced.results, expected, strict=True):
        score = None if math.isnan(each.score) else pytest.approx(each.score, rel=1e-5)
        assert result == {"score": score, "trace": None}
        assert other["score"] == score
        assert_same_trace(other, each.trace)


@pytest.mark.parametrize(
    ("run", "texts"),
    [
        ("classifier", TEXTS),
        ("classifier-transformer", TEXTS),
        ("bag-of-words", ITEMS),
        ("series", SERIES),
    ],
)
def test_predictions_are_those_of_the_model(run, texts):
    model = load(RUNS / run)
    requests = [
        ("classify", {"texts": texts, "attention": attention}, {}) for attention in (False, True)
    ]
    plain, traced = responses(run, *requests)
    expected = model.classify(texts)
    for result, other, each in zip(plain.results, traced.results, expected, strict=True):
        assert result["text"] == each.text
        assert [entry["label"] for entry in result["probabilities"]] == [
            label for label, _ in each.probabilities
        ]
        assert [entry["probability"] for entry in result["probabilities"]] == pytest.approx(
            [probability for _, probability in each.probabilities], rel=1e-5
        )
        assert_same_trace(other, each.trace)


def test_a_source_that_is_no_series_is_named():
    texts = [SERIES[0], "a b"]
    both, none = responses(
        "series", *[("classify", {"texts": part}, {}) for part in (texts, texts[1:])]
    )
    assert both.status == 200
    assert both.results[0]["text"]
    assert both.results[1]["error"].startswith("texts[1]: 'a b'")
    assert none.status == 422
    assert none.error.startswith("texts[0]: ")


@pytest.fixture
def photo(tmp_path):
    """An image in a file."""
    path = tmp_path / "photo.png"
    values = np.random.default_rng(5).integers(0, 256, (37, 53, 3), np.uint8)
    Image.fromarray(values).save(path)
    return path


@pytest.mark.parametrize("run", ["captioner", "captioner-transformer"])
def test_captions_are_those_of_the_model(run, photo):
    content = photo.read_bytes()
    encoded = base64.b64encode(content).decode()
    fields = {"beam": 3, "nbest": 2, "attention": True}
    as_json, as_body = responses(
        run,
        ("caption", {"images": [encoded, encoded], **fields}, {}),
        (
            "caption",
            content,
            {"headers": {"content-type": "image/png"}, "query": "beam=3&nbest=2&attention=true"},
        ),
    )
    expected = load(RUNS / run).caption(photo, beam=3, num_best=2)
    assert len(as_json.results) == 2
    assert len(as_body.results) == 1
    for result in (*as_json.results, *as_body.results):
        assert result["text"] == expected.text
        assert [each["text"] for each in result["alternatives"]] == [
            each.text for each in expected.alternatives
        ]
        trace = as_trace(result)
        for ours, theirs in zip(trace.attention, expected.trace.attention, strict=True):
            np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-4, atol=1e-5)


def tiff(size=(8, 8)):
    file = io.BytesIO()
    Image.new("RGB", size).save(file, "TIFF")
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", b"\x89PNG\r\n\x1a\n" + b"\0" * 30, tiff(), b"%!PS-Adobe-3.0 EPSF-3.0\n"],
)
def test_bytes_that_are_no_image_leave_the_other_requests(content, photo):
    good = {"images": [base64.b64encode(photo.read_bytes()).decode()]}
    answers = responses(
        "captioner",
        ("caption", good, {}),
        ("caption", {"images": good["images"] + [base64.b64encode(content).decode()]}, {}),
        ("caption", content, {"headers": {"content-type": "image/png"}}),
    )
    assert [answer.status for answer in answers] == [200, 422, 422]
    assert answers[1].error.startswith("images[1]: cannot read the image")


def test_images_are_not_decoded_for_a_client_that_is_gone(photo, monkeypatch):
    from regard.serving.api.verbs import Settings
    from regard.serving.batches.operations import Caption

    model = load(RUNS / "captioner")
    decoded = []

    def decode(*arguments):
        decoded.append(arguments)
        return decode_image(*arguments)

    monkeypatch.setattr("regard.data.images.images.decode_image", decode)
    with pytest.raises(UnwantedError), while_wanted(lambda: len(decoded) < 2):
        Caption(model, 1000).run([photo.read_bytes()] * 9, Settings(model.experiment.search))
    assert len(decoded) == 2


def test_a_text_beyond_the_longest_source_is_named():
    model = load(RUNS / "transformer")
    long = "a b " * model.source_limit().tokens
    (answer,) = responses("transformer", ("translate", {"texts": ["a", long]}, {}))
    assert answer.status == 422
    assert answer.error.startswith("texts[1]: more tokens than the model reads")


def test_attention_beyond_the_bound_is_an_error_of_the_request():
    from regard.serving.api.verbs import Settings
    from regard.serving.batches.operations import Translate

    model = load(RUNS / "transformer")
    settings = Settings(model.experiment.search, attention=True)
    size = sum(2 * block.weights.size for block in model.translate("a b").trace.attention)
    assert isinstance(Translate(model, size).run(["a b"], settings)[0], str)
    (error,) = Translate(model, 3).run(["a b"], settings)
    assert error.status == 422
    assert "numbers: expected at most 3" in str(error)
