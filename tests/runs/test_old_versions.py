"""Run folders of older versions load, and compute what they computed then."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regard

RUNS = Path(__file__).parent / "data" / "0.1"
NAMES = sorted(path.parent.name for path in RUNS.glob("*/config.yaml"))
TOLERANCE = 1e-5
HARD = "captioner-hard"
"""Run with hard attention. Version 0.1 gave the probability of each cell as its weight; the weights
are now 1 for the most probable cell, which alone is read, and 0 for the others."""
OUTPUT = "--output"
"""Option of `regard train` that names the run folder."""


def test_every_old_run_has_an_expected_output():
    assert sorted(path.stem for path in RUNS.glob("*.json")) == NAMES
    assert len(NAMES) == 12


@pytest.mark.parametrize("name", NAMES)
def test_old_runs_give_their_old_outputs(name, tmp_path):
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
        check_attention(output.trace, expected["attention"], is_hard=name == HARD)


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


def check_attention(trace, expected, *, is_hard):
    """Fail unless a trace has the expected maps in their order."""
    maps = () if trace is None else trace.attention
    assert [each.kind for each in maps] == [each["kind"] for each in expected]
    for each, weights in zip(maps, (page["weights"] for page in expected), strict=True):
        computed = each.weights
        if is_hard:
            highest = np.argmax(weights, axis=-1, keepdims=True)
            assert (computed == (np.arange(computed.shape[-1]) == highest)).all()
            powers = np.exp(each.scores)
            computed = powers / powers.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(computed, weights, rtol=0, atol=TOLERANCE)


def test_loading_an_old_run_leaves_its_files_unchanged(tmp_path):
    folder = shutil.copytree(RUNS / "transformer", tmp_path / "transformer")
    before = contents(folder)
    regard.load(folder).translate("abc")
    assert contents(folder) == before


def test_resuming_the_state_of_an_old_run_is_refused(tmp_path):
    """A longer training of the same run, on the same data."""
    folder = shutil.copytree(RUNS / "plain", tmp_path / "plain")
    shutil.copy(RUNS / "pairs.tsv", tmp_path)
    before = contents(folder)
    longer = ["--resume", "--training.updates", "310"]
    command = [sys.executable, "-m", "regard", "train", "pairs.tsv", OUTPUT, "plain", *longer]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 1
    lines = ended.stderr.splitlines()
    assert len(lines) == 1
    assert "plain" in lines[0]
    assert "0.1" in lines[0]
    assert contents(folder) == before


def contents(folder):
    """Return the bytes of each file of a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}
