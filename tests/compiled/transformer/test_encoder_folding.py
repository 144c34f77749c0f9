"""Encoders that are replaced on freezing, and copies of replaced encoders."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard import kernels
from regard.attention import SlidingWindow
from regard.compiled.freeze import freeze
from regard.compiled.transformer.encoder import NativeTransformerEncoder
from regard.compiled.transformer.support import is_supported
from regard.data.batch import pad
from regard.layers.positions import Rotary
from regard.models.ensemble import Ensemble
from regard.models.transformer import TransformerEncoder
from regard.models.transformer.encoder import EncoderLayer
from tests.compiled.native_steps import close, copies_of
from tests.compiled.transformer import problems
from tests.compiled.transformer.encoder_problems import (
    SOURCE,
    assert_equal,
    assert_is_reference,
    encoders,
    model_of,
)
from tests.compiled.transformer.problems import OTHER_MODELS, SIZE, replaced

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


def test_a_frozen_model_is_copied_and_pickled():
    model = model_of()
    frozen = freeze(model)
    with torch.no_grad():
        expected = frozen.encoder(SOURCE).layers
    copies = [*copies_of(frozen), freeze(frozen)]
    del frozen, model
    for duplicate in copies:
        assert duplicate.encoder._weights is None
        assert type(duplicate.encoder.reference) is TransformerEncoder
        with torch.no_grad():
            layers = duplicate.encoder(SOURCE).layers
        assert duplicate.encoder._weights is not None
        for ours, theirs in zip(layers, expected, strict=True):
            assert torch.equal(ours, theirs)


@torch.no_grad()
def test_replaced_parameters_leave_no_dangling_address():
    """The next call and a conversion make new structures."""
    reference, native = encoders(norm="pre")
    native(SOURCE)
    weights = native._weights
    for module in native.reference.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight = nn.Parameter(module.weight.clone(), requires_grad=False)
            module.bias.data = module.bias.data.clone()
    filler = [torch.full((SIZE,), math.nan) for _ in range(100)]
    assert_equal(native(SOURCE), reference(SOURCE))
    assert native._weights not in (None, weights)
    assert len(filler) == 100
    native.reference.norm.weight.mul_(2)
    native.float()
    assert native._weights is None
    reference.norm.weight.mul_(2)
    assert_equal(native(SOURCE), reference(SOURCE))


class Reversed(EncoderLayer):
    """Encoder layer with another formula."""


class OtherEncoder(TransformerEncoder):
    """Encoder with another formula."""


CHANGES = {
    **problems.CHANGES,
    "window": replaced("span", SlidingWindow(3)),
    "class": lambda encoder: setattr(encoder, "__class__", OtherEncoder),
    "class of a layer": lambda encoder: setattr(encoder.layers[1], "__class__", Reversed),
    "other number of heads": replaced("layers.1.self_attention.heads.num_heads", 2),
    "rotation of odd sizes": lambda encoder: (
        setattr(encoder.embedder, "positions", Rotary()),
        [setattr(layer.self_attention.heads, "num_heads", 2) for layer in encoder.layers],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_encoders_with_other_parts_are_not_folded(name):
    encoder = model_of().encoder
    assert is_supported(encoder)
    CHANGES[name](encoder)
    assert not is_supported(encoder)
    assert NativeTransformerEncoder.replacing(encoder) is encoder
    with pytest.raises(ValueError, match="Encoder: a part has no kernel"):
        NativeTransformerEncoder(encoder)


@torch.no_grad()
def test_parts_without_a_kernel_use_the_reference():
    """Parts that are replaced before the first call, or before the model is frozen again."""
    for name in ("norm", "last norm", "no layers", "window", "other temperature"):
        frozen = freeze(model_of())
        native = frozen.encoder
        CHANGES[name](native.reference)
        result, expected = native(SOURCE), native.reference(SOURCE)
        assert_is_reference(result, expected)
        assert type(freeze(frozen).encoder) is TransformerEncoder


@torch.no_grad()
def test_a_frozen_encoder_that_is_not_folded_again_has_one_reference():
    """Because it has a hook, or is the whole model that is frozen."""
    reference, native = encoders()
    assert_equal(freeze(native)(SOURCE), reference(SOURCE))
    frozen = freeze(model_of())
    frozen.encoder.register_forward_hook(lambda *_: None)
    again = freeze(frozen).encoder
    assert type(again.reference) is TransformerEncoder
    assert_equal(again(SOURCE), reference(SOURCE))


@pytest.mark.parametrize(
    "values", [*OTHER_MODELS.values(), dict(window=2)], ids=[*OTHER_MODELS, "window"]
)
def test_other_models_are_not_folded(values):
    assert type(freeze(model_of(**values)).encoder) is TransformerEncoder


@torch.no_grad()
def test_linear_layers_may_have_no_bias():
    model = model_of()
    for layer in model.encoder.layers:
        layer.feed_forward.inner.bias = layer.self_attention.projection.bias = None
    assert_equal(freeze(model).encoder(SOURCE), model.encoder(SOURCE))


def test_every_member_of_an_ensemble_has_a_native_encoder():
    ensemble = Ensemble([model_of(), model_of(positions="rotary")])
    natives = [x for x in freeze(ensemble).modules() if isinstance(x, NativeTransformerEncoder)]
    assert len(natives) == 2
    source = pad([[4, 5, 6], [7]])
    with torch.no_grad():
        ours, theirs = (each.encode(source) for each in (freeze(ensemble), ensemble))
    for mine, other in zip(ours, theirs, strict=True):
        close(mine.keys[source.mask], other.keys[source.mask])
