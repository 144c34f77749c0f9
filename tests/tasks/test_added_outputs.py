"""Options that add to an output do not change the best output."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.errors import UserError
from regard.serving.api.limits import Limits
from regard.serving.api.verbs import VERBS
from tests.cli.test_commands import regard as command
from tests.messages import check_message
from tests.small_runs import RUNS

FAMILIES = ["bahdanau", "luong-coverage", "transformer", "plain", "extras"]


def texts(count=40):
    draw = np.random.default_rng(7)
    return [" ".join(draw.choice(list("abcdefgh"), draw.integers(1, 9))) for _ in range(count)]


def outputs(results):
    return [(each.text, round(each.score, 4), each.is_cut) for each in results]


@pytest.mark.parametrize("precision", ["float32", "int8", "bfloat16"])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_attention_and_alternatives_do_not_change_translations(family, beam, precision):
    model = regard.load(RUNS / family)
    with torch.no_grad():  # nearly equal probabilities, so that ties decide
        for parameter in model.model.parameters():
            parameter.mul_(0.3)
    model = type(model)(model.experiment, model.tokenizers, model.model)
    search = replace(model.experiment.search, beam=beam, precision=precision, max_length=12)
    try:
        plain = outputs(model.translate(texts(), search=search, attention=False))
    except UserError:
        pytest.skip(f"{precision} needs instructions or kernels")
    assert outputs(model.translate(texts(), search=search)) == plain
    for attention in (False, True) if beam > 1 else ():
        best = model.translate(texts(), search=search, num_best=beam, attention=attention)
        assert outputs(best) == plain


@pytest.mark.parametrize("family", ["captioner", "captioner-transformer", "captioner-hard"])
def test_attention_and_alternatives_do_not_change_captions(family, tmp_path):
    model, draw = regard.load(RUNS / family), np.random.default_rng(3)
    paths = [tmp_path / f"{number}.png" for number in range(6)]
    for path in paths:
        Image.fromarray(draw.integers(0, 256, (16, 16, 3), np.uint8)).save(path)
    for beam in (1, 3):
        search = replace(model.experiment.search, beam=beam, max_length=8)
        plain = outputs(model.caption(paths, search=search, attention=False))
        assert outputs(model.caption(paths, search=search)) == plain
        for num_best in range(1, beam + 1):
            assert outputs(model.caption(paths, search=search, num_best=num_best)) == plain


@pytest.mark.parametrize("family", ["classifier", "classifier-transformer"])
def test_attention_does_not_change_predictions(family):
    model = regard.load(RUNS / family)
    plain, traced = (model.classify(texts(), attention=each) for each in (False, True))
    assert [each.text for each in plain] == [each.text for each in traced]
    for first, second in zip(plain, traced, strict=True):
        assert dict(first.probabilities) == pytest.approx(dict(second.probabilities), abs=1e-6)


def test_more_outputs_than_the_beam_has_are_reported(tmp_path, capsys):
    path = tmp_path / "in.txt"
    path.write_text("a b\n")
    _, _, err = command(capsys, "translate", RUNS / "bahdanau", path, "--beam", 1, "--nbest", 3)
    check_message(err)
    _, _, err = command(capsys, "translate", RUNS / "bahdanau", path, "--beam", 3, "--nbest", 3)
    assert "--nbest" not in err
    model = regard.load(RUNS / "bahdanau")
    with pytest.warns(UserWarning, match=r"num_best 3 searches with a beam of 3 in place of 1"):
        model.translate("a b", beam=1, num_best=3)
    (field,) = [each for each in VERBS["translate"].options(Limits()) if each.name == "nbest"]
    assert "the best output may differ" in field.schema()["description"]
