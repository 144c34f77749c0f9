import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from regard.numerics.linear import glorot_uniform, meta_device


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


def test_shapes_alone_take_no_memory_and_no_compiler():
    """PyTorch draws normal numbers on the meta device by its compiler, whose import takes a
    second."""
    script = """
import sys
from torch import nn
from regard.numerics.linear import meta_device
with meta_device():
    module = nn.Embedding(1 << 40, 7)
    nn.init.normal_(module.weight, std=0.5)
print(module.weight.device, *module.weight.shape, "torch._dynamo" in sys.modules)
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["meta", str(1 << 40), "7", "False"]


def test_outside_of_shapes_alone_numbers_are_drawn():
    with meta_device():
        drawn = torch.empty(7, device="cpu").fill_(torch.nan).normal_()
    assert drawn.isfinite().all()
    assert nn.Embedding(3, 5).weight.device.type == "cpu"
