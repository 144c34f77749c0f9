"""Properties of every encoder of text or numbers with every head."""

from itertools import product
from typing import get_args

import numpy as np
import pytest
import torch

from regard.building.classifiers import build_classifier
from regard.config import KINDS
from regard.data.labels.encoded import EncodedSource, pad_sources
from regard.names import HeadQueryKind, SourceKind
from tests import configs
from tests.contracts.choices import members, small

SIZE = 14
LENGTHS = (5, 2, 3)
NUM_WORDS, NUM_FEATURES, NUM_LABELS = 13, 3, 4
HEADS = {
    **{kind: dict(head=kind) for kind in KINDS["classify"]["head"]},
    **{
        f"attention, query {name}": dict(head="attention", query=name)
        for name in members(HeadQueryKind, "learned")[1:]
    },
    "no output layer": dict(output="none"),
}
SOURCES = {"text": (NUM_WORDS, 0), "series": (0, NUM_FEATURES), "items": (NUM_WORDS, NUM_FEATURES)}
"""Kinds of sources, with the sizes of the vocabulary and of the numbers at a position."""


def cases():
    """Every encoder of text with every head, and of series with attention. Items have no order, so
    they have one encoder; of the heads without order, only attention reads their names."""
    encoders = KINDS["classify"]["encoder"]
    yield from product(encoders, HEADS, ("text",))
    yield from product(encoders, ("attention",), ("series",))
    yield "bag_of_words", "attention", "items"


def examples(kind):
    """Return sources of different lengths."""
    generator = np.random.default_rng(3)
    for length in LENGTHS:
        ids = generator.integers(4, NUM_WORDS, length).tolist() if kind != "series" else None
        values = generator.normal(size=(length, NUM_FEATURES)).astype(np.float32)
        yield EncodedSource(ids, None if kind == "text" else values)


@pytest.fixture(params=cases(), ids="-".join)
def case(request):
    encoder, head, kind = request.param
    sizes = small(KINDS["classify"]["encoder"][encoder])
    values = dict(dropout=0.3, size=SIZE) | sizes | HEADS[head]
    torch.manual_seed(3)
    config = configs.classifier(encoder, values.pop("head", "attention"), **values)
    num_outputs = SIZE if head == "no output layer" else NUM_LABELS
    return build_classifier(config, *SOURCES[kind], num_outputs).eval(), list(examples(kind))


def test_every_kind_of_source_is_a_case():
    assert {kind for *_, kind in cases()} == set(get_args(SourceKind))


@torch.no_grad()
def test_padding_has_no_influence(case):
    model, sources = case
    together = model(pad_sources(sources), need_weights=True)
    for row, source in enumerate(sources):
        alone = model(pad_sources([source]), need_weights=True)
        torch.testing.assert_close(alone.predictions[0], together.predictions[row])
        for block, padded in zip(alone.attention, together.attention, strict=True):
            shown = padded.weights[row, :, :, : block.weights.size(3), : len(source)]
            torch.testing.assert_close(block.weights[0], shown)
            assert padded.weights[row][..., len(source) :].eq(0).all()


@torch.no_grad()
def test_weights_are_returned_only_on_request(case):
    model, sources = case
    batch = pad_sources(sources)
    plain, shown = model(batch), model(batch, need_weights=True)
    torch.testing.assert_close(plain.predictions, shown.predictions)
    assert plain.attention == ()
    for block in shown.attention:
        if block.kind == "cross":
            sums = block.weights.sum(dim=-1)
            torch.testing.assert_close(sums, torch.ones_like(sums))


def test_the_gradient_reaches_every_parameter(case):
    model, sources = case
    output = model(pad_sources(sources)).predictions
    (output * torch.arange(1.0, 1 + output.numel()).view_as(output)).sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
