"""Steps of recurrent decoders that run in PyTorch, with the results of the reference."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

from regard import kernels
from regard.compiled.freeze import freeze
from regard.compiled.recurrent.state import NativeState
from regard.models.contracts import Memory, Summary
from regard.models.recurrent.parts import RecurrentState
from tests.compiled.native_steps import (
    BATCH,
    assert_dropout_in_training,
    assert_hook_from_the_next_start,
    close,
    tokens_of,
)
from tests.compiled.recurrent.problems import (
    assert_equal_steps,
    assert_reference_steps,
    decoders,
    memory,
    model_of,
)

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


def test_with_gradients_steps_are_those_of_the_reference():
    reference, native = decoders()
    with torch.no_grad():
        state = native.start(memory())
    assert isinstance(state, NativeState)
    assert_reference_steps(reference, native, memory(is_padded=False))
    assert_reference_steps(reference, native, memory(), state)


@pytest.mark.parametrize("wiring", ["luong", "bahdanau"])
@torch.no_grad()
def test_the_reference_goes_on_from_a_native_state(wiring):
    """In the middle of a search, under a transform."""
    reference, native = decoders(wiring=wiring)
    ours, theirs = assert_equal_steps(reference, native, memory(), 3, 2)
    sentences = torch.tensor([1, 0])
    ours, theirs = ours.keep(sentences), theirs.keep(sentences)
    tokens = tokens_of(2, 2)
    with forward_ad.dual_level():
        output, ours = native.step(tokens, ours)
    expected, theirs = reference.step(tokens, theirs)
    assert isinstance(ours, RecurrentState)
    close(output.features, expected.features)
    close(native.step(tokens, ours)[0].features, reference.step(tokens, theirs)[0].features)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_other_types_use_the_reference(dtype):
    model = model_of(wiring="luong")
    reference, native = model.to(dtype).decoder, freeze(model, dtype).decoder
    (given,) = memory(is_padded=False)
    keys, summary = given.keys.to(dtype), given.summary
    summary = Summary(summary.hidden.to(dtype), summary.cell.to(dtype))
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-9
    memories = (Memory(keys, keys, given.mask, summary),)
    assert_reference_steps(reference, native, memories, tolerance=tolerance)


@torch.no_grad()
def test_autocast_uses_the_reference():
    reference, native = decoders()
    state = native.start(memory(is_padded=False))
    with torch.autocast("cpu", torch.bfloat16):
        assert_reference_steps(reference, native, memory(is_padded=False), tolerance=0.1)
        assert_reference_steps(reference, native, memory(is_padded=False), state, tolerance=0.1)


@torch.no_grad()
def test_hooks_use_the_reference():
    _, native = decoders()
    called = []
    native.reference.parts.output.register_forward_hook(lambda *_: called.append(1))
    native.step(tokens_of(BATCH, 1), native.start(memory()))
    assert called


@torch.no_grad()
def test_a_hook_after_the_start_is_called_from_the_next_start_on():
    """`start` reads the hooks."""
    _, native = decoders()
    assert_hook_from_the_next_start(native, memory(), native.reference.parts.output)


@torch.no_grad()
def test_a_decoder_in_training_uses_the_reference():
    """Also if the frozen decoder around it is not in training, from the start and between steps."""
    assert_dropout_in_training(freeze(model_of(dropout=0.5)).decoder, memory())
