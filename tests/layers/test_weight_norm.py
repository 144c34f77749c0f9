"""Weight normalisation, against a loop and PyTorch's own."""

import torch
from torch import nn
from torch.nn.utils import parametrizations

from regard.compiled.freeze import freeze
from regard.layers.gradients import scale_gradient
from regard.layers.weight_norm import NormalisedLinear
from regard.numerics.linear import Linear
from tests.oracles import convolution as oracle


def layer():
    torch.manual_seed(3)
    layer = NormalisedLinear(5, 7, std=0.5).double()
    layer.gain.data.uniform_(0.5, 2)
    layer.bias.data.normal_()
    return layer


def test_the_weight_is_the_gain_times_the_unit_direction():
    part = layer()
    expected = oracle.normalised(part.direction.detach().numpy(), part.gain.detach().numpy())
    torch.testing.assert_close(part.weight.detach(), torch.from_numpy(expected))


def test_gradients_equal_those_of_pytorchs_weight_norm():
    part, judge = layer(), parametrizations.weight_norm(nn.Linear(5, 7).double())
    parts = judge.parametrizations.weight
    parts.original0.data = part.gain.data[:, None].clone()
    parts.original1.data = part.direction.data.clone()
    judge.bias.data = part.bias.data.clone()
    inputs = torch.randn(3, 5, dtype=torch.float64)
    for each in (part, judge):
        each(inputs).square().sum().backward()
    torch.testing.assert_close(part.gain.grad, parts.original0.grad[:, 0])
    torch.testing.assert_close(part.direction.grad, parts.original1.grad)
    torch.testing.assert_close(part.bias.grad, judge.bias.grad)


def test_the_first_weight_has_the_standard_deviation_it_was_drawn_with():
    torch.manual_seed(3)
    part = NormalisedLinear(300, 200, std=0.05)
    assert torch.equal(part.bias, torch.zeros(200))
    torch.testing.assert_close(part.weight, part.direction)
    torch.testing.assert_close(part.weight.std(), torch.tensor(0.05), rtol=0.02, atol=0)


def test_a_frozen_model_has_plain_layers_of_the_same_numbers():
    model = nn.Sequential(layer(), nn.ReLU())
    inputs = torch.randn(3, 5, dtype=torch.float64)
    frozen = freeze(model, torch.float64)
    assert type(frozen[0]) is Linear
    torch.testing.assert_close(frozen(inputs), model(inputs))


def test_a_scaled_gradient_changes_no_number():
    numbers = torch.randn(7, requires_grad=True)
    scaled = scale_gradient(numbers, 1 / 3)
    assert torch.equal(scaled, numbers)
    scaled.square().sum().backward()
    torch.testing.assert_close(numbers.grad, 2 * numbers.detach() / 3)
