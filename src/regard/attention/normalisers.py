"""From scores to weights that are not negative and sum to one over the visible keys.

Each takes scores and a mask (True is visible; None is all). A hidden key gets a weight of exactly
zero and passes no gradient; a row with nothing visible is all zeros, never NaN. A visible score
that is NaN makes the weights of its row NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch

from regard.fast_path import is_free_to_read
from regard.precise import at_least_float32
from regard.shapes import Bool, Float, Tensor


@runtime_checkable
class Normaliser(Protocol):
    """What every normaliser is."""

    def __call__(
        self,
        scores: Float[Tensor, "*batch target source"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
    ) -> Float[Tensor, "*batch target source"]:
        """Weights for scores; the mask has any shape that broadcasts to theirs."""


class Softmax:
    """exp(s_j) / sum of exp(s), at least in float32. A low temperature sharpens."""

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = _checked(temperature)

    def __call__(
        self,
        scores: Float[Tensor, "*batch target source"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
    ) -> Float[Tensor, "*batch target source"]:
        return _normalise(partial(torch.softmax, dim=-1), scores, mask, self.temperature)


class Sparsemax:
    """The point of the simplex that is nearest to the scores (Martins and Astudillo 2016): small
    scores get a weight of exactly zero."""

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = _checked(temperature)

    def __call__(
        self,
        scores: Float[Tensor, "*batch target source"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
    ) -> Float[Tensor, "*batch target source"]:
        return _normalise(_SparsemaxFunction.apply, scores, mask, self.temperature)


class Entmax15:
    """Halfway between softmax and sparsemax: 1.5-entmax (Peters, Niculae and Martins 2019)."""

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = _checked(temperature)

    def __call__(
        self,
        scores: Float[Tensor, "*batch target source"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
    ) -> Float[Tensor, "*batch target source"]:
        return _normalise(_Entmax15Function.apply, scores, mask, self.temperature)


def _checked(temperature: float) -> float:
    if not temperature > 0:
        raise ValueError(f"temperature must be above zero, but {temperature} came")
    return temperature


def _normalise(
    function: Callable[[Tensor], Tensor], scores: Tensor, mask: Tensor | None, temperature: float
) -> Tensor:
    """Weights of `function`, which normalises rows, in the type of the scores. It gets scores over
    temperature, at least in float32, with minus infinity at hidden keys.

    With gradients, a row that sees nothing is normalised as zeros: no NaN may be formed. Without,
    its NaN are overwritten, as all weights of hidden keys are."""
    precise = at_least_float32(scores)
    if temperature != 1:
        precise = precise / temperature
    if mask is None:
        return function(precise).to(scores.dtype)
    hidden = ~mask
    if not torch.is_grad_enabled() and is_free_to_read(scores):
        weights = function(precise.masked_fill(hidden, -torch.inf)).masked_fill_(hidden, 0)
    else:
        fill = precise.new_zeros(()).masked_fill(mask.any(dim=-1, keepdim=True), -torch.inf)
        weights = function(torch.where(mask, precise, fill)).masked_fill(hidden, 0)
    return weights.to(scores.dtype)


class _SparsemaxFunction(torch.autograd.Function):
    """p = max(s - tau, 0), with tau such that p sums to one.

    With the scores in falling order, the support is the k largest for the last k at which
    1 + k s_k exceeds the sum of the first k; tau is (that sum - 1) / k (algorithm 1)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor) -> Tensor:
        if not scores.size(-1):
            return scores.clone()
        scores = scores - scores.amax(dim=-1, keepdim=True)
        falling = _falling(scores)
        count = torch.arange(1, scores.size(-1) + 1, device=scores.device, dtype=scores.dtype)
        sums = falling.cumsum(dim=-1)
        support = (1 + count * falling > sums).sum(dim=-1, keepdim=True).clamp(min=1)
        threshold = (sums.gather(-1, support - 1) - 1) / support
        return (scores - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        del inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """The gradient less its mean over the support, and zero outside it (section 2.5)."""
        (weights,) = ctx.saved_tensors
        return _through_support(gradient, (weights > 0).to(gradient.dtype))


class _Entmax15Function(torch.autograd.Function):
    """p = max(s / 2 - tau, 0) squared, with tau such that p sums to one.

    For a support of the k largest, tau = mean - sqrt((1 - k variance) / k) of their halves; the
    right k is the last at which tau does not exceed the k-th half (algorithm 2)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor) -> Tensor:
        if not scores.size(-1):
            return scores.clone()
        halves = (scores - scores.amax(dim=-1, keepdim=True)) / 2
        falling = _falling(halves)
        count = torch.arange(1, scores.size(-1) + 1, device=scores.device, dtype=scores.dtype)
        mean = falling.cumsum(dim=-1) / count
        spread = (falling.square().cumsum(dim=-1) / count - mean.square()) * count
        threshold = mean - ((1 - spread) / count).clamp(min=0).sqrt()
        support = (threshold <= falling).sum(dim=-1, keepdim=True).clamp(min=1)
        return (halves - threshold.gather(-1, support - 1)).clamp(min=0).square()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        del inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """As for sparsemax, with the square roots of the weights as the shares of the mean."""
        (weights,) = ctx.saved_tensors
        return _through_support(gradient, weights.sqrt())


def _falling(scores: Tensor) -> Tensor:
    """Scores, the highest of which is zero, in falling order.

    tau is never below -1, so those under -2 may all be -2 and change nothing: sums over long rows
    stay exact, and finite where keys are hidden."""
    return scores.sort(dim=-1, descending=True).values.clamp(min=-2)


def _through_support(gradient: Tensor, slope: Tensor) -> Tensor:
    """slope * (g - sum(g slope) / sum(slope)): the Jacobian of every entmax times g."""
    mean = (gradient * slope).sum(dim=-1, keepdim=True) / slope.sum(dim=-1, keepdim=True)
    return slope * (gradient - mean)
