import math

import pytest
import torch
from torch import nn

from regard.first_weights import glorot_uniform


@pytest.mark.parametrize("num_parts", [1, 3])
def test_each_of_the_stacked_matrices_is_uniform_up_to_glorots_bound(num_parts):
    torch.manual_seed(1)
    linear = nn.Linear(53, num_parts * 59)
    glorot_uniform(linear, num_parts)
    bound = math.sqrt(6 / (53 + 59))
    for part in linear.weight.chunk(num_parts):
        assert 0.98 * bound < part.abs().max() <= bound
        assert part.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert linear.bias.eq(0).all()
