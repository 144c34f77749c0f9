"""Tensors with PyTorch's negative bit, whose memory holds the negated numbers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard import kernels
from regard.attention import Attention, Dot
from regard.compiled import candidates
from regard.compiled.attention.fused_additive import additive_attention, additive_scores
from regard.compiled.dropout import Dropout
from regard.layers.recurrent.stack import RecurrentStack


def negative(numbers: Tensor) -> Tensor:
    """Return the same numbers with the negative bit."""
    view = torch._neg_view(-numbers)
    assert view.is_neg()
    return view


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def dropped(inputs: Tensor) -> Tensor:
    torch.manual_seed(3)
    return Dropout(0.5)(inputs)


def outputs() -> dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]]:
    vectors = numbers(2, 3, 7), numbers(2, 5, 7), numbers(2, 5, 11)
    stack = RecurrentStack("lstm", 5, 7)
    states = numbers(2, 1, 7), numbers(2, 1, 8)[..., :7]
    mask = torch.tensor([[True] * 3, [True, True, False]])
    return {
        "dots": (lambda *x: Attention(Dot())(*x).context, vectors),
        "additive": (
            lambda q, k, values, v: additive_attention(q, k, v, values)[0],
            (*vectors, numbers(7)),
        ),
        "scores": (additive_scores, (*vectors[:2], numbers(7))),
        "dropout": (dropped, (numbers(3, 7),)),
        "encode": (lambda x: stack.encode(x, mask).outputs[-1], (numbers(2, 3, 5),)),
        "forward": (lambda x, *s: stack(x, *s).outputs[-1], (numbers(2, 3, 5), *states)),
        "step": (lambda x, *s: stack.step(x, *s).hidden, (numbers(2, 5), *states)),
        "candidates": (
            lambda *x: candidates.top_candidates(*x, torch.tensor([1]), 4).totals,
            (numbers(2, 3, 13), numbers(2, 3)),
        ),
    }


@pytest.mark.parametrize("name", [name for name in outputs() if name != "dropout"])
def test_negated_views_give_correct_results(name: str):
    function, inputs = outputs()[name]
    with torch.no_grad():
        expected = function(*inputs)
        for place in range(len(inputs)):
            changed = [negative(x) if i == place else x for i, x in enumerate(inputs)]
            torch.testing.assert_close(function(*changed), expected)


@pytest.mark.parametrize("name", [name for name in outputs() if name != "candidates"])
def test_negated_views_give_correct_gradients(name: str):
    function, inputs = outputs()[name]
    leaves = [x.clone().requires_grad_() for x in inputs]
    above = numbers(*function(*leaves).shape)
    expected = torch.autograd.grad(function(*leaves), leaves, above)
    gradients = torch.autograd.grad(function(*leaves), leaves, negative(above))
    for gradient, number in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, number)


def test_an_imaginary_part_of_one_column_has_its_sign():
    queries = torch.randn(2, 3, 1, dtype=torch.cfloat).conj().imag
    keys, values = numbers(2, 5, 1), numbers(2, 5, 3)
    attention = Attention(Dot())
    torch.testing.assert_close(
        attention(queries, keys, values).context,
        attention(queries.clone(), keys, values).context,
    )


@pytest.mark.parametrize("array", [torch.ones(3, device="meta"), negative(torch.ones(3))])
def test_an_array_that_a_kernel_cannot_read_is_rejected(array: Tensor):
    with pytest.raises(ValueError, match="array of a kernel: expected one on cpu"):
        kernels.place(array)
    with pytest.raises(ValueError, match="array of a kernel: expected one on cpu"):
        kernels.places(None, torch.ones(3), array)
