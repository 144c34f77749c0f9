"""Every score with every normaliser on a GPU compared with the CPU."""

from __future__ import annotations

import copy
from itertools import product
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attention
from regard.names import NormaliserName, ScoreName
from tests.attention.parts import NORMALISERS, SCORES, Inputs, uneven_mask
from tests.gpu import devices
from tests.gpu.comparison import assert_close

DTYPES = {"float64": "float32", "float32": "float32", "bfloat16": "bfloat16", "float16": "bfloat16"}
"""Types of the tensors, with the precision whose error is allowed. The scores of float16 overflow
nowhere, but some of its gradients are small."""
CASES = devices.some(product(get_args(ScoreName), get_args(NormaliserName), DTYPES))


def attend(attention: nn.Module, inputs: Inputs, mask: Tensor) -> dict[str, Tensor]:
    leaves = inputs.leaves()
    queries, keys, values = leaves
    output = attention(queries, attention.prepare(keys), values, mask, need_weights=True)
    output.context.float().square().sum().backward()
    grads = [leaf.grad for leaf in leaves] + [weight.grad for weight in attention.parameters()]
    joined = torch.cat([grad.cpu().double().flatten() for grad in grads if grad is not None])
    return {"context": output.context, "weights": output.weights, "gradients": joined}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("score", "normaliser", "name"), CASES, ids="-".join)
def test_attention_equals_the_cpu(device, score, normaliser, name):
    torch.manual_seed(3)
    case, dtype = SCORES[score], getattr(torch, name)
    attention = Attention(case.make(), NORMALISERS[normaliser][0]()).to(dtype)
    inputs, mask = case.inputs(dtype), uneven_mask()
    exact = attention_in_float64(attention)
    moved = Inputs(*(tensor.to(device) for tensor in vars(inputs).values()))
    result = attend(attention.to(device), moved, mask.to(device))
    whole = Inputs(*(tensor.double() for tensor in vars(inputs).values()))
    assert_close(result, attend(exact, whole, mask), DTYPES[name])


def attention_in_float64(attention: nn.Module) -> nn.Module:
    """Return a copy, whose weights are rounded as those of the attention."""
    return copy.deepcopy(attention).double()
