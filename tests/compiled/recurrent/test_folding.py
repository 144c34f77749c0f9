"""Recurrent decoders that are replaced on freezing, and copies of replaced decoders."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard import kernels
from regard.compiled.freeze import freeze
from regard.compiled.recurrent.decoder import NativeRecurrentDecoder
from regard.compiled.recurrent.support import is_supported
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.recurrent.decoders import BahdanauDecoder, LuongDecoder
from tests.compiled.native_steps import BATCH, assert_one_reference, copies_of, tokens_of
from tests.compiled.recurrent.problems import (
    SIZE,
    assert_equal_steps,
    assert_reference_steps,
    decoders,
    memory,
    model_of,
)

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


class Doubled(nn.Module):
    """Output layer of another class."""

    feature_size = SIZE

    def forward(self, state, context, embedded):
        return 2 * state


@pytest.mark.parametrize(
    "values",
    [
        dict(gate=True),
        dict(query="input"),
        dict(query="learned"),
        dict(attention=dict(normaliser="sparsemax")),
        dict(attention=dict(score="cosine")),
        dict(attention=dict(score="coverage")),
        dict(attention=dict(score="location")),
        dict(attention=dict(sampling="hard")),
        dict(attention=dict(scope="local_m")),
        dict(wiring="plain"),
        dict(wiring="gnmt", decoder_layers=2),
    ],
    ids=lambda values: "-".join(map(str, values)),
)
def test_decoders_with_other_parts_are_not_replaced(values):
    model = model_of(**values)
    assert type(freeze(model).decoder) is type(model.decoder)


@pytest.mark.usefixtures("unchecked")
def test_replaced_parts_and_hooks_are_not_replaced():
    for change in ("output", "stack", "hook"):
        decoder = model_of().decoder
        if change == "output":
            decoder.parts.output = Doubled()
        elif change == "stack":
            stack = decoder.parts.stack
            decoder.parts.stack = type("Other", (RecurrentStack,), {})(
                "lstm", stack.input_size, SIZE
            )
        else:
            decoder.parts.register_forward_pre_hook(lambda *_: None)
        assert not is_supported(decoder)
        assert NativeRecurrentDecoder.replacing(decoder) is decoder
        with pytest.raises(ValueError, match="a part has no kernel"):
            NativeRecurrentDecoder(decoder)


@torch.no_grad()
def test_copies_and_pickles_are_packed_again():
    reference, native = decoders()
    native.step(tokens_of(BATCH, 1), native.start(memory()))
    for duplicate in copies_of(native):
        assert isinstance(duplicate, NativeRecurrentDecoder)
        assert_equal_steps(reference, duplicate, memory(), 2, 2)


@torch.no_grad()
def test_a_model_may_be_frozen_twice():
    model = model_of()
    native = freeze(freeze(model)).decoder
    assert isinstance(native.reference, LuongDecoder)
    assert_equal_steps(model.decoder, native, memory(), 2, 2)


@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_parts_without_a_kernel_use_the_reference():
    """Parts that are replaced before the first call, or before the model is frozen again."""
    frozen = freeze(model_of(output="state", wiring="bahdanau"))
    native = frozen.decoder
    native.reference.parts.output = Doubled()
    assert_reference_steps(native.reference, native, memory(is_padded=False))
    assert type(freeze(frozen).decoder) is BahdanauDecoder


@torch.no_grad()
def test_a_frozen_decoder_that_is_not_folded_again_has_one_reference():
    model = model_of()
    assert_one_reference(
        freeze(model),
        LuongDecoder,
        lambda decoder: assert_equal_steps(model.decoder, decoder, memory(), 2, 2),
    )
