"""Run folders of format 3 load, and compute what they computed when they were written."""

import json
import math
import shutil

import numpy as np
import pytest
from PIL import Image

import regard
from regard.cli import main
from regard.errors import UserError
from tests.messages import check_message
from tests.small_runs import RUNS

NAMES = sorted(path.parent.name for path in RUNS.glob("*/config.yaml"))
TOLERANCE = 1e-5


def test_every_run_has_an_expected_output():
    assert sorted(path.stem for path in RUNS.glob("*.json")) == NAMES
    assert len(NAMES) == 12


@pytest.mark.parametrize("name", NAMES)
def test_runs_give_their_expected_outputs(name, tmp_path):
    model = regard.load(RUNS / name)
    for expected in json.loads((RUNS / f"{name}.json").read_text(encoding="utf8")):
        output = compute(model, expected["source"], tmp_path)
        check_text(output.text, expected["text"])
        if "score" in expected:
            assert output.score == pytest.approx(expected["score"], abs=TOLERANCE)
        if "probabilities" in expected:
            assert dict(output.probabilities) == pytest.approx(
                expected["probabilities"], abs=TOLERANCE
            )
        if "log_probability" in expected:
            scored = model.score([(expected["source"], expected["text"])])[0]
            assert scored.score == pytest.approx(expected["log_probability"], abs=TOLERANCE)
        check_attention(output.trace, expected["attention"])


def compute(model, source, folder):
    """Return the output of a model for one source."""
    if isinstance(model, regard.CaptionModel):
        return model.caption(str(draw_image(folder)))
    if isinstance(model, regard.ClassificationModel):
        return model.classify(source)
    return model.translate(source)


def draw_image(folder):
    """Draw a red square on the left of a dark ground."""
    pixels = np.full((16, 16, 3), 20, np.uint8)
    pixels[4:12, 0:8] = (220, 30, 30)
    Image.fromarray(pixels).save(folder / "image.png")
    return folder / "image.png"


def check_text(text, expected):
    """Fail unless the texts are equal; numbers may differ in their last digit."""
    try:
        number = float(expected)
    except ValueError:
        assert text == expected
    else:
        assert math.isclose(float(text), number, rel_tol=TOLERANCE)


def check_attention(trace, expected):
    """Fail unless a trace has the expected maps in their order."""
    maps = () if trace is None else trace.attention
    assert [each.kind for each in maps] == [each["kind"] for each in expected]
    for each, weights in zip(maps, (page["weights"] for page in expected), strict=True):
        np.testing.assert_allclose(each.weights, weights, rtol=0, atol=TOLERANCE)


def test_loading_a_run_leaves_its_files_unchanged(tmp_path):
    folder = shutil.copytree(RUNS / "transformer", tmp_path / "transformer")
    before = contents(folder)
    regard.load(folder).translate("abc")
    assert contents(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        "",
        "format: 2\n",
        "format: 4\n",
    ],
)
def test_a_run_of_another_format_is_rejected(line, tmp_path, capsys):
    folder = shutil.copytree(RUNS / "plain", tmp_path / "plain")
    config = folder / "config.yaml"
    config.write_text(config.read_text(encoding="utf8").replace("format: 3\n", line), "utf8")
    before = contents(folder)
    with pytest.raises(UserError) as caught:
        regard.load(folder)
    check_message(str(caught.value))
    assert "\n" not in str(caught.value)
    for command in (["translate", str(folder)], ["train", "copy", "-o", str(folder), "--resume"]):
        assert main.run(command) == 1
        assert str(caught.value) in capsys.readouterr().err
    assert contents(folder) == before


def contents(folder):
    """Return the bytes of each file of a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}
