"""Captioners, classifiers and the counting model on a GPU compared with the CPU."""

from __future__ import annotations

import copy
from typing import get_args

import pytest
import torch

from regard.building.captioners import build_captioner
from regard.building.classifiers import build_classifier
from regard.config import KINDS
from regard.data.batch import PAD, START, GridFeatures, Images
from regard.data.labels.encoded import pad_sources
from regard.models.vision.backbone import Backbone
from regard.names import CountAnswer
from regard.search import BeamSettings, Limits, beam, greedy
from regard.tasks.counting.counting import build_counter
from regard.tasks.counting.settings import CountingSettings
from tests import configs
from tests.contracts import test_captioners as captioners
from tests.contracts import test_classifiers as classifiers
from tests.contracts.choices import BACKBONE, CAPTIONERS, small
from tests.gpu import devices
from tests.gpu.comparison import (
    all_precisions,
    assert_close,
    computing,
    differentiable,
    gradients,
)

pytestmark = pytest.mark.usefixtures("unchecked")

SOFT = [name for name in CAPTIONERS if name not in ("hard", "straight through")]
"""Captioners without random numbers, which differ between devices."""
CPU = torch.device("cpu")
LIMITS = Limits(start=START, end=2, maximum=5, forbidden=(PAD, START))


def captioner(name):
    torch.manual_seed(3)
    config, backbone = captioners.configured(name), Backbone(captioners.Network())
    model = build_captioner(config, captioners.SIDE, captioners.NUM_WORDS, backbone)
    return model.eval()


def images(name):
    generator = torch.Generator().manual_seed(5)
    if name == "grid features":
        return GridFeatures(torch.randn(3, *BACKBONE, generator=generator))
    side = captioners.SIDE
    return Images(torch.randint(0, 256, (3, 3, side, side), generator=generator).byte())


def caption(model, source, device, precision="float32"):
    differentiable(model)
    with computing(precision, device):
        memories = model.encode(source.to(device))
        output = model.decoder(captioners.INPUTS.to(device), memories, need_weights=True)
        logits = model.decoder.project(output.features)
    tokens = captioners.INPUTS.to(device)[..., None]
    logits.float().log_softmax(dim=-1).gather(2, tokens).sum().backward()
    maps = {f"map {n}": block.weights for n, block in enumerate(output.attention)}
    return {"logits": logits, **maps, "gradients": gradients(model)}


@pytest.mark.parametrize("precision", all_precisions())
@pytest.mark.parametrize("name", devices.some(SOFT))
def test_a_captioner_equals_the_cpu(device, name, precision):
    result = caption(captioner(name).to(device), images(name), device, precision)
    expected = caption(captioner(name), images(name), CPU)
    is_choice = "experts" in name and precision != "float32"
    if not is_choice:
        assert_close(result, expected, precision)


@pytest.mark.parametrize("name", devices.some(CAPTIONERS))
def test_captions_equal_those_of_the_cpu(device, name):
    model, source = captioner(name), images(name)
    moved = copy.deepcopy(model).to(device)
    with torch.no_grad():
        memories, here = model.encode(source), moved.encode(source.to(device))
    for decode in (greedy, lambda *of: beam(*of, BeamSettings(3, 1))):
        results = [decode(moved.decoder, here, LIMITS), decode(model.decoder, memories, LIMITS)]
        tokens, wanted = ([best(each).tokens for each in result] for result in results)
        assert tokens == wanted


def best(result):
    return result[0] if isinstance(result, list) else result


def classifier(encoder, head, kind):
    sizes = small(KINDS["classify"]["encoder"][encoder])
    values = dict(dropout=0.3, size=classifiers.SIZE) | sizes | classifiers.HEADS[head]
    torch.manual_seed(3)
    config = configs.classifier(encoder, values.pop("head", "attention"), **values)
    num_outputs = classifiers.SIZE if head == "no output layer" else classifiers.NUM_LABELS
    return build_classifier(config, *classifiers.SOURCES[kind], num_outputs).eval()


def classify(model, kind, device, precision="float32"):
    source = pad_sources(list(classifiers.examples(kind))).to(device)
    differentiable(model)
    with computing(precision, device):
        output = model(source, need_weights=True)
    output.predictions.float().square().sum().backward()
    maps = {f"map {n}": block.weights for n, block in enumerate(output.attention)}
    return {"predictions": output.predictions, **maps, "gradients": gradients(model)}


@pytest.mark.parametrize("precision", all_precisions())
@pytest.mark.parametrize("case", devices.some(classifiers.cases()), ids="-".join)
def test_a_classifier_equals_the_cpu(device, case, precision):
    result = classify(classifier(*case).to(device), case[2], device, precision)
    assert_close(result, classify(classifier(*case), case[2], CPU), precision)


@pytest.mark.parametrize("answer", get_args(CountAnswer))
def test_the_counting_model_equals_the_cpu(device, answer):
    """It is trained on the CPU only."""
    settings = CountingSettings(hidden=16, max_len=4, vocab_size=2, answer=answer)
    model = build_counter(settings, 1)
    source = torch.eye(3)[torch.tensor([[0, 1, 2, 1], [2, 2, 1, 0]])]
    outputs = {"counts": model(source).predictions}
    results = {"counts": model.to(device)(source.to(device)).predictions}
    assert_close(results, outputs, "float32")
