"""Attention has one result for every score and normaliser, with and without weights, autograd and
autocast, by formulas and by accelerated classes, in every type, whatever numbers are at hidden
positions.

    python -m tests.contracts.test_attention      prints the largest differences as a table
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from itertools import cycle, product

import pytest
import torch
from torch import Tensor

from regard import kernels
from regard.attention import Attention
from regard.compiled.accelerate import accelerate
from tests.attention.parts import FORMULAS, NORMALISERS, SCORE_KINDS, key_size
from tests.oracles import attention_gradients as oracle

QUERY, KEY, SIZE, VALUE = 5, 13, 17, 11
TEMPERATURE = 0.7


TYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
CODES = ("formula", "accelerated", "kernels")
"""Accelerated classes without the compiled library, and with it."""
HIDDEN = {"noise": None, "NaN": torch.nan, "inf": torch.inf, "1e38": 1e38}
SHAPES = {
    "one query": ((2, 1), (2, 7), (2, 1, 7)),
    "queries": ((2, 3), (2, 7), (2, 3, 7)),
    "padding": ((2, 3), (2, 7), (2, 1, 7)),
    "heads": ((2, 3, 4), (2, 3, 7), (2, 1, 4, 7)),
    "many queries": ((2, 19), (2, 23), (2, 1, 23)),
    "a source for all": ((3, 4), (1, 7), (1, 1, 7)),
    "a long source": ((1, 2), (1, 300), (1, 2, 300)),
}


@dataclass(frozen=True)
class Path:
    """Conditions that decide which code computes the attention."""

    dtype: str
    autocast: bool
    hidden: str
    need_weights: bool
    learns: bool
    code: str

    @property
    def tolerance(self) -> float:
        """Return the tolerance, relative to the largest number if that is above one."""
        if self.autocast or self.dtype == "bfloat16":
            return 0.06
        return 1e-9 if self.dtype == "float64" else 2e-5


def paths(hidden: Iterable[str]) -> Iterator[Path]:
    flags = (False, True)
    for how in product(TYPES, flags, hidden, flags, flags, CODES):
        path = Path(*how)
        if path.autocast and path.dtype != "float32":
            continue
        if path.code == "kernels" and (path.dtype == "float64" or not kernels.available()):
            continue
        yield path


@dataclass(frozen=True)
class Inputs:
    queries: Tensor
    keys: Tensor
    values: Tensor
    mask: Tensor
    above: Tensor
    above_weights: Tensor

    @property
    def is_hidden(self) -> Tensor:
        """Return the positions that no query may attend to."""
        return ~self.mask.any(dim=-2).expand(self.keys.shape[:-1])


def draw(score: str, shape: str) -> Inputs:
    """Draw inputs with positions hidden from all or some queries, and a query without keys unless
    the mask is shared."""
    torch.manual_seed(5)
    queries, keys, mask_shape = SHAPES[shape]
    mask = torch.rand(mask_shape) < 0.6
    mask[..., 1], mask[..., 4] = True, False
    if mask_shape[0] > 1:
        mask[0, ..., 0, :] = False
    *_, target = queries
    return Inputs(
        torch.randn(*queries, QUERY),
        torch.randn(*keys, key_size(score, QUERY, KEY)),
        torch.randn(*keys, VALUE),
        mask,
        torch.randn(*queries, VALUE),
        torch.randn(*queries[:-1], target, keys[-1]),
    )


Results = dict[str, Tensor]


def expect(
    score: str, normaliser: str, attention: Attention, inputs: Inputs, path: Path
) -> Results:
    """Return the result of the formula in float64, from the numbers of this path."""
    dtype = TYPES[path.dtype]
    leaves = [_leaf(x.to(dtype).double()) for x in (inputs.queries, inputs.keys, inputs.values)]
    exact = deepcopy(attention).double()
    scored = FORMULAS[score](exact.score)
    context, weights = oracle.attend(
        lambda queries, keys: scored(queries, keys) / TEMPERATURE,
        oracle.NORMALISERS[normaliser],
        *leaves,
        inputs.mask,
    )
    return _results(exact, leaves, context, weights if path.need_weights else None, inputs)


def run(attention: Attention, inputs: Inputs, path: Path) -> Results:
    attention, dtype = deepcopy(attention).to(TYPES[path.dtype]), TYPES[path.dtype]
    if path.code != "formula":
        accelerate(attention)
    hidden, filling = inputs.is_hidden[..., None], HIDDEN[path.hidden]
    keys, values = inputs.keys, inputs.values
    if filling is not None:
        keys, values = keys.masked_fill(hidden, filling), values.masked_fill(hidden, filling)
    leaves = [_leaf(x.to(dtype), path.learns) for x in (inputs.queries, keys, values)]
    queries, keys, values = leaves
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(path.learns))
        stack.enter_context(torch.autocast("cpu", torch.bfloat16, enabled=path.autocast))
        output = attention(
            queries, attention.prepare(keys), values, inputs.mask, need_weights=path.need_weights
        )
    assert output.context.dtype == dtype
    if not path.learns:
        results = {"context": output.context}
        return results | ({"weights": output.weights} if path.need_weights else {})
    results = _results(attention, leaves, output.context, output.weights, inputs)
    for name in ("gradient of keys", "gradient of values"):
        assert not results[name][inputs.is_hidden].any(), name
    return results


def _leaf(numbers: Tensor, learns: bool = True) -> Tensor:
    return numbers.clone().requires_grad_(learns)


def _results(
    attention: Attention,
    leaves: list[Tensor],
    context: Tensor,
    weights: Tensor | None,
    inputs: Inputs,
) -> Results:
    loss = (context * inputs.above).sum()
    if weights is not None:
        loss = loss + (weights * inputs.above_weights).sum()
    names = ["queries", "keys", "values", *dict(attention.named_parameters())]
    wanted = [*leaves, *attention.parameters()]
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
    results = {"context": context} | ({} if weights is None else {"weights": weights})
    for name, leaf, gradient in zip(names, wanted, gradients, strict=True):
        results[f"gradient of {name}"] = torch.zeros_like(leaf) if gradient is None else gradient
    return results


def difference(computed: Tensor, expected: Tensor) -> float:
    """Return the largest difference, relative to the largest number if that is above one. Infinity
    for NaN."""
    assert computed.shape == expected.shape
    computed, expected = computed.detach().double(), expected.detach()
    largest = (computed - expected).abs().max() / expected.abs().max().clamp(min=1)
    return float(largest.nan_to_num(nan=torch.inf))


def differences(
    score: str, normaliser: str, shape: str, hidden: Iterable[str] = HIDDEN
) -> Iterator[tuple[Path, str, float]]:
    """Yield the largest difference of each result of every path."""
    torch.manual_seed(7)
    module = SCORE_KINDS[score](QUERY, key_size(score, QUERY, KEY), SIZE)
    attention = Attention(module, NORMALISERS[normaliser][0](TEMPERATURE))
    inputs = draw(score, shape)
    library, expected = kernels._LIBRARY, {}
    for path in paths(hidden):
        known = path.dtype, path.need_weights
        if known not in expected:
            expected[known] = expect(score, normaliser, attention, inputs, path)
        try:
            kernels._LIBRARY = library if path.code == "kernels" else None
            results = run(attention, inputs, path)
        finally:
            kernels._LIBRARY = library
        for name, result in results.items():
            jumps = normaliser != "softmax" and path.tolerance > 0.01 and "gradient" in name
            if jumps:  # rounded scores may change a support, and with it the gradient, by a jump
                assert result.isfinite().all()
            else:
                yield path, name, difference(result, expected[known][name])


def cases() -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Return every score with every normaliser, and every shape and hidden number with every score,
    once with softmax, which has kernels of its own, and once with another normaliser in turn."""
    _, *others = NORMALISERS
    turns, fillings = cycle(others), cycle(name for name in HIDDEN if name != "NaN")
    shapes = [shape for shape in SHAPES if shape != "queries"]
    rows = []
    for score in SCORE_KINDS:
        rows += [(score, "softmax", "queries", tuple(HIDDEN))]
        rows += [(score, other, "queries", ("NaN", next(fillings))) for other in others]
        rows += [(score, "softmax", shape, ("NaN",)) for shape in shapes]
        rows += [(score, next(turns), shape, ("NaN",)) for shape in shapes]
    return rows


@pytest.mark.usefixtures("unchecked")  # the types of shapes are checked in tests/attention
@pytest.mark.parametrize(("score", "normaliser", "shape", "hidden"), cases(), ids=str)
def test_every_path_gives_equal_results(
    score: str, normaliser: str, shape: str, hidden: tuple[str, ...]
):
    for path, name, largest in differences(score, normaliser, shape, hidden):
        assert largest < path.tolerance, (path, name)


def _table() -> Iterator[str]:
    yield "| score | normaliser | float64 | float32 | bfloat16 | float32, autocast |"
    yield "|---|---|---|---|---|---|"
    for score, normaliser in product(SCORE_KINDS, NORMALISERS):
        largest = dict.fromkeys([*TYPES, "autocast"], 0.0)
        for shape in SHAPES:
            for path, _, computed in differences(score, normaliser, shape):
                column = "autocast" if path.autocast else path.dtype
                largest[column] = max(largest[column], computed)
        yield (
            f"| {score} | {normaliser} | " + " | ".join(f"{x:.1e}" for x in largest.values()) + " |"
        )


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in _table())
