"""Models with our attention under torch.export, ONNX, tracing, torch.compile and torch.func.

Results are compared with those of the model itself, which runs by the kernels.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, jacfwd, jacrev, vmap

from regard.attention import Attention, Softmax
from tests import needs
from tests.attention.parts import NORMALISERS, SCORES, VALUE, Inputs, ScoreCase, uneven_mask

every_score = pytest.mark.parametrize("case", SCORES.values(), ids=SCORES.keys())
every_normaliser = pytest.mark.parametrize(
    "normaliser", [make for make, _ in NORMALISERS.values()], ids=NORMALISERS.keys()
)


@pytest.fixture(scope="module")
def passed() -> list[str]:
    """The ways whose outputs are equal; one process, so that torch is imported once."""
    extras = all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnxscript"))
    ways = ["export", "trace", "compile", *(["onnx"] if extras else [])]
    command = [sys.executable, "-m", "tests.attention.all_scores", *ways]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split(":")[0] for line in done.stdout.splitlines() if "results" in line]


def test_export_trace_and_compile_give_equal_outputs(passed: list[str]):
    assert passed[:3] == ["export", "trace", "compile"]


def test_onnx_gives_equal_outputs(passed: list[str]):
    needs.export("onnxruntime")
    needs.export("onnxscript")
    assert passed[3:] == ["onnx"]


def contexts_of(
    attention: Attention, mask: Tensor, need_weights: bool
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def contexts(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        prepared = attention.prepare(keys)
        return attention(queries, prepared, values, mask, need_weights=need_weights).context

    return contexts


@every_score
@every_normaliser
@pytest.mark.parametrize("need_weights", [False, True])
def test_jacobians_equal_those_of_the_formula(
    case: ScoreCase, normaliser: type, need_weights: bool
):
    torch.manual_seed(5)
    inputs = case.inputs(torch.float32)
    contexts = contexts_of(Attention(case.make(), normaliser()), uneven_mask(), need_weights)
    leaves = (inputs.queries, inputs.keys, inputs.values)
    expected = torch.autograd.functional.jacobian(contexts, leaves)[1]
    for transform in (jacrev, jacfwd) if normaliser is Softmax else (jacrev,):
        result = transform(contexts, argnums=1)(*leaves)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


@every_score
@every_normaliser
def test_per_example_gradients_equal_those_of_the_formula(case: ScoreCase, normaliser: type):
    torch.manual_seed(5)
    attention, inputs = Attention(case.make(), normaliser()), case.inputs(torch.float32)
    mask, parameters = uneven_mask(), dict(attention.named_parameters())
    shared = torch.randn(VALUE)

    def loss(parameters: dict[str, Tensor], queries, keys, values, mask) -> Tensor:
        prepared = attention.prepare(keys)
        output = functional_call(attention, parameters, (queries, prepared, values, mask))
        return (output.context * shared).sum()

    rows = (inputs.queries, inputs.keys, inputs.values, mask)
    gradients = vmap(grad(loss, argnums=1), in_dims=(None, 0, 0, 0, 0))(parameters, *rows)
    leaves = Inputs(*inputs.leaves())
    loss(parameters, leaves.queries, leaves.keys, leaves.values, mask).backward()
    torch.testing.assert_close(gradients, leaves.queries.grad, rtol=1e-4, atol=1e-5)
