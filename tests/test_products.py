"""Products of matrices against those in double precision, in every layout."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regard.products import Linear, linear, multiply, outer


@pytest.mark.parametrize("sizes", [(3, 200, 150, 160), (2, 5, 7, 3), (1, 150, 200, 1000)])
@pytest.mark.parametrize("turned", [False, True])
def test_products_are_right(sizes: tuple[int, int, int, int], turned: bool):
    batch, rows, inner, columns = sizes
    left, right = torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)
    expected = (left.double() @ right.double()).float()
    if turned:
        left, right = (each.mT.contiguous().mT for each in (left, right))
    torch.testing.assert_close(multiply(left, right), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("sizes", [(64, 256, 768), (3, 5, 7), (1, 300, 4000), (300, 700, 64)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_is_right(sizes: tuple[int, int, int], turned: bool, with_bias: bool):
    rows, inner, columns = sizes
    inputs, weight = torch.randn(rows, inner), torch.randn(columns, inner)
    bias = torch.randn(columns) if with_bias else None
    expected = F.linear(inputs.double(), weight.double(), None if bias is None else bias.double())
    if turned:
        inputs, weight = (each.T.contiguous().T for each in (inputs, weight))
    torch.testing.assert_close(linear(inputs, weight, bias), expected.float(), rtol=1e-5, atol=3e-4)


def test_double_precision_stays_double():
    inputs, weight = torch.randn(64, 256).double(), torch.randn(512, 256).double()
    assert torch.equal(linear(inputs, weight), inputs @ weight.T)


@pytest.mark.parametrize("sizes", [(64, 256, 768), (300, 700, 64), (3, 5, 7), (900, 64, 64)])
@pytest.mark.parametrize("turned", [False, True])
def test_outer_is_right(sizes: tuple[int, int, int], turned: bool):
    rows, columns, inner = sizes
    left, right = torch.randn(rows, columns), torch.randn(rows, inner)
    expected = (left.double().T @ right.double()).float()
    if turned:
        left, right = (each.T.contiguous().T for each in (left, right))
    torch.testing.assert_close(outer(left, right), expected, rtol=1e-5, atol=3e-4)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_layer_is_torchs_with_its_gradients(bias: bool, dtype: torch.dtype):
    torch.manual_seed(1)
    layer, above = Linear(256, 300, bias=bias), torch.randn(4, 50, 300)
    inputs = torch.randn(4, 50, 256, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = layer(inputs)
    expected = inputs.double() @ layer.weight.double().T
    if bias:
        expected = expected + layer.bias.double()
    assert found.dtype == dtype
    exact = dict(rtol=1e-5, atol=1e-3) if dtype == torch.float32 else dict(rtol=0.03, atol=0.3)
    torch.testing.assert_close(found.double(), expected, **exact)
    wanted = [inputs, *layer.parameters()]
    ours = torch.autograd.grad(found, wanted, above.to(dtype))
    for mine, theirs in zip(
        ours, torch.autograd.grad(expected, wanted, above.double()), strict=True
    ):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, theirs, **exact)
