"""Encoder calls that run in PyTorch, with the results of the reference."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from regard import kernels
from regard.compiled.freeze import freeze
from regard.data.batch import Tokens
from tests.compiled.native_steps import assert_equal_blocks, close
from tests.compiled.transformer.encoder_problems import (
    SOURCE,
    assert_equal,
    assert_is_reference,
    encoders,
    model_of,
    source_of,
)

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


@torch.no_grad()
def test_requested_weights_are_those_of_the_reference():
    reference, native = encoders()
    result, expected = native(SOURCE, need_weights=True), reference(SOURCE, need_weights=True)
    assert_is_reference(result, expected)
    assert_equal_blocks(result, expected)


def test_with_gradients_the_reference_computes():
    reference, native = encoders()
    assert_is_reference(native(SOURCE), reference(SOURCE))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_other_types_use_the_reference(dtype):
    model = model_of()
    reference, native = model.to(dtype).encoder, freeze(model, dtype).encoder
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-9
    assert_is_reference(native(SOURCE), reference(SOURCE), tolerance)


@torch.no_grad()
def test_autocast_transforms_and_compilers_use_the_reference(monkeypatch):
    reference, native = encoders()
    with torch.autocast("cpu", torch.bfloat16):
        assert native(SOURCE).layers[-1][~SOURCE.mask].any()
    with forward_ad.dual_level():
        assert_is_reference(native(SOURCE), reference(SOURCE))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert_is_reference(native(SOURCE), reference(SOURCE))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_a_trace_has_operations_of_pytorch_only():
    """Its results depend on its inputs, which a kernel would hide."""
    reference, native = encoders()

    class States(nn.Module):
        def __init__(self):
            super().__init__()
            self.native = native

        def forward(self, ids, mask):
            return self.native(Tokens(ids, mask)).layers[-1]

    first, second = source_of(4, 3, 4), source_of(3, 4, 1, seed=4)
    traced = torch.jit.trace(States(), (first.ids, first.mask))
    close(traced(second.ids, second.mask), reference(second).layers[-1])


@torch.no_grad()
def test_without_the_library_the_reference_computes(monkeypatch):
    model = model_of()
    monkeypatch.setattr(kernels, "_LIBRARY", None)
    assert_is_reference(freeze(model).encoder(SOURCE), model.encoder(SOURCE))


@torch.no_grad()
def test_in_training_the_reference_computes():
    reference, native = encoders(dropout=0.0)
    assert_is_reference(native.train()(SOURCE), reference(SOURCE))
    assert_equal(native.eval()(SOURCE), reference(SOURCE))


@torch.no_grad()
def test_a_hook_on_a_frozen_encoder_is_called():
    _, native = encoders()
    calls = []
    layer = native.reference.layers[1].feed_forward
    handle = layer.register_forward_hook(lambda *_: calls.append(True))
    assert native(SOURCE).layers[-1][~SOURCE.mask].any()
    assert calls
    handle.remove()
    assert not native(SOURCE).layers[-1][~SOURCE.mask].any()


@torch.no_grad()
def test_an_encoder_in_training_uses_the_reference():
    """Also if the frozen encoder around it is not in training."""
    native = freeze(model_of(dropout=0.5)).encoder
    native(SOURCE)
    native.reference.train()
    results = [native(SOURCE).layers[-1] for _ in range(2)]
    assert not torch.equal(*results)
    assert results[0][~SOURCE.mask].any()


@torch.no_grad()
def test_dropout_in_training_uses_the_reference():
    """Dropout alone: samples of a model's uncertainty."""
    native = freeze(model_of(dropout=0.5)).encoder
    native(SOURCE)
    native.reference.layers[1].self_residual.dropout.train()
    results = [native(SOURCE).layers[-1] for _ in range(2)]
    assert not torch.equal(*results)
