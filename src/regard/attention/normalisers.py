"""Normalisers: scores to weights that are not negative.

The weights of `Softmax`, `Sparsemax` and `Entmax15` sum to one over the visible keys. Those of
`Sigmoid` and `ScaledSoftmax` do not, so a context can be a sum that grows with the number of keys.

Each takes scores and a mask (True is visible; None: all are). A hidden key gets a weight of exactly
zero and has no gradient. A row without visible keys is zeros, never NaN. A visible score of NaN
makes the weights of its row NaN; `Sigmoid` computes each weight alone, so only its own weight.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch

from regard.numerics.precision import at_least_float32
from regard.runtime.modes import is_free_to_read
from regard.shapes import Bool, Float, Tensor


@runtime_checkable
class Normaliser(Protocol):
    """Function from scores to attention weights."""

    def __call__(
        self,
        scores: Float[Tensor, "*batch target source"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
    ) -> Float[Tensor, "*batch target source"]:
        """Return the weights. The mask has any shape that broadcasts to that of the scores."""


class Softmax:
    """exp(s_j / t) / sum of exp(s / t), at least in float32. A temperature t below 1 sharpens the
    weights. ValueError if it is not positive."""

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = _checked(temperature)

    def __call__(
        self,
        scores: Float[Tensor, "*batch target source"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
    ) -> Float[Tensor, "*batch target source"]:
        # Bahdanau et al. 2015, eq. 6 (from memory) if wiring is bahdanau:
        #     a_ij = exp(e_ij) / sum_k exp(e_ik)
        # Luong et al. 2015, eq. 7 (from memory) if wiring is luong:
        #     a_t(s) = exp(score(h_t, h_s)) / sum_s' exp(score(h_t, h_s'))
        # Xu et al. 2015, eq. 5 (from memory) if task is caption: a_ti = exp(e_ti) / sum_k exp(e_tk)
        # Yang et al. 2016, eq. 6 if query is learned: a_t = exp(u_t . u_w) / sum_t exp(u_t . u_w)
        # Vaswani et al. 2017, eq. 1, weights if kind is transformer: softmax(Q K^T / sqrt(d_k))
        return _normalise(partial(torch.softmax, dim=-1), scores, mask, self.temperature)


class Sparsemax:
    """Projection of the scores onto the simplex (Martins and Astudillo 2016), so that small scores
    get a weight of exactly zero."""

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


class Sigmoid:
    """1 / (1 + exp(-s_j / t)), at least in float32. Each key has a weight from 0 to 1, whatever the
    other keys are, so the context is the sum of the values with a weight near one."""

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = _checked(temperature)

    def __call__(
        self,
        scores: Float[Tensor, "*batch target source"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
    ) -> Float[Tensor, "*batch target source"]:
        return _normalise(torch.sigmoid, scores, mask, self.temperature)


class ScaledSoftmax:
    """n exp(s_j / t) / sum of exp(s / t), at least in float32, for n visible keys. The weights sum
    to n, so the context of equal scores is the sum of the values."""

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = _checked(temperature)

    def __call__(
        self,
        scores: Float[Tensor, "*batch target source"],
        mask: Bool[Tensor, "*#batch #target #source"] | None,
    ) -> Float[Tensor, "*batch target source"]:
        if mask is None:
            num_keys: Tensor | int = scores.size(-1)
        else:
            num_keys = mask.expand(*mask.shape[:-1], scores.size(-1)).sum(dim=-1, keepdim=True)

        def scaled(precise: Tensor) -> Tensor:
            return torch.softmax(precise, dim=-1) * num_keys

        return _normalise(scaled, scores, mask, self.temperature)


def _checked(temperature: float) -> float:
    if not temperature > 0:
        raise ValueError(f"temperature: expected more than 0, got {temperature}")
    return temperature


def _normalise(
    function: Callable[[Tensor], Tensor], scores: Tensor, mask: Tensor | None, temperature: float
) -> Tensor:
    """Return the weights of `function`, which maps rows, in the type of the scores. Its
    argument is scores / temperature, at least in float32, with -inf at hidden keys.

    With gradients, a row without visible keys is computed from zeros, as no NaN may be formed.
    Without gradients its NaN are overwritten, like all weights of hidden keys."""
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

    With the scores in descending order, the support is the k largest scores for the last k at which
    1 + k s_k exceeds the sum of the first k; tau is (this sum - 1) / k (algorithm 1)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor) -> Tensor:
        if not scores.size(-1):
            return scores.clone()
        scores = scores - scores.amax(dim=-1, keepdim=True)
        falling = _falling(scores)
        count = torch.arange(1, scores.size(-1) + 1, device=scores.device, dtype=scores.dtype)
        sums = falling.cumsum(dim=-1)
        # Martins and Astudillo 2016, algorithm 1: k(z) = max {k: 1 + k z_(k) > sum_{j<=k} z_(j)}
        support = (1 + count * falling > sums).sum(dim=-1, keepdim=True).clamp(min=1)
        # Martins and Astudillo 2016, algorithm 1: tau(z) = (sum_{j<=k(z)} z_(j) - 1) / k(z)
        threshold = (sums.gather(-1, support - 1) - 1) / support
        # Martins and Astudillo 2016, algorithm 1: p_i = max(z_i - tau(z), 0)
        return (scores - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        del inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Return the gradient minus its mean over the support; zero outside it (section 2.5)."""
        (weights,) = ctx.saved_tensors
        return _through_support(gradient, (weights > 0).to(gradient.dtype))


class _Entmax15Function(torch.autograd.Function):
    """p = max(s / 2 - tau, 0) squared, with tau such that p sums to one.

    For a support of the k largest scores, tau = mean - sqrt((1 - k variance) / k) of their halves.
    The support has the last k at which tau does not exceed the k-th half (algorithm 2)."""

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
        # Peters, Niculae and Martins 2019, algorithm 2: tau(k) = M(k) - sqrt((1 - S(k)) / k)
        threshold = mean - ((1 - spread) / count).clamp(min=0).sqrt()
        support = (threshold <= falling).sum(dim=-1, keepdim=True).clamp(min=1)
        # Peters, Niculae and Martins 2019, algorithm 2: p_i = max(z_i / 2 - tau, 0)^2
        return (halves - threshold.gather(-1, support - 1)).clamp(min=0).square()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        del inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Return the gradient as for sparsemax, with the mean weighted by the square roots of the
        weights."""
        (weights,) = ctx.saved_tensors
        return _through_support(gradient, weights.sqrt())


def _falling(scores: Tensor) -> Tensor:
    """Return scores, the highest of which is zero, in descending order.

    As tau is never below -1, scores below -2 are replaced by -2 without effect. Sums over long rows
    then stay exact, and finite if keys are hidden."""
    return scores.sort(dim=-1, descending=True).values.clamp(min=-2)


def _through_support(gradient: Tensor, slope: Tensor) -> Tensor:
    """Return slope * (g - sum(g slope) / sum(slope)), the Jacobian of every entmax times g."""
    mean = (gradient * slope).sum(dim=-1, keepdim=True) / slope.sum(dim=-1, keepdim=True)
    return slope * (gradient - mean)
