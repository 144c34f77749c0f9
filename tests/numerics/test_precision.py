"""Sums and exponentials in float32 or larger types."""

import pytest
import torch

from regard.numerics.precision import at_least_float32, log_of_mean, precise_type

TYPES = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}


@pytest.mark.parametrize(("dtype", "expected"), TYPES.items())
def test_half_precision_becomes_float32(dtype, expected):
    numbers = torch.tensor([0.5, -2.0], dtype=dtype)
    assert precise_type(dtype) == expected
    assert at_least_float32(numbers).dtype == expected
    assert torch.equal(at_least_float32(numbers), numbers.to(expected))


@pytest.mark.parametrize(("dtype", "expected"), TYPES.items())
def test_probabilities_are_averaged_and_not_their_logarithms(dtype, expected):
    logits = [
        torch.tensor([[0.0, 2.0, -1.0]], dtype=dtype),
        torch.tensor([[1.0, 1, 9]], dtype=dtype),
    ]
    logs = log_of_mean(logits)
    mean = sum(model.double().softmax(dim=-1) for model in logits) / 2
    assert logs.dtype == expected
    torch.testing.assert_close(logs.double().exp(), mean, rtol=1e-5, atol=1e-6)
