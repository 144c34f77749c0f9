"""Steps of Transformers that run in PyTorch, with the results of the reference."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from regard import kernels
from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.compiled.transformer.state import NativeState
from regard.data.batch import START
from regard.models.contracts import Memory
from regard.models.transformer.decoder import TransformerState
from tests.compiled.native_steps import (
    BATCH,
    assert_equal_blocks,
    assert_reference_steps,
    close,
    tokens_of,
)
from tests.compiled.transformer.problems import (
    SIZE,
    assert_equal_steps,
    decoders,
    memory,
    model_of,
)

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


@torch.no_grad()
def test_weights_of_the_reference_go_on_from_a_native_state():
    """In the middle of a search: under a transform, or with a window."""
    for window in (None, 1):
        reference, native = decoders(window=window)
        start = native.start(memory()), reference.start(memory())
        for ours, theirs in (start, assert_equal_steps(reference, native, memory(), 3, 2)):
            branch, tokens = ours, tokens_of(*ours.slots.shape[:2])
            for _ in range(2):
                with nullcontext() if window else forward_ad.dual_level():
                    output, ours = native.step(tokens, ours, need_weights=True)
                expected, theirs = reference.step(tokens, theirs, need_weights=True)
                assert isinstance(ours, TransformerState)
                close(output.features, expected.features)
                assert_equal_blocks(output, expected)
            output, _ = native.step(tokens, ours)
            close(output.features, reference.step(tokens, theirs)[0].features)
            assert isinstance(native.step(tokens, branch)[1], NativeState)


def test_with_gradients_steps_are_those_of_the_reference():
    reference, native = decoders()
    with torch.no_grad():
        state = native.start(memory())
    assert isinstance(state, NativeState)
    assert_reference_steps(reference, native, memory(), state)
    (clean,) = memory(is_padded=False)
    keys = clean.keys.requires_grad_()
    memories = (Memory(keys, keys, clean.mask),)
    features = assert_reference_steps(reference, native, memories)
    expected, _ = reference.step(torch.full((BATCH, 1), START), reference.start(memories))
    (ours,) = torch.autograd.grad(features.sin().sum(), keys)
    (theirs,) = torch.autograd.grad(expected.features.sin().sum(), keys)
    close(ours, theirs)


@torch.no_grad()
def test_keys_that_are_not_the_values_use_the_reference():
    reference, native = decoders()
    (given,) = memory(is_padded=False)
    assert_reference_steps(reference, native, (replace(given, values=given.keys.flip(1)),))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_a_trace_has_operations_of_pytorch_only():
    """Its results depend on its inputs, which a kernel would hide."""
    reference, native = decoders()

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.native = native

        def forward(self, keys, mask, tokens):
            state = self.native.start((Memory(keys, keys, mask),))
            _, state = self.native.step(tokens, state)
            features = self.native.step(tokens, state)[0].features
            return self.native.project(features)

    (first,), (second,) = memory(is_padded=False), memory()
    second = replace(second, keys=second.keys.nan_to_num())
    tokens = torch.full((BATCH, 1), START)
    traced = torch.jit.trace(Two(), (first.keys, second.mask, tokens))
    memories = (Memory(second.keys, second.keys, second.mask),)
    _, state = reference.step(tokens, reference.start(memories))
    expected = reference.project(reference.step(tokens, state)[0].features)
    close(traced(second.keys, second.mask, tokens), expected)


@torch.no_grad()
def test_on_the_meta_device_steps_have_shapes():
    native = NativeTransformerDecoder(model_of().decoder).eval().to("meta")
    (given,) = memory()
    keys = given.keys.to("meta")
    state = native.start((Memory(keys, keys, given.mask.to("meta")),))
    output, _ = native.step(torch.full((BATCH, 1), START, device="meta"), state)
    assert output.features.shape == (BATCH, 1, SIZE)
    assert output.features.is_meta


@torch.no_grad()
def test_a_hook_on_the_projection_is_called():
    _, native = decoders()
    features, calls = torch.randn(BATCH, 2, SIZE), []
    expected = native.project(features)
    handle = native.projection.register_forward_hook(lambda *_: calls.append(True))
    assert torch.equal(native.project(features), expected)
    assert calls == [True]
    handle.remove()
    assert torch.equal(native.project(features), expected)
    assert calls == [True]
