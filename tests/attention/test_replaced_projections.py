"""Replaced projections and projections with hooks check their own inputs."""

import pytest
import torch
from torch import nn

from regard.attention import (
    Additive,
    Attention,
    General,
    LocalAttention,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    Predictive,
    ScaledDot,
    SharedAdditive,
)


class LowRank(nn.Module):
    """Layer with a learned update of low rank (LoRA), without the attributes of a linear layer."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.base(inputs)


def cast_input(layer: nn.Module) -> nn.Module:
    layer.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(),))
    return layer


CHANGES = {"wrapper": LowRank, "sequence": nn.Sequential, "hook": cast_input}


def heads():
    module = MultiHeadAttention(8, 8, 8, 8, 2, Attention(ScaledDot()))
    return module, lambda x: module(x, module.prepare(x, x)).context


def self_attention():
    module = MultiHeadSelfAttention(8, 2, Attention(ScaledDot()))
    return module, lambda x: module(x).context


def predictive():
    attention = LocalAttention(General(8, 8), Predictive(8, 8, 2), 2)
    return (
        attention.centre,
        lambda x: attention(x.float(), attention.prepare(x.float()), x.float()).context,
    )


def scored(score):
    attention = Attention(score)
    return score, lambda x: attention(x, attention.prepare(x), x.float()).context


MODULES = {
    "heads": (heads, ("query", "key", "value")),
    "self-attention": (self_attention, ("projection",)),
    "local": (predictive, ("hidden",)),
    "additive": (lambda: scored(Additive(8, 8, 8)), ("query", "key")),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_projection_computes_the_same(name: str, change: str):
    torch.manual_seed(3)
    make, projections = MODULES[name]
    module, attend = make()
    inputs = torch.randn(2, 5, 8)
    expected = attend(inputs)
    for projection in projections:
        setattr(module, projection, CHANGES[change](getattr(module, projection)))
    torch.testing.assert_close(attend(inputs), expected)
    if change == "hook":
        torch.testing.assert_close(attend(inputs.double()), expected.double(), check_dtype=False)


@pytest.mark.parametrize("change", ["wrapper", "sequence"])
@pytest.mark.parametrize("score", [General(8, 8), SharedAdditive(8, 8)])
def test_keys_of_a_score_go_through_a_changed_projection(score, change: str):
    keys = torch.randn(2, 5, 8)
    name = "key" if isinstance(score, General) else "shared"
    layer = getattr(score, name)
    expected = score.prepare(keys)
    setattr(score, name, CHANGES[change](layer))
    result = score.prepare(keys)
    setattr(score, name, layer)
    if not isinstance(score, General):
        result, expected = result.projected, expected.projected
    torch.testing.assert_close(result, expected)
