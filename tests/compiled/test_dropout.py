"""Dropout by its kernel: probability, scale, gradient, and noise from the seed."""

import pytest
import torch
from torch import nn

from regard import kernels
from regard.compiled.dropout import Dropout

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_keeps_its_share_and_the_mean(dtype, share):
    torch.manual_seed(1)
    layer, ones = Dropout(share), torch.ones(211, 503, dtype=dtype, requires_grad=True)
    dropped = layer(ones)
    is_kept = dropped.detach() != 0
    assert is_kept.float().mean() == pytest.approx(1 - share, abs=0.005)
    assert dropped.dtype == dtype
    torch.testing.assert_close(dropped[is_kept], torch.full_like(dropped[is_kept], 1 / (1 - share)))
    above = torch.randn(503, 211).to(dtype).T
    (gradient,) = torch.autograd.grad(dropped, ones, above)
    torch.testing.assert_close(gradient, above * dropped.detach())


def test_masks_of_neighbours_rows_and_calls_are_independent():
    torch.manual_seed(2)
    first, second = (Dropout(0.5)(torch.ones(512, 512)).gt(0).double() - 0.5 for _ in range(2))
    for one, other in (
        (first, second),
        (first[:, :-1], first[:, 1:]),
        (first[:-1], first[1:]),
        (first[:, :-16], first[:, 16:]),
    ):
        assert abs(float((one * other).mean())) < 0.004  # four standard deviations
    assert abs(float(first.mean(0).std()) - 0.5 / 512**0.5) < 0.003


@pytest.mark.parametrize("size", [1, 15, 16, 17, 40_001])
def test_masks_depend_on_the_seed_only(size):
    best, threads_before, result = kernels.lanes(), torch.get_num_threads(), []
    for lanes in (4, 8, 16):
        if kernels.lanes(lanes) == lanes:
            for threads in (1, 2):
                torch.set_num_threads(threads)
                torch.manual_seed(3)
                result.append(Dropout(0.3)(torch.arange(1.0, size + 1)))
    kernels.lanes(best)
    torch.set_num_threads(threads_before)
    assert all(torch.equal(result[0], each) for each in result)


def test_other_devices_use_torchs_dropout():
    numbers = torch.randn(5, 7)
    assert Dropout(0.3).eval()(numbers) is numbers
    assert Dropout(0.0)(numbers) is numbers
    assert Dropout(1.0)(numbers).eq(0).all()
    changed = numbers.clone()
    assert Dropout(0.3, inplace=True)(changed) is changed
    torch.manual_seed(4)
    ours = Dropout(0.3)(numbers.double())
    torch.manual_seed(4)
    assert torch.equal(ours, nn.Dropout(0.3)(numbers.double()))
