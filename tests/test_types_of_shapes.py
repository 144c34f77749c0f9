"""The tests check the types of shapes at run time: wrong arguments, results and fields raise."""

from collections.abc import Iterator
from dataclasses import dataclass

import jaxtyping
import pytest
import torch
from beartype import beartype

from regard.attention import masks
from regard.data.batch import Tokens
from regard.shapes import Float, Int, Tensor
from tests import types_of_shapes

decorated = jaxtyping.jaxtyped(typechecker=beartype)
"""The decorator of the import hook."""


@decorated
def product(
    left: Float[Tensor, "row inner"], right: Float[Tensor, "inner column"], result: str = "right"
) -> Float[Tensor, "row column"]:
    if result == "nested":
        return product(right.T, left.T).T
    return left @ right if result == "right" else (left @ right).T


@decorated
def length(text: str, *, result: object = None) -> int:
    return len(text) if result is None else result


@decorated
def rows(matrix: Float[Tensor, "row column"]) -> Iterator[Float[Tensor, "column"]]:
    yield from matrix


@decorated
def zeros(count: int, size: int) -> Int[Tensor, "{count}"]:
    return torch.zeros(size, dtype=torch.long)


@decorated
@dataclass(frozen=True)
class Pair:
    first: Float[Tensor, "size"]
    second: Float[Tensor, "size"]

    @property
    @decorated
    def total(self) -> Float[Tensor, ""]:
        return self.first + self.second


SMALL, LARGE = torch.ones(2, 3), torch.ones(3, 5)


def test_right_calls_return_their_results():
    assert product(SMALL, LARGE).shape == (2, 5)
    assert product(SMALL, right=LARGE, result="nested").shape == (2, 5)
    assert length("four") == 4
    assert len(list(rows(SMALL))) == 2
    assert zeros(2, 2).tolist() == [0, 0]
    assert Pair(SMALL[0], second=SMALL[1]).first.tolist() == [1, 1, 1]
    assert product.__name__ == "product"


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: product(SMALL, 5), id="no tensor"),
        pytest.param(lambda: product(SMALL.long(), LARGE), id="type of the numbers"),
        pytest.param(lambda: product(SMALL, LARGE[0]), id="number of axes"),
        pytest.param(lambda: product(SMALL, right=SMALL), id="one axis, two sizes"),
        pytest.param(lambda: product(SMALL, LARGE, "wrong"), id="axis of the result"),
        pytest.param(lambda: length(5), id="plain argument"),
        pytest.param(lambda: length("four", result="4"), id="plain result"),
        pytest.param(lambda: rows(SMALL[0]), id="argument of a generator"),
        pytest.param(lambda: zeros(2, 3), id="axis that is an argument"),
        pytest.param(lambda: Pair(SMALL[0], LARGE[0]), id="fields of a record"),
        pytest.param(lambda: Pair(SMALL[0], SMALL[0]).total, id="property"),
        pytest.param(lambda: masks.padding(torch.ones(2, 3)), id="function of the package"),
        pytest.param(
            lambda: Tokens(torch.ones(2, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool)),
            id="record of the package",
        ),
    ],
)
def test_wrong_types_raise(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call()


def test_checks_can_be_switched_off(unchecked):
    assert length("four", result="4") == "4"
    assert Pair(SMALL[0], LARGE[0]).second.shape == (5,)


def test_arguments_that_fit_no_signature_raise_the_usual_error():
    with pytest.raises(TypeError, match=r"missing .* argument: 'right'"):
        product(SMALL)


def test_the_first_calls_of_a_test_are_checked(monkeypatch):
    for _ in range(types_of_shapes.CALLS):
        product(SMALL, LARGE)
    assert product(SMALL, LARGE, "transposed").shape == (5, 2)
    monkeypatch.setattr(types_of_shapes.Turn, "number", -2)
    with pytest.raises(jaxtyping.TypeCheckError):
        product(SMALL, LARGE, "transposed")
