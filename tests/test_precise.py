"""Types of sums: float32 or larger."""

import pytest
import torch

from regard.precise import at_least_float32, precise_type

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
