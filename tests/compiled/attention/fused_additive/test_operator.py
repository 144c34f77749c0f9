"""The operators under PyTorch's autograd, compile, export and mixed precision."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch.autograd import gradcheck
from torch.library import opcheck

from regard.attention import AdditiveKeys
from regard.compiled.attention.fused_additive import (
    additive_attention,
    additive_scores,
    attend,
    backends,
    operator,
    prepare,
    tiled,
)
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.shapes import Tensor
from tests.compiled.attention.fused_additive.problems import Problem, make
from tests.oracles import additive as oracle


def leaves(problem: Problem, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    return tuple(tensor.to(dtype, copy=True).requires_grad_() for tensor in problem.tensors)


@pytest.mark.parametrize("mask", ["none", "uneven"])
@pytest.mark.parametrize("dropout", [False, True])
def test_gradients_are_those_of_finite_differences(mask: str, dropout: bool):
    problem = make((2, 3, 4, 3, 2), mask=mask, dropout=dropout)
    drop = None if problem.drop is None else problem.drop.double()

    def everything(*tensors: Tensor) -> tuple[Tensor, ...]:
        scores = additive_scores(*tensors[:3])
        memory = AdditiveMemory(*tensors[1:], problem.mask, 0.7)
        return *attend(tensors[0], memory, drop), scores

    assert gradcheck(everything, leaves(problem))


@pytest.mark.parametrize("wanted", [0, 1])
def test_either_output_alone_passes_its_gradient(wanted: int):
    problem = make(mask="uneven").to(torch.float64)
    ours, theirs = leaves(problem), leaves(problem)
    output = additive_attention(*ours, problem.mask)[wanted]
    expected = oracle.attend(theirs, problem.mask)[wanted]
    above = (problem.grad_context, problem.grad_weights)[wanted]
    gradients = torch.autograd.grad(output, ours, above, materialize_grads=True)
    expected = torch.autograd.grad(expected, theirs, above, materialize_grads=True)
    torch.testing.assert_close(gradients, expected)


def test_the_operators_pass_torchs_opcheck():
    problem = make(mask="uneven", dropout=True).to(torch.float64)
    tensors, rest = leaves(problem), (problem.mask, problem.drop, 0.7)
    plain = tuple(tensor.detach() for tensor in tensors)
    _, weights = attend(problem.queries, problem.memory, problem.drop)
    backward = (problem.grad_context, None, *plain, *rest, weights)
    opcheck(operator.attend_operator, (*tensors, *rest, None))
    opcheck(operator.attend_operator, (*tensors, None, None, 1.0, None))
    opcheck(operator._attend_backward, backward)
    opcheck(operator.score_operator, tensors[:3])
    opcheck(operator._score_backward, (problem.grad_weights, *plain[:3]))


def test_a_second_derivative_is_rejected_with_a_message():
    tensors = leaves(make())
    for result in (additive_attention(*tensors)[0], additive_scores(*tensors[:3])):
        (gradient,) = torch.autograd.grad(result.square().sum(), tensors[:1], create_graph=True)
        with pytest.raises(NotImplementedError, match="first derivatives only"):
            gradient.sum().backward()


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("mask_shape", [None, "row", "rows", "sentences", "all"])
def test_any_number_of_batch_axes_is_allowed(leading: tuple[int, ...], mask_shape: str | None):
    queries, keys = torch.randn(*leading, 5, 7).double(), torch.randn(*leading, 11, 7).double()
    vector, values = torch.randn(7).double(), torch.randn(*leading, 11, 13).double()
    shape = {
        None: None,
        "row": (11,),
        "rows": (5, 11),
        "sentences": (*leading[:1], *(1 for _ in leading), 11) if leading else (1, 11),
        "all": (*leading, 5, 11),
    }[mask_shape]
    if shape == (11,):
        shape = (1, 11)
    mask = None if shape is None else torch.rand(*shape) < 0.6
    output = additive_attention(queries, keys, vector, values, mask)
    expected = oracle.attend((queries, keys, vector, values), mask)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(
        additive_scores(queries, keys, vector), oracle.scores(queries, keys, vector)
    )


COMPILED = """
import torch
from regard.compiled.attention.fused_additive import additive_attention, additive_scores

def loss(queries, keys, vector, values, mask):
    context, weights = additive_attention(queries, keys, vector, values, mask)
    scores = additive_scores(queries, keys, vector)
    return context.square().sum() + weights.square().sum() + scores.sin().sum()

compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
for target in (3, 5):  # the second length is compiled for every length
    shapes = (2, target, 7), (2, 11, 7), (7,), (2, 11, 13)
    tensors = [torch.randn(shape, requires_grad=True) for shape in shapes]
    mask = torch.rand(2, 1, 11) < 0.7
    gradients = [
        torch.autograd.grad(function(*tensors, mask), tensors) for function in (loss, compiled)
    ]
    torch.testing.assert_close(*gradients)
"""


def test_torch_compile_has_no_graph_breaks():
    """Runs in its own process: the shape checks of tests do not work with a compiler."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_exports_accept_any_length(unchecked):
    class Model(torch.nn.Module):
        def forward(self, queries: Tensor, keys: Tensor, vector: Tensor, values: Tensor) -> Tensor:
            return additive_attention(queries, keys, vector, values)[0]

    dynamic = torch.export.Dim.DYNAMIC
    shapes = ({0: dynamic, 1: dynamic}, {0: dynamic, 1: dynamic}, None, {0: dynamic, 1: dynamic})
    exported = torch.export.export(Model(), make().tensors, dynamic_shapes=shapes)
    called = {str(node.target) for node in exported.graph.nodes if node.op == "call_function"}
    assert not any(name.startswith("regard.") for name in called)  # other programs do not have it
    second = make((5, 2, 13, 7, 11)).tensors
    torch.testing.assert_close(exported.module()(*second), additive_attention(*second)[0])


def test_mixed_precision_accepts_any_float_type():
    problem = make((2, 5, 19, 23, 7))
    queries, keys, vector, values = leaves(problem, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        context, weights = additive_attention(queries.bfloat16(), keys.bfloat16(), vector, values)
    assert (context.dtype, weights.dtype) == (torch.float32, torch.float32)
    expected, _ = additive_attention(queries, keys, vector, values)
    torch.testing.assert_close(context, expected, rtol=0.02, atol=0.02)
    context.sum().backward()
    assert vector.grad.dtype == values.grad.dtype == torch.float32


def test_dropout_applies_to_the_context_and_not_to_returned_weights():
    torch.manual_seed(0)
    queries, keys = torch.zeros(1, 4001, 3), torch.zeros(1, 2, 3)
    context, weights = additive_attention(
        queries, keys, torch.ones(3), torch.eye(2)[None], dropout=0.5
    )
    assert set(context.flatten().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(context.mean(), torch.tensor(0.5), atol=0.05, rtol=0)
    assert (weights == 0.5).all()


def test_powers_are_prepared_without_gradients_only():
    problem = make((3, 1, 7, 11, 13), mask="padding")
    assert prepare(AdditiveKeys(problem.keys)).powers is None
    with torch.no_grad():
        prepared = prepare(AdditiveKeys(problem.keys))
    assert prepared.powers is not None
    selected = prepared[torch.tensor([2, 0])]
    assert torch.equal(selected.powers, prepared.powers[[2, 0]])
    queries, keys, vector, values = problem.tensors
    plain = additive_attention(queries, AdditiveKeys(keys), vector, values, problem.mask)
    ready = additive_attention(queries, prepared, vector, values, problem.mask)
    torch.testing.assert_close(ready, plain)


def test_float64_and_other_devices_use_the_tiled_backend():
    assert backends.choose(torch.ones(1, dtype=torch.float64)) is tiled
    assert backends.choose(torch.ones(1, device="meta")) is tiled


@pytest.mark.parametrize("function", [additive_attention, additive_scores])
def test_results_without_autograd_are_bit_equal(function: Callable[..., object]):
    tensors = leaves(make(), torch.float32)
    arguments = tensors if function is additive_attention else tensors[:3]
    with torch.no_grad():
        alone = function(*arguments)
    recorded = function(*arguments)
    torch.testing.assert_close(recorded, alone, rtol=0, atol=0)
