"""Products of matrices against those in double precision, in every layout."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regard.products import linear, multiply


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
