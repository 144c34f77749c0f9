"""Transformer decoders that are replaced on freezing, and copies of replaced decoders."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard import kernels
from regard.building import build_translation
from regard.compiled.freeze import freeze
from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.compiled.transformer.state import NativeState
from regard.compiled.transformer.support import is_supported
from regard.data.batch import START
from regard.models.transformer import TransformerDecoder
from regard.models.transformer.decoder import DecoderLayer
from tests import configs
from tests.compiled.native_steps import (
    BATCH,
    VOCABULARY,
    assert_one_reference,
    assert_reference_steps,
    close,
    copies_of,
    features_of,
)
from tests.compiled.transformer import problems
from tests.compiled.transformer.problems import (
    CONFIG,
    OTHER_MODELS,
    SIZE,
    assert_equal_steps,
    decoders,
    hooked,
    memory,
    model_of,
    replaced,
)

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


def test_a_frozen_model_is_copied_and_pickled():
    model = model_of()
    frozen = freeze(model)
    with torch.no_grad():
        expected, _ = features_of(frozen.decoder, memory())
    copies = [*copies_of(frozen), freeze(frozen)]
    del frozen, model
    for duplicate in copies:
        assert duplicate.decoder._weights is None
        assert type(duplicate.decoder.reference) is TransformerDecoder
        with torch.no_grad():
            features, state = features_of(duplicate.decoder, memory())
        assert isinstance(state, NativeState)
        for ours, theirs in zip(features, expected, strict=True):
            assert torch.equal(ours, theirs)


@torch.no_grad()
def test_replaced_parameters_leave_no_dangling_address():
    """The structures keep the numbers that they refer to; a conversion makes new structures."""
    reference, native = decoders(norm="pre")
    state = native.start(memory())
    weights = native._weights
    for module in native.reference.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight = nn.Parameter(module.weight.clone(), requires_grad=False)
            module.bias.data = module.bias.data.clone()
    filler = [torch.full((SIZE,), math.nan) for _ in range(100)]
    output, _ = native.step(torch.full((BATCH, 1), START), state)
    assert native._weights is weights
    expected, _ = reference.step(torch.full((BATCH, 1), START), reference.start(memory()))
    close(output.features, expected.features)
    assert len(filler) == 100
    native.reference.norm.weight.mul_(2)
    native.float()
    assert native._weights is None
    output, _ = native.step(torch.full((BATCH, 1), START), native.start(memory()))
    reference.norm.weight.mul_(2)
    expected, _ = reference.step(torch.full((BATCH, 1), START), reference.start(memory()))
    close(output.features, expected.features)


class Reversed(DecoderLayer):
    """Decoder layer with another formula."""


class OtherDecoder(TransformerDecoder):
    """Decoder with another step."""


CHANGES = {
    **problems.CHANGES,
    "norm of cross-attention": replaced(
        "layers.0.cross_residual.norm", nn.LayerNorm(SIZE, bias=False)
    ),
    "projection": replaced("projection", nn.Linear(SIZE, VOCABULARY)),
    "largest norm of embeddings": replaced("embedder.embedding.max_norm", 1.0),
    "hook of cross-attention": hooked("layers.1.cross_attention.heads"),
    "temperature of cross-attention": replaced(
        "layers.1.cross_attention.heads.attention.normaliser.temperature", 2.0
    ),
    "class": lambda decoder: setattr(decoder, "__class__", OtherDecoder),
    "class of a layer": lambda decoder: setattr(decoder.layers[1], "__class__", Reversed),
}


@pytest.mark.parametrize("name", CHANGES)
def test_decoders_with_other_parts_are_not_folded(name):
    decoder = model_of().decoder
    assert is_supported(decoder)
    CHANGES[name](decoder)
    assert not is_supported(decoder)
    assert NativeTransformerDecoder.replacing(decoder) is decoder
    with pytest.raises(ValueError, match="Decoder: a part has no kernel"):
        NativeTransformerDecoder(decoder)


@pytest.mark.parametrize("values", OTHER_MODELS.values(), ids=OTHER_MODELS)
def test_other_models_are_not_folded(values):
    model = model_of(**values)
    assert not is_supported(model.decoder)
    assert type(freeze(model).decoder) is TransformerDecoder


def test_dropout_of_attention_has_no_effect_on_folding():
    model = build_translation(configs.changed(CONFIG, attention=dict(dropout=0.3)), 13, VOCABULARY)
    assert isinstance(freeze(model).decoder, NativeTransformerDecoder)
    assert isinstance(model.decoder, TransformerDecoder)


@torch.no_grad()
def test_linear_layers_may_have_no_bias():
    model = model_of()
    for layer in model.decoder.layers:
        layer.cross_attention.key.bias = None
        layer.feed_forward.inner.bias = layer.self_attention.projection.bias = None
    assert_equal_steps(model.decoder, freeze(model).decoder, memory())


@torch.no_grad()
def test_parts_without_a_kernel_use_the_reference():
    """Parts that are replaced before the first call, or before the model is frozen again."""
    for name in ("norm", "last norm", "torch's linear", "temperature of cross-attention"):
        frozen = freeze(model_of())
        native = frozen.decoder
        CHANGES[name](native.reference)
        assert_reference_steps(native.reference, native, memory())
        assert type(freeze(frozen).decoder) is TransformerDecoder


@torch.no_grad()
def test_a_frozen_decoder_that_is_not_folded_again_has_one_reference():
    model = model_of()
    assert_one_reference(
        freeze(model),
        TransformerDecoder,
        lambda decoder: assert_equal_steps(model.decoder, decoder, memory(), 2, 2),
    )
