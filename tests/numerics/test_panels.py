"""Products with weights in panels equal those in float64. A row has the same result in a product of
any number of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import kernels
from regard.compiled.freeze import freeze
from regard.names import Activation
from regard.numerics.linear import Linear, PackedWeight, panels_of
from regard.numerics.panels import ACTIVATIONS, ActivationName, Panels

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

ACTIVATION = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu}
SHAPES = [
    (3,),
    (1, 3),
    (0, 3),
    (5, 3),
    (2, 0, 3),
    (2, 5, 1),
    (2, 1, 3, 37),
    (17,),
    (31, 67),
    (7, 0),
]
"""Shapes of inputs: leading axes, then the inner size."""


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def layouts(tensor: Tensor) -> dict[str, Tensor]:
    """Return the tensor in several memory layouts."""
    strided = tensor.new_full((*tensor.shape[:-1], 2 * tensor.size(-1) + 1), torch.nan)
    strided = strided[..., 1::2]
    strided.copy_(tensor)
    negated = torch._neg_view(-tensor)
    views = {"dense": tensor, "strided": strided, "negated": negated}
    if tensor.dim() > 1:
        views["transposed"] = tensor.mT.contiguous().mT
    return views


def close(result: Tensor, expected: Tensor) -> None:
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("columns", [0, 1, 7, 37, 64])
@pytest.mark.usefixtures("instruction_set")
def test_products_equal_those_in_float64(shape: tuple[int, ...], columns: int):
    inputs, weight = numbers(*shape), numbers(columns, shape[-1])
    bias, add = numbers(columns), numbers(*shape[:-1], columns)
    panels = Panels.of(weight)
    exact = inputs.double() @ weight.double().T
    close(panels.product(inputs), exact)
    for name in ACTIVATIONS:
        activated = ACTIVATION[name](exact + bias.double())
        close(panels.product(inputs, bias, name), activated)
        close(panels.product(inputs, bias, name, add), activated + add.double())
    close(panels.product(inputs, add=add), exact + add.double())


@pytest.mark.usefixtures("instruction_set")
def test_products_of_several_groups_of_panels():
    inputs, weight = numbers(31, 515), numbers(1101, 515)
    close(Panels.of(weight).product(inputs), inputs.double() @ weight.double().T)


@pytest.mark.parametrize("layout", ["dense", "strided", "negated", "transposed"])
def test_arguments_may_have_any_memory_layout(layout: str):
    inputs, weight, bias, add = numbers(2, 3, 5), numbers(7, 5), numbers(7), numbers(2, 3, 7)
    expected = Panels.of(weight).product(inputs, bias, "relu", add)
    inputs, weight, bias, add = (
        layouts(x).get(layout, x).requires_grad_() for x in (inputs, weight, bias, add)
    )
    before = [x.detach().clone() for x in (inputs, weight, bias, add)]
    result = Panels.of(weight).product(inputs, bias, "relu", add)
    assert torch.equal(result, expected)
    assert not result.requires_grad
    for argument, copy in zip((inputs, weight, bias, add), before, strict=True):
        assert torch.equal(argument, copy)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("instruction_set")
def test_a_row_has_one_result_in_any_product(threads: int):
    """Rows alone and among others, on one thread and on several."""
    inputs, panels, bias = numbers(31, 131), Panels.of(numbers(277, 131)), numbers(277)
    at_first = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        expected = panels.product(inputs, bias, "gelu")
        torch.set_num_threads(1)
        for count in range(32):
            assert torch.equal(panels.product(inputs[:count], bias, "gelu"), expected[:count])
            assert torch.equal(panels.product(inputs[count:], bias, "gelu"), expected[count:])
    finally:
        torch.set_num_threads(at_first)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.usefixtures("instruction_set")
def test_nan_and_inf_stay_in_their_row_or_column(value: float, activation: ActivationName):
    inputs, weight, bias = numbers(13, 5), numbers(37, 5), numbers(37)
    inputs[3, 1] = weight[17, 2] = bias[29] = value
    result = Panels.of(weight).product(inputs, bias, activation)
    rows, columns = torch.arange(13) != 3, [i for i in range(37) if i not in (17, 29)]
    assert result[rows][:, columns].isfinite().all()
    exact = ACTIVATION[activation](F.linear(inputs.double(), weight.double(), bias.double()))
    assert torch.equal(result.isnan(), exact.isnan())
    assert not result[3].isfinite().any() or value == math.inf


def test_the_plain_matrix_is_restored():
    for columns in (0, 1, 7, 64):
        for inner in (0, 1, 5):
            weight = numbers(columns, inner)
            panels = Panels.of(weight)
            assert torch.equal(panels.plain(), weight)
            assert panels.numbers.data_ptr() % 64 == 0 or not panels.numbers.numel()


def test_all_activations_of_the_layers_have_kernels():
    assert ("none", *get_args(Activation)) == ACTIVATIONS


WRONG = {
    "float64": (torch.ones(3, 5).double(), "float64 on cpu"),
    "bfloat16": (torch.ones(3, 5).bfloat16(), "bfloat16 on cpu"),
    "integers": (torch.ones(3, 5).long(), "int64 on cpu"),
    "device": (torch.ones(3, 5, device="meta"), "float32 on meta"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.usefixtures("unchecked")
def test_wrong_types_and_devices_are_rejected(name: str):
    tensor, words = WRONG[name]
    panels, inputs = Panels.of(numbers(7, 5)), numbers(3, 5)
    with pytest.raises(ValueError, match=rf"weight: expected a matrix .* got \(3, 5\) of {words}"):
        Panels.of(tensor)
    with pytest.raises(ValueError, match=rf"inputs: expected \(3, 5\) .* got \(3, 5\) of {words}"):
        panels.product(tensor)
    with pytest.raises(ValueError, match=rf"bias: expected \(7,\) of float32 on cpu.*{words}"):
        panels.product(inputs, tensor[0])
    with pytest.raises(ValueError, match=rf"add: expected \(3, 7\) of float32 on cpu.*{words}"):
        panels.product(inputs, add=tensor)


@pytest.mark.usefixtures("unchecked")
def test_wrong_shapes_and_names_are_rejected():
    panels, inputs = Panels.of(numbers(7, 5)), numbers(3, 5)
    for shape in [(), (5,), (7, 5, 1)]:
        with pytest.raises(ValueError, match="weight: expected a matrix"):
            Panels.of(torch.ones(shape))
    for shape in [(), (4,), (6,), (3, 0), (5, 3)]:
        with pytest.raises(ValueError, match="inputs: expected"):
            panels.product(torch.ones(shape))
    for shape in [(), (1,), (6,), (1, 7)]:
        with pytest.raises(ValueError, match="bias: expected"):
            panels.product(inputs, torch.ones(shape))
    for shape in [(), (7,), (1, 7), (3, 6), (1, 3, 7)]:
        with pytest.raises(ValueError, match="add: expected"):
            panels.product(inputs, add=torch.ones(shape))
    with pytest.raises(ValueError, match=r"activation: expected one of .*, got 'tanh'"):
        panels.product(inputs, activation="tanh")


@pytest.fixture
def least_lanes() -> Iterator[int]:
    """Number of lanes of the baseline. The instruction set at first is in use again afterwards."""
    best = kernels.lanes()
    if best == 4:
        pytest.skip("this CPU has one instruction set")
    yield 4
    kernels.lanes(best)


def test_panels_of_another_instruction_set_are_rejected(least_lanes: int):
    panels = Panels.of(numbers(7, 5))
    kernels.lanes(least_lanes)
    with pytest.raises(ValueError, match="pack the weight again"):
        panels.product(numbers(3, 5))


@pytest.mark.parametrize("bias", [False, True])
def test_a_frozen_layer_is_packed_again_for_another_instruction_set(least_lanes: int, bias: bool):
    layer, inputs = Linear(5, 7, bias=bias), numbers(3, 5)
    frozen = freeze(layer)
    assert isinstance(frozen.weight, PackedWeight)
    for lanes in (kernels.lanes(), least_lanes):
        kernels.lanes(lanes)
        assert panels_of(frozen.weight).lanes == lanes
        close(frozen(inputs), F.linear(inputs.double(), *[x.double() for x in layer.parameters()]))
        assert torch.equal(frozen.weight.plain(), layer.weight)
