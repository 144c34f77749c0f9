"""Matrix products equal those in float64, in every memory layout."""

from __future__ import annotations

import pickle
from copy import deepcopy

import pytest
import torch
from torch.nn import functional as F

from regard import kernels
from regard.compiled.freeze import freeze
from regard.numerics import linear as linear_module
from regard.numerics.linear import (
    Linear,
    PackedWeight,
    batch_matmul,
    is_packed,
    linear,
    round_rows_down,
    round_rows_up,
    weight_gradient,
    working_type,
)


@pytest.mark.parametrize("sizes", [(3, 200, 150, 160), (2, 5, 7, 3), (1, 150, 200, 1000)])
@pytest.mark.parametrize("turned", [False, True])
def test_products_equal_those_of_numpy(sizes: tuple[int, int, int, int], turned: bool):
    batch, rows, inner, columns = sizes
    left, right = torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)
    expected = (left.double() @ right.double()).float()
    if turned:
        left, right = (each.mT.contiguous().mT for each in (left, right))
    torch.testing.assert_close(batch_matmul(left, right), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("sizes", [(64, 256, 768), (3, 5, 7), (1, 300, 4000), (300, 700, 64)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_equals_numpy(sizes: tuple[int, int, int], turned: bool, with_bias: bool):
    rows, inner, columns = sizes
    inputs, weight = torch.randn(rows, inner), torch.randn(columns, inner)
    bias = torch.randn(columns) if with_bias else None
    expected = F.linear(inputs.double(), weight.double(), None if bias is None else bias.double())
    if turned:
        inputs, weight = (each.T.contiguous().T for each in (inputs, weight))
    torch.testing.assert_close(linear(inputs, weight, bias), expected.float(), rtol=1e-5, atol=3e-4)


def test_float64_stays_float64():
    inputs, weight = torch.randn(64, 256).double(), torch.randn(512, 256).double()
    assert torch.equal(linear(inputs, weight), inputs @ weight.T)


@pytest.mark.parametrize("sizes", [(64, 256, 768), (300, 700, 64), (3, 5, 7), (900, 64, 64)])
@pytest.mark.parametrize("turned", [False, True])
def test_outer_products_equal_numpy(sizes: tuple[int, int, int], turned: bool):
    rows, columns, inner = sizes
    left, right = torch.randn(rows, columns), torch.randn(rows, inner)
    expected = (left.double().T @ right.double()).float()
    if turned:
        left, right = (each.T.contiguous().T for each in (left, right))
    torch.testing.assert_close(weight_gradient(left, right), expected, rtol=1e-5, atol=3e-4)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_layer_and_its_gradients_equal_those_of_torch(bias: bool, dtype: torch.dtype):
    torch.manual_seed(1)
    layer, above = Linear(256, 300, bias=bias), torch.randn(4, 50, 300)
    inputs = torch.randn(4, 50, 256, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        result = layer(inputs)
    expected = inputs.double() @ layer.weight.double().T
    if bias:
        expected = expected + layer.bias.double()
    assert result.dtype == dtype
    exact = dict(rtol=1e-5, atol=1e-3) if dtype == torch.float32 else dict(rtol=0.03, atol=0.3)
    torch.testing.assert_close(result.double(), expected, **exact)
    wanted = [inputs, *layer.parameters()]
    ours = torch.autograd.grad(result, wanted, above.to(dtype))
    for mine, theirs in zip(
        ours, torch.autograd.grad(expected, wanted, above.double()), strict=True
    ):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, theirs, **exact)


@pytest.mark.parametrize("autocast", [False, True])
def test_a_large_vector_works_without_a_batch(autocast: bool):
    layer, vector = Linear(1024, 1030), torch.randn(1024, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result, expected = layer(vector), F.linear(vector, layer.weight, layer.bias)
    exact = dict(rtol=0.03, atol=0.03) if autocast else dict(rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(result, expected, **exact)
    wanted, above = [vector, *layer.parameters()], torch.randn(1030).to(result.dtype)
    theirs = torch.autograd.grad(expected, wanted, above)
    for mine, other in zip(torch.autograd.grad(result, wanted, above), theirs, strict=True):
        torch.testing.assert_close(mine, other, **exact)


@pytest.mark.parametrize("sizes", [(3, 5, 7), (64, 256, 768)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_under_autocast_the_type_is_that_of_torch(sizes: tuple[int, ...], dtype: torch.dtype):
    rows, inner, columns = sizes
    layer, inputs = Linear(inner, columns).to(dtype), torch.randn(rows, inner).to(dtype)
    with torch.autocast("cpu", torch.bfloat16):
        expected = F.linear(inputs, layer.weight, layer.bias)
        assert working_type(inputs) == expected.dtype
        torch.testing.assert_close(layer(inputs), expected, rtol=0.03, atol=0.03)


@pytest.mark.parametrize(
    ("num_rows", "multiple", "expected"),
    [(0, 8, 0), (1, 8, 8), (8, 8, 8), (9, 8, 16), (65, 64, 128)],
)
def test_row_counts_are_rounded_up_to_a_multiple(num_rows: int, multiple: int, expected: int):
    assert round_rows_up(num_rows, multiple) == expected


def test_row_counts_are_rounded_down_to_few_values():
    rounded = [round_rows_down(num_rows) for num_rows in (1, 7, 9, 15, 21, 31, 47, 65, 200)]
    assert rounded == [1, 7, 8, 14, 20, 28, 40, 64, 192]
    numbers = {round_rows_down(num_rows) for num_rows in range(1, 1024)}
    assert len(numbers) < 100
    assert all(round_rows_down(number) == number for number in numbers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_weights_are_recognised(dtype: torch.dtype):
    """float32 weights are in panels, others in oneDNN's layout."""
    layer = Linear(61, 257)
    assert not is_packed(layer.weight)
    has_panels = dtype == torch.float32 and kernels.available()
    frozen = freeze(layer, dtype)
    assert is_packed(frozen.weight) == (has_panels or dtype in linear_module._types())
    assert frozen.weight.is_mkldnn == (is_packed(frozen.weight) and not has_panels)
    for other in (deepcopy(frozen), pickle.loads(pickle.dumps(frozen)), freeze(frozen, dtype)):
        assert is_packed(other.weight) == is_packed(frozen.weight)
        if isinstance(frozen.weight, PackedWeight):
            assert torch.equal(other.weight.plain(), layer.weight.to(dtype))


def test_products_with_packed_weights_have_gradients_of_their_inputs():
    layer, inputs = Linear(61, 257), torch.randn(5, 61, requires_grad=True)
    frozen, above = freeze(layer), torch.randn(5, 257)
    (expected,) = torch.autograd.grad(layer(inputs), inputs, above)
    (gradient,) = torch.autograd.grad(frozen(inputs), inputs, above)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-5)


def test_under_autocast_packed_weights_have_the_type_of_torch():
    layer, inputs = Linear(61, 257), torch.randn(5, 61)
    frozen = freeze(layer)
    with torch.autocast("cpu", torch.bfloat16):
        for numbers in (inputs, inputs.bfloat16()):
            result, expected = frozen(numbers), layer(numbers)
            assert result.dtype == expected.dtype == torch.bfloat16
            torch.testing.assert_close(result, expected, rtol=0.03, atol=0.03)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_trace_of_a_packed_weight_depends_on_its_inputs():
    frozen, inputs = freeze(Linear(61, 257)), torch.randn(5, 61)
    traced = torch.jit.trace(frozen, torch.zeros(5, 61))
    torch.testing.assert_close(traced(inputs), frozen(inputs), rtol=1e-5, atol=1e-5)
