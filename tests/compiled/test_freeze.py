"""Frozen copies of models: replaced submodules and packed weights."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.compiled import freeze as frozen_copies
from regard.compiled.freeze import freeze
from regard.layers.recurrent.stack import RecurrentStack
from regard.numerics.linear import Linear, affine, is_packed


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5, 64, 131])
def test_packed_weights_give_the_same_products(dtype: torch.dtype, rows: int):
    layer = nn.Sequential(Linear(61, 257), nn.Tanh(), Linear(257, 67, bias=False))
    inputs = torch.randn(rows, 3, 61)
    frozen = freeze(layer, dtype)
    expected = layer.double()(inputs.double()).detach()
    exact = dict(rtol=1e-5, atol=1e-5) if dtype == torch.float32 else dict(rtol=2e-2, atol=2e-2)
    result = frozen(inputs.to(dtype))
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), expected, **exact)


def test_freezing_returns_a_copy_without_gradients():
    embedding = nn.Embedding(67, 61)
    projection = Linear(61, 67)
    projection.weight = embedding.weight  # tied: only the weight of the products is packed
    model = nn.ModuleList([embedding, projection, RecurrentStack("lstm", 61, 31)]).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    frozen = freeze(model)
    assert model.training
    assert not frozen.training
    assert all(each.requires_grad for each in model.parameters())
    assert not any(each.requires_grad for each in frozen.parameters())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    inputs, layer, cell = torch.randn(5, 61), model[2].layers[0], frozen[2].layers[0]
    torch.testing.assert_close(frozen[0].weight, embedding.weight.detach())
    expected = F.linear(inputs, layer.weight_ih_l0, layer.bias_ih_l0).detach()
    result = affine(inputs, cell.weight_ih_l0, cell.bias_ih_l0)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_frozen_model_is_frozen_again_in_any_type(dtype):
    model = nn.Sequential(Linear(96, 64), nn.ReLU(), Linear(64, 7))
    once, twice = freeze(model, dtype), freeze(freeze(model), dtype)
    inputs = torch.randn(5, 96, dtype=dtype)
    torch.testing.assert_close(twice(inputs), once(inputs))


def test_a_float64_model_is_frozen_without_packing():
    layer, inputs = Linear(61, 257).double(), torch.randn(5, 61).double()
    assert torch.equal(freeze(layer, torch.double)(inputs), layer(inputs))


class Halved(Linear):
    """Layer that reads its weight outside `affine`."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return F.linear(inputs, self.weight / 2)


def test_weights_read_by_other_code_are_not_packed():
    hooked = Linear(61, 67)
    hooked.register_forward_hook(lambda *arguments: None)
    model, inputs = nn.ModuleList([Halved(61, 67), hooked, nn.GRU(61, 31)]), torch.randn(5, 61)
    frozen = freeze(model)
    assert not any(map(is_packed, frozen.parameters()))
    torch.testing.assert_close(frozen[0](inputs), model[0](inputs).detach())
    torch.testing.assert_close(frozen[2](inputs)[0], model[2](inputs)[0].detach())


class Doubled(nn.Module):
    """Layer whose weight is twice its parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.randn(67, 61))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return F.linear(inputs, 2 * self.raw)

    def plain(self) -> Linear:
        layer = Linear(61, 67, bias=False)
        layer.weight = nn.Parameter(2 * self.raw)
        return layer


class Tripled(Doubled):
    """Subclass that computes something else."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return F.linear(inputs, 3 * self.raw)


def replace_by(monkeypatch, replacements: dict[type[nn.Module], object]) -> None:
    """Make the classes of this module replaceable."""
    monkeypatch.setitem(frozen_copies.MODULES, __name__, __name__)
    monkeypatch.setitem(globals(), "REPLACEMENTS", replacements)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layers_of_the_table_are_replaced(monkeypatch, dtype: torch.dtype):
    """Layers at several places too. Those that may compute something else stay."""
    replace_by(monkeypatch, {Doubled: Doubled.plain})
    shared, hooked = Doubled(), Doubled()
    hooked.register_forward_hook(lambda module, inputs, output: output + 1)
    model = nn.ModuleDict({"one": shared, "two": shared, "three": Tripled(), "four": hooked})
    model["inner"] = nn.Sequential(nn.Identity(), Doubled())
    inputs, frozen = torch.randn(5, 61, dtype=dtype), freeze(model, dtype)
    assert frozen["one"] is frozen["two"]
    assert {name: type(layer) for name, layer in frozen.items()} == {
        "one": Linear, "two": Linear, "three": Tripled, "four": Doubled, "inner": nn.Sequential
    }  # fmt: skip
    assert type(frozen["inner"][1]) is Linear
    assert type(model["one"]) is Doubled
    assert not any(weight.requires_grad for weight in frozen.parameters())
    for name, layer in model.items():
        expected = deepcopy(layer).to(dtype)(inputs).detach()
        torch.testing.assert_close(frozen[name](inputs), expected, rtol=1e-5, atol=1e-5)


class Step(nn.Module):
    """Module with a child."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(inputs).tanh()


class Replaced(nn.Module):
    """Module that holds the one that it replaces."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step, self.had = step, type(step.inner)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.step.inner(inputs).tanh()


class Left(Step):
    """Module without a replacement."""


def test_modules_are_replaced_after_their_children(monkeypatch):
    replacements = {Doubled: Doubled.plain, Step: Replaced, Left: lambda left: left}
    replace_by(monkeypatch, replacements)
    shared = Step(Step(Doubled()))
    model = nn.ModuleDict({"one": shared, "two": nn.Sequential(shared), "three": Left(Doubled())})
    inputs, frozen = torch.randn(5, 61), freeze(model)
    outer = frozen["one"]
    assert outer is frozen["two"][0]
    assert type(outer) is type(outer.step.inner) is Replaced
    assert outer.had is Replaced
    assert outer.step.inner.had is Linear
    assert type(frozen["three"]) is Left
    assert type(frozen["three"].inner) is Linear
    assert not any(module.training for module in frozen.modules())
    assert is_packed(outer.step.inner.step.inner.weight) == is_packed(freeze(Linear(3, 5)).weight)
    for name, layer in model.items():
        expected = layer(inputs).detach()
        torch.testing.assert_close(frozen[name](inputs), expected, rtol=1e-5, atol=1e-5)
    assert type(model["one"]) is Step
    assert type(model["one"].inner.inner) is Doubled
