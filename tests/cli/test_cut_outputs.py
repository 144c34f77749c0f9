"""Outputs that were cut at the maximum length are marked by commands, in traces, in Python and in
the service."""

import json
from dataclasses import replace

import pytest
from PIL import Image

import regard as package
from regard.serving.api.limits import Limits
from regard.serving.service import Service, served_runs
from regard.trace import Trace
from tests.cli.test_commands import regard
from tests.messages import check_message
from tests.serving.services import request
from tests.small_runs import RUNS

TEXTS = ["a b c d", "a c", "", "b"]
KINDS = ["bahdanau", "transformer", "plain"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beam", [1, 3])
def test_an_output_without_an_end_token_is_cut(kind, beam):
    model = package.load(RUNS / kind)
    search = replace(model.experiment.search, beam=beam, max_length=3)
    for result in model.translate(TEXTS, search=search, num_best=beam):
        for output in (result, *result.alternatives):
            if output.trace is None:
                assert not output.is_cut
                continue
            has_end = output.trace.target.pieces[-1] == "<eos>"
            assert output.is_cut == output.trace.is_cut == (not has_end)
            assert ("cut at the maximum length" in repr(output)) == (not has_end)
            assert Trace.from_json(output.trace.to_json()).is_cut == output.is_cut
    untraced = model.translate(TEXTS, search=search, attention=False)
    assert [each.is_cut for each in untraced] == [
        each.is_cut for each in model.translate(TEXTS, search=search)
    ]
    longer = model.translate(TEXTS, search=replace(search, max_length=60))
    assert all(each.is_cut == (len(each.trace.target.pieces) == 60) for each in longer if each.text)


def test_the_commands_list_them(tmp_path, capsys):
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    short = "--max-length", 1
    status, _, err = regard(capsys, "translate", RUNS / "bahdanau", path, *short)
    assert status == 0
    check_message(err)
    nbest = "--nbest", 2, "--beam", 2
    _, _, err = regard(capsys, "translate", RUNS / "bahdanau", path, *short, *nbest)
    check_message(err)
    images = [tmp_path / "a.png", tmp_path / "b.png"]
    for image in images:
        Image.new("RGB", (9, 9)).save(image)
    status, out, err = regard(capsys, "caption", RUNS / "captioner", *images, *short)
    assert (status, out.count("\n")) == (0, 2)
    assert f"2 outputs were cut at the maximum length ({images[0]}, {images[1]}): raise" in err


def test_the_service_has_a_field():
    service = Service(served_runs([RUNS / "bahdanau"]), Limits())
    body = {"texts": TEXTS, "max_length": 1, "beam": 2, "nbest": 2, "attention": True}
    answer = request(service, "/translate", body)
    assert [each["is_cut"] for each in answer.results] == [True, True, False, True]
    assert answer.results[0]["trace"]["is_cut"] is True
    assert all("is_cut" in each for each in answer.results[0]["alternatives"])
    service = Service(served_runs([RUNS / "bahdanau"]), Limits())
    document = json.loads(request(service, "/openapi.json", method="GET").body)
    operation = document["paths"]["/translate"]["post"]["responses"]["200"]
    schema = operation["content"]["application/json"]["schema"]["properties"]["results"]
    assert "is_cut" in schema["items"]["anyOf"][0]["required"]
    assert "is_cut" in document["components"]["schemas"]["Trace"]["required"]
