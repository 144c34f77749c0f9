"""Products of integers equal those of loops over integers on every CPU, and are near those in
float64. Models frozen in int8 decode with them."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from regard import kernels
from regard.compiled.freeze import freeze
from regard.numerics import linear as linear_module
from regard.numerics.int8_panels import LARGEST, MAX_INNER, IntegerPanels, quantised
from regard.numerics.linear import Linear, PackedWeight, is_packed, panels_of, stacked_panels
from regard.numerics.panels import ACTIVATIONS
from tests.messages import raises
from tests.numerics.test_panels import ACTIVATION, SHAPES, WRONG, layouts, numbers

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


@pytest.fixture(params=[False, True], ids=["plain", "vnni"])
def products(request: pytest.FixtureRequest, instruction_set: None) -> Iterator[None]:
    """Every instruction set, without and with its instructions for dot products of bytes."""
    if request.param and (kernels.lanes() != 16 or not kernels.byte_products(True)):
        pytest.skip("this set of this CPU has no dot products of bytes")
    kernels.byte_products(request.param)
    yield
    kernels.byte_products(True)


def exact(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the product of quantised rows and columns, with sums of integers."""
    integers, scales = quantised(weight)
    if not inputs.numel():
        return bias.expand(*inputs.shape[:-1], -1)
    rows = inputs.reshape(-1, inputs.size(-1))
    least, most = rows.aminmax(dim=1, keepdim=True)
    steps = (most - least) / LARGEST
    inverse = torch.where(steps > 0, 1 / steps, 0)
    levels = ((rows - least) * inverse).round().clamp(0, LARGEST).long()
    sums = (levels @ integers.long().T).float()
    totals = integers.sum(1).float() * scales
    result = sums * (steps * scales) + least * totals + bias
    return result.view(*inputs.shape[:-1], -1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("columns", [0, 1, 7, 37, 64])
@pytest.mark.usefixtures("products")
def test_products_equal_those_of_integers(shape: tuple[int, ...], columns: int):
    inputs, weight = numbers(*shape), numbers(columns, shape[-1])
    bias, add = numbers(columns), numbers(*shape[:-1], columns)
    panels, expected = IntegerPanels.of(weight), exact(inputs, weight, bias)
    assert torch.equal(panels.product(inputs, bias), expected)
    assert torch.equal(panels.product(inputs, bias, "relu"), expected.relu())
    assert torch.equal(panels.product(inputs, bias, add=add), expected + add)
    for name in ACTIVATIONS:
        result = panels.product(inputs, bias, name, add)
        torch.testing.assert_close(result, ACTIVATION[name](expected) + add, rtol=1e-6, atol=1e-6)
    unbiased = exact(inputs, weight, torch.zeros(columns))
    assert torch.equal(panels.product(inputs), unbiased)


@pytest.mark.usefixtures("products")
def test_products_of_several_groups_of_panels():
    inputs, weight, bias = numbers(31, 515), numbers(1101, 515), numbers(1101)
    assert torch.equal(IntegerPanels.of(weight).product(inputs, bias), exact(inputs, weight, bias))


@pytest.mark.parametrize("rows", [1, 5, 31])
@pytest.mark.usefixtures("products")
def test_the_error_is_that_of_half_a_step(rows: int):
    inputs, weight = numbers(rows, 257).double(), numbers(101, 257).double()
    result = IntegerPanels.of(weight.float()).product(inputs.float()).double()
    step = (inputs.amax(1, keepdim=True) - inputs.amin(1, keepdim=True)) / LARGEST
    scale = weight.abs().amax(1) / LARGEST
    error = (result - inputs @ weight.T).abs()
    bound = step / 2 * weight.abs().sum(1) + (inputs.abs() + step / 2).sum(1)[:, None] * scale / 2
    assert (error <= bound + 1e-4).all()
    relative = (error.square().mean() / (inputs @ weight.T).square().mean()).sqrt()
    assert 0.011 < relative < 0.02


def test_a_weight_is_quantised_by_columns():
    weight = torch.tensor([[0.5, -1.27, 0.004], [0, 0, 0], [2.54, 1, -0.03], [1, math.nan, 3]])
    integers, scales = quantised(weight)
    assert integers.dtype == torch.int8
    assert integers.tolist() == [[50, -127, 0], [0, 0, 0], [127, 50, -2], [0, 0, 0]]
    torch.testing.assert_close(scales[:3], torch.tensor([0.01, 0, 0.02]))
    assert scales[3].isnan()
    assert quantised(torch.tensor([[math.inf, 1]]))[1].isnan().all()


@pytest.mark.parametrize("layout", ["dense", "strided", "negated", "transposed"])
def test_arguments_may_have_any_memory_layout(layout: str):
    inputs, weight, bias, add = numbers(2, 3, 5), numbers(7, 5), numbers(7), numbers(2, 3, 7)
    expected = IntegerPanels.of(weight).product(inputs, bias, "relu", add)
    inputs, weight, bias, add = (layouts(x).get(layout, x) for x in (inputs, weight, bias, add))
    assert torch.equal(IntegerPanels.of(weight).product(inputs, bias, "relu", add), expected)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("products")
def test_a_row_has_one_result_in_any_product(threads: int):
    inputs, panels, bias = numbers(31, 131), IntegerPanels.of(numbers(277, 131)), numbers(277)
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


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.usefixtures("products")
def test_nan_and_inf_stay_in_their_row_or_column(value: float):
    inputs, weight, bias = numbers(13, 5), numbers(37, 5), numbers(37)
    inputs[3, 1] = weight[17, 2] = value
    result = IntegerPanels.of(weight).product(inputs, bias)
    expected = torch.zeros(13, 37, dtype=torch.bool)
    expected[3] = expected[:, 17] = True
    assert torch.equal(result.isnan(), expected)


@pytest.mark.usefixtures("products")
def test_constant_rows_and_zero_columns_have_no_error_of_their_inputs():
    inputs, weight, bias = numbers(5, 11), numbers(37, 11), numbers(37)
    inputs[1], inputs[2], inputs[3], weight[4] = 0, -3, 1e-42, 0
    panels = IntegerPanels.of(weight)
    result = panels.product(inputs, bias)
    assert torch.equal(result[1], bias)
    assert torch.equal(result[2], -3 * panels.totals + bias)
    torch.testing.assert_close(result[3], bias)
    assert torch.equal(result[:, 4], bias[4].expand(5))


@pytest.mark.usefixtures("instruction_set")
def test_integers_are_restored_from_their_panels():
    for columns in (0, 1, 7, 64):
        for inner in (0, 1, 5):
            weight = numbers(columns, inner)
            integers, scales = quantised(weight)
            panels = IntegerPanels.of(weight)
            assert torch.equal(panels.integers(), integers)
            assert torch.equal(panels.plain(), integers * scales[:, None])
            assert panels.numbers.data_ptr() % 64 == 0 or not panels.numbers.numel()


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.usefixtures("unchecked")
def test_wrong_types_and_devices_are_rejected(name: str):
    tensor, words = WRONG[name]
    panels = IntegerPanels.of(numbers(7, 5))
    with pytest.raises(ValueError, match=rf"weight: expected a matrix .* got \(3, 5\) of {words}"):
        IntegerPanels.of(tensor)
    with pytest.raises(ValueError, match=rf"inputs: expected \(3, 5\) .* got \(3, 5\) of {words}"):
        panels.product(tensor)


@pytest.mark.usefixtures("instruction_set", "unchecked")
def test_wrong_integers_and_scales_are_rejected():
    integers, scales = quantised(numbers(7, 5))
    with pytest.raises(ValueError, match=r"weight: expected a matrix of int8 .* of int32"):
        IntegerPanels.of_integers(integers.int(), scales)
    with pytest.raises(ValueError, match=r"expected numbers from -127 to 127, got -128"):
        IntegerPanels.of_integers(torch.full_like(integers, -128), scales)
    for wrong in (scales.double(), scales[:6], scales.to("meta")):
        with pytest.raises(ValueError, match=r"scales: expected \(7,\) of float32 on cpu"):
            IntegerPanels.of_integers(integers, wrong)
    strided = torch.stack([scales, -scales], dim=1)[:, 0]
    panels, expected = (IntegerPanels.of_integers(integers, x) for x in (strided, scales))
    inputs = numbers(3, 5)
    assert torch.equal(panels.product(inputs), expected.product(inputs))


@pytest.mark.usefixtures("instruction_set")
def test_a_column_whose_sum_overflows_is_nan_in_every_row():
    weight = torch.tensor([[3e38, 3e38], [3e38, -3e38], [1.0, 2.0]])
    result = IntegerPanels.of(weight).product(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    assert result[:, 0].isnan().all()
    assert result[:, 1:].isfinite().all()


def test_a_weight_with_more_inputs_than_a_sum_holds_stays_in_float32():
    with pytest.raises(ValueError, match=f"at most {MAX_INNER} inputs for int8, got"):
        IntegerPanels.of(torch.ones(1, MAX_INNER + 1))
    layer = Linear(MAX_INNER + 1, 2)
    frozen = freeze(layer, torch.int8)
    assert torch.equal(frozen.weight.plain(), layer.weight)


# ---------------------------------------------------------------------------------- frozen models


class Tied(nn.Module):
    """Embeddings that are the weight of a projection, and a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.projection = nn.Embedding(67, 61), Linear(61, 67)
        self.norm = nn.LayerNorm(61)
        self.projection.weight = self.embedding.weight


def test_a_model_is_frozen_in_int8_except_its_embeddings_and_norms():
    model, inputs = Tied(), numbers(5, 61)
    frozen = freeze(model, torch.int8)
    weight = model.embedding.weight.detach()
    assert torch.equal(frozen.embedding.weight, weight)
    assert torch.equal(frozen.norm(inputs), model.norm(inputs))
    assert isinstance(frozen.projection.weight, PackedWeight)
    assert not is_packed(model.projection.weight)
    expected = exact(inputs, weight, model.projection.bias.detach())
    assert torch.equal(frozen.projection(inputs), expected)


def test_copies_of_a_frozen_model_have_the_same_integers():
    frozen, inputs = freeze(Linear(61, 67), torch.int8), numbers(5, 61)
    expected = frozen(inputs)
    for copy in (deepcopy(frozen), pickle.loads(pickle.dumps(frozen)), freeze(frozen, torch.int8)):
        assert torch.equal(copy(inputs), expected)
    plain = freeze(frozen, torch.float32)
    torch.testing.assert_close(plain(inputs), expected, rtol=0.1, atol=0.1)
    assert torch.equal(plain.weight.plain(), frozen.weight.plain())


def test_a_frozen_layer_is_packed_again_for_another_instruction_set():
    best, layer, inputs = kernels.lanes(), Linear(61, 67), numbers(5, 61)
    frozen = freeze(layer, torch.int8)
    expected = frozen(inputs)
    try:
        for lanes in (8, 4):
            if kernels.lanes(lanes) == lanes:
                assert panels_of(frozen.weight).lanes == lanes
                assert torch.equal(frozen(inputs), expected)
    finally:
        kernels.lanes(best)


def test_stacked_weights_are_integers_if_all_are():
    first, second, inputs = Linear(5, 7), Linear(5, 11), numbers(3, 5)
    frozen = [freeze(layer, torch.int8).weight for layer in (first, second)]
    expected = torch.cat([panels_of(weight).product(inputs) for weight in frozen], dim=1)
    assert torch.equal(stacked_panels(frozen).product(inputs), expected)
    mixed = stacked_panels([frozen[0], second.weight]).product(inputs)
    torch.testing.assert_close(mixed[:, 7:], inputs @ second.weight.T.detach())


def test_gradients_and_autocast_use_the_plain_matrix():
    frozen, inputs = freeze(Linear(61, 67), torch.int8), numbers(5, 61).requires_grad_()
    (gradient,) = torch.autograd.grad(frozen(inputs).sum(), inputs)
    torch.testing.assert_close(gradient, frozen.weight.plain().sum(0).expand(5, -1))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert frozen(inputs).dtype == torch.bfloat16


def test_int8_on_a_gpu_and_without_kernels_is_one_line(monkeypatch: pytest.MonkeyPatch):
    with raises(ValueError):
        freeze(Linear(5, 7).to("meta"), torch.int8)
    monkeypatch.setattr(kernels, "_LIBRARY", None)
    with pytest.raises(ValueError, match=r"int8 needs the C\+\+ kernels\. Install g\+\+"):
        freeze(Linear(5, 7), torch.int8)
    weight = linear_module._packed_integers(*quantised(numbers(7, 5)))
    assert not is_packed(weight)  # a model that a process with kernels sent


def test_a_limit_of_the_instruction_set_excludes_dot_products_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("REGARD_INSTRUCTION_SET", "avx512")
    assert not kernels.byte_products(True)
    monkeypatch.delenv("REGARD_INSTRUCTION_SET")
    kernels.byte_products(True)
