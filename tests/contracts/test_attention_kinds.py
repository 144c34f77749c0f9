"""Properties of every kind of attention: masks are optional or named, hidden positions have no
influence, and the context has the type of the values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from regard.attention import (
    CAUSAL,
    Additive,
    Attention,
    General,
    HardAttention,
    HistoryAdditive,
    HistoryAttention,
    LocalAttention,
    Monotonic,
    MultiHeadAttention,
    Predictive,
    Sparsemax,
    StraightThroughAttention,
    causal,
)
from tests.attention.parts import HISTORIES, SCORE_KINDS

BATCH, TARGET, SOURCE, QUERY, KEY, VALUE = 2, 3, 7, 5, 13, 11


class Heads(nn.Module):
    """Several heads with the interface of the other kinds."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.heads = MultiHeadAttention(QUERY, KEY, VALUE, 12, 4, attention)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: object, **how: bool):
        return self.heads(queries, self.heads.prepare(keys, values), mask, **how)


class Alone(nn.Module):
    """One attention over all steps of a target, from unprepared keys."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: object, **how: bool):
        prepared = self.attention.prepare(keys)
        state = None
        if not self.attention.is_stateful:
            state = self.attention.all_steps_state(queries)
        return self.attention(queries, prepared, values, mask, state, **how)


def history(name: str, normaliser: nn.Module | None = None) -> nn.Module:
    return Alone(HistoryAttention(HistoryAdditive(QUERY, KEY, HISTORIES[name](17)), normaliser))


SCOPES: dict[str, Callable[[], nn.Module]] = {
    "global": lambda: Alone(Attention(General(QUERY, KEY))),
    "local_m": lambda: Alone(LocalAttention(General(QUERY, KEY), Monotonic(), 2)),
    "local_p": lambda: Alone(LocalAttention(Additive(QUERY, KEY, 17), Predictive(QUERY, 3, 4), 4)),
}
SAMPLING: dict[str, Callable[[], nn.Module]] = {
    "soft": SCOPES["global"],
    "hard": lambda: Alone(HardAttention(Attention(General(QUERY, KEY)))),
    "straight_through": lambda: Alone(StraightThroughAttention(Attention(General(QUERY, KEY)))),
}
KINDS: dict[str, Callable[[], nn.Module]] = {
    **SCOPES,
    "hard": SAMPLING["hard"],
    "straight_through": SAMPLING["straight_through"],
    **{name: partial(history, name) for name in HISTORIES},
    "sparse history": lambda: history("location", Sparsemax()),
    **{
        f"{name} heads": lambda make=make: Heads(Attention(make(3, 3, 17)))
        for name, make in SCORE_KINDS.items()
    },
}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
both_ways = pytest.mark.parametrize("need_weights", [False, True])


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(5)
    shapes = (BATCH, TARGET, QUERY), (BATCH, SOURCE, KEY), (BATCH, SOURCE, VALUE)
    return tuple(torch.randn(shape) for shape in shapes)


@every_kind
@both_ways
def test_without_a_mask_every_position_is_visible(make, inputs, need_weights: bool):
    attention = make().eval()
    everything = torch.ones(BATCH, 1, SOURCE, dtype=torch.bool)
    contexts = [
        attention(*inputs, mask, need_weights=need_weights).context for mask in (None, everything)
    ]
    torch.testing.assert_close(*contexts)


@every_kind
@both_ways
def test_a_named_mask_equals_the_tensor_mask(make, inputs, need_weights: bool):
    attention, (queries, keys, values) = make().eval(), inputs
    square = queries, keys[:, :TARGET], values[:, :TARGET]
    contexts = [
        attention(*square, mask, need_weights=need_weights).context
        for mask in (CAUSAL, causal(TARGET).expand(BATCH, -1, -1))
    ]
    torch.testing.assert_close(*contexts)


@every_kind
@both_ways
@pytest.mark.parametrize("filling", [torch.nan, torch.inf, -torch.inf, 1e38])
def test_masked_keys_have_no_influence(make, inputs, need_weights: bool, filling: float):
    """Contexts, weights and gradients are equal. One source is hidden entirely."""
    attention, (queries, keys, values) = make().eval(), inputs
    mask = torch.arange(SOURCE) < torch.tensor([[0], [SOURCE - 2]])
    hidden = ~mask[..., None]
    results = []
    for content in (0.5, filling):
        leaves = [
            x.clone().requires_grad_()
            for x in (
                queries,
                keys.masked_fill(hidden, content),
                values.masked_fill(hidden, content),
            )
        ]
        output = attention(*leaves, mask[:, None], need_weights=need_weights)
        wanted = [*leaves, *attention.parameters()]
        gradients = torch.autograd.grad(output.context.square().sum(), wanted, allow_unused=True)
        assert not any(x[hidden.expand_as(x)].any() for x in gradients[1:3] if x is not None)
        results.append([output.context, *gradients])
        results[-1] += [output.weights] if need_weights else []
    for expected, result in zip(*results, strict=True):
        torch.testing.assert_close(result, expected)


@every_kind
@both_ways
def test_under_autocast_the_context_has_the_type_of_the_values(make, inputs, need_weights: bool):
    attention = make().eval()
    context = attention(*inputs, None, need_weights=need_weights).context
    with torch.autocast("cpu", torch.bfloat16):
        rounded = attention(*inputs, None, need_weights=need_weights).context
    if isinstance(attention, Heads):  # ends in a layer, whose type autocast decides
        assert rounded.dtype == torch.bfloat16
    else:
        assert rounded.dtype == torch.float32
        assert isinstance(attention.attention, HardAttention) or torch.allclose(
            rounded, context, rtol=0.05, atol=0.05
        )
