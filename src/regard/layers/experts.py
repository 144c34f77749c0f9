"""Mixture of experts (Shazeer et al. 2017): many feed-forward networks, of which a gate chooses a
few for each position.

    y = sum over i of G(x)_i E_i(x)                                                       (eq. 1)
    E_i(x) = W2_i activation(W1_i x + b1_i) + b2_i
    G(x) = softmax(keep the k largest of H(x))                                        (eq. 3, 5)
    H(x)_i = (W_g x)_i + n_i c softplus((W_n x)_i), n_i normal, c = 1 in the paper        (eq. 4)

The noise is drawn in training only. Two terms of the loss keep the experts equally busy. The load
of an expert is the expected number of positions that choose it, a smooth function of the weights:

    importance_i = sum over x of G(x)_i                                                   (eq. 6)
    load_i = sum over x of P(x, i)                                                       (eq. 10)
    P(x, i) = Phi(((W_g x)_i - k-th largest of H(x) without i) / c softplus((W_n x)_i))  (eq. 8, 9)
    w_importance CV(importance)^2 + w_load CV(load)^2                                  (eq. 7, 11)

Positions are sorted by expert, and each layer of all experts is one grouped product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from regard.layers.dropout import Dropout
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.masks import check_real
from regard.layers.routing import Balance, Routing, open_routings
from regard.names import Activation
from regard.numerics.grouped import grouped_product
from regard.numerics.precision import at_least_float32
from regard.shapes import Bool, Float, Int, Tensor

SMALLEST_NOISE = 0.01
"""Smallest standard deviation of the noise, by which the load divides. The paper has no minimum;
its authors' code adds 0.01 to every standard deviation."""


@dataclass(frozen=True)
class ExpertChoice:
    """Experts of each row and their gate values, which sum to one. `logits` have no noise. `load`
    is the expected load in training, else None."""

    experts: Int[Tensor, "row active"]
    gates: Float[Tensor, "row active"]
    logits: Float[Tensor, "row expert"]
    load: Float[Tensor, "expert"] | None = None


class NoisyTopKGate(nn.Module):
    """Gate that chooses `num_active` of `num_experts` experts, computed in float32.

    By default its weights are zeros at first, so the experts of a position are drawn by the noise
    alone (appendix A)."""

    def __init__(
        self,
        size: int,
        num_experts: int,
        num_active: int,
        *,
        initial_scale: float = 0.0,
        noise_scale: float = 1.0,
    ) -> None:
        """The first weights W_g are normal, with standard deviation `initial_scale` / sqrt(size).
        `noise_scale` is c, the factor of the standard deviations of the noise.

        ValueError unless the number of active experts is from 1 to the number of experts, and both
        scales are finite and not negative."""
        super().__init__()
        if not 1 <= num_active <= num_experts:
            raise ValueError(
                f"num_active is {num_active}: expected a number from 1 to {num_experts}, the "
                "number of experts"
            )
        for name, scale in (("initial_scale", initial_scale), ("noise_scale", noise_scale)):
            if not 0 <= scale < math.inf:
                raise ValueError(f"{name} is {scale}: expected a finite number of at least 0")
        self.num_active = num_active
        self.noise_scale = noise_scale
        self.weight = nn.Parameter(torch.zeros(num_experts, size))
        if initial_scale:
            nn.init.normal_(self.weight, std=initial_scale / math.sqrt(size))
        self.noise = nn.Parameter(torch.zeros(num_experts, size))

    @property
    def num_experts(self) -> int:
        """Number of experts."""
        return len(self.weight)

    def forward(self, rows: Float[Tensor, "row size"]) -> ExpertChoice:
        """Choose the experts of each row, with noise in training."""
        with torch.autocast(rows.device.type, enabled=False):
            rows = at_least_float32(rows)
            logits = F.linear(rows, at_least_float32(self.weight))
            if not self.training:
                values, experts = logits.topk(self.num_active)
                return ExpertChoice(experts, values.softmax(dim=-1), logits)
            deviation = F.softplus(F.linear(rows, at_least_float32(self.noise)))
            deviation = (self.noise_scale * deviation).clamp_min(SMALLEST_NOISE)
            # Shazeer et al. 2017, eq. 4: H(x)_i = (x W_g)_i + N(0, 1) softplus((x W_noise)_i)
            noisy = logits + torch.randn_like(logits) * deviation
            # Shazeer et al. 2017, eq. 5: KeepTopK(v, k)_i = v_i for the k largest, else -inf
            values, experts = noisy.topk(self.num_active)
            # Shazeer et al. 2017, eq. 10: Load(X)_i = sum over x of P(x, i)
            load = self._choice_probability(logits, noisy, deviation).sum(dim=0)
            # Shazeer et al. 2017, eq. 3: G(x) = softmax(KeepTopK(H(x), k))
            return ExpertChoice(experts, values.softmax(dim=-1), logits, load)

    def _choice_probability(
        self,
        logits: Float[Tensor, "row expert"],
        noisy: Float[Tensor, "row expert"],
        deviation: Float[Tensor, "row expert"],
    ) -> Float[Tensor, "row expert"]:
        """Return the probability that each expert is chosen if its own noise is drawn again (eq. 8,
        9)."""
        if self.num_active == self.num_experts:
            return torch.ones_like(logits)
        values, experts = noisy.topk(self.num_active + 1)
        last, next_one = values[:, -2:-1], values[:, -1:]
        is_chosen = torch.zeros_like(logits, dtype=torch.bool)
        is_chosen = is_chosen.scatter(1, experts[:, :-1], True)
        threshold = torch.where(is_chosen, next_one, last)  # the k-th largest of the others
        # Shazeer et al. 2017, eq. 9: P(x, i) =
        #     Phi(((x W_g)_i - kth_excluding(H(x), k, i)) / softplus((x W_noise)_i))
        return torch.special.ndtr((logits - threshold) / deviation)


FIRST_BIAS = -3.0
"""First biases of `SigmoidExperts`: their sigmoid is 0.05. With 0 it is 0.5, more than their inputs
are at first, and `multi30k-gnmt-experts` learned no attention in 16 epochs."""


class Experts(nn.Module):
    """Feed-forward networks of which the gate chooses a few for each position."""

    varies_in_batches = True

    def __init__(
        self,
        gate: NoisyTopKGate,
        inner_size: int,
        activation: Activation = "relu",
        *,
        dropout: float = 0.0,
        importance: float = 0.01,
        load: float = 0.01,
    ) -> None:
        """`importance` and `load` are the weights of the two terms of the loss. `inner_size` is the
        number of hidden units of one expert."""
        super().__init__()
        num_experts, size = gate.weight.shape
        self.gate = gate
        self.inner = nn.Parameter(torch.empty(num_experts, size, inner_size))
        self.inner_bias = nn.Parameter(torch.zeros(num_experts, inner_size))
        self.outer = nn.Parameter(torch.empty(num_experts, inner_size, size))
        self.outer_bias = nn.Parameter(torch.zeros(num_experts, size))
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.importance, self.load = importance, load
        for matrix in (*self.inner, *self.outer):
            nn.init.xavier_uniform_(matrix)

    @property
    def num_multiplied(self) -> int:
        """Number of weights by which a position is multiplied in training."""
        num_active = self.gate.num_active
        experts = num_active * (self.inner[0].numel() + self.outer[0].numel())
        return experts + self.gate.weight.numel() + self.gate.noise.numel()

    def forward(
        self, states: Float[Tensor, "*batch position size"]
    ) -> Float[Tensor, "*batch position size"]:
        """Compute all positions, or the real ones of the mask of `routings`, and add the routing to
        it. Results at padding are zeros. ValueError for states of another size."""
        opened = open_routings()
        mask = None if opened is None else opened.mask_of(self, states.shape[:-1])
        mixed, routing = self.route(states, mask)
        if opened is not None:
            opened.add(self, routing)
        return mixed

    def route(
        self,
        states: Float[Tensor, "*batch position size"],
        mask: Bool[Tensor, "*batch position"] | None = None,
    ) -> tuple[Float[Tensor, "*batch position size"], Routing]:
        """Compute real positions, and return the routing too. Results at padding are zeros.
        ValueError for states of another size, and for a mask that does not fit."""
        size = self.gate.weight.size(1)
        if states.dim() < 2 or states.size(-1) != size or not states.is_floating_point():
            raise ValueError(
                f"states: expected floating-point numbers of shape (.., position, {size}), got "
                f"{states.dtype} of shape {tuple(states.shape)}"
            )
        if mask is not None:
            check_real(mask, states.shape[:-1], states.device)
        rows = states.flatten(0, -2)
        real = None if mask is None else mask.flatten().nonzero()[:, 0]
        inputs = rows if real is None else rows.index_select(0, real)
        choice = self.gate(inputs)
        mixed = self._mix(inputs, choice)
        if real is not None:
            mixed = mixed.new_zeros(rows.shape).index_copy(0, real, mixed)
        shape, balance = states.shape[:-1], self._balance(choice)
        routing = Routing(choice.experts, choice.gates, choice.logits, shape, real, balance)
        return mixed.view(states.shape), routing

    def _mix(
        self, rows: Float[Tensor, "row size"], choice: ExpertChoice
    ) -> Float[Tensor, "row size"]:
        """Return the sum of the chosen experts' outputs, weighted by their gate values (eq. 1)."""
        num_active = self.gate.num_active
        experts, order = choice.experts.flatten().sort(stable=True)
        ends = experts.bincount(minlength=self.gate.num_experts).cumsum(dim=0)
        inputs = rows.index_select(0, order.div(num_active, rounding_mode="floor"))
        hidden = grouped_product(inputs, self.inner, ends)
        hidden = hidden + self.inner_bias.to(hidden.dtype).index_select(0, experts)
        hidden = self.dropout(ACTIVATIONS[self.activation](hidden))
        outputs = grouped_product(hidden, self.outer, ends)
        outputs = outputs + self.outer_bias.to(outputs.dtype).index_select(0, experts)
        outputs = torch.empty_like(outputs).index_copy(0, order, outputs)
        gates = choice.gates.to(outputs.dtype)[..., None]
        # Shazeer et al. 2017, eq. 1: y = sum_i G(x)_i E_i(x)
        return (gates * outputs.view(*choice.gates.shape, outputs.size(1))).sum(dim=1)

    def _balance(self, choice: ExpertChoice) -> Balance | None:
        """Return the work of each expert; None outside training."""
        if choice.load is None:
            return None
        experts = choice.experts.flatten()
        zeros = choice.gates.new_zeros(self.gate.num_experts)
        # Shazeer et al. 2017, eq. 6: Importance(X) = sum over x of G(x)
        importance = zeros.index_add(0, experts, choice.gates.flatten())
        counts = experts.bincount(minlength=self.gate.num_experts).to(zeros.dtype)
        return Balance(importance, choice.load, counts, self.importance, self.load)


class SigmoidExperts(Experts):
    """Experts whose result is sigmoid(y), for a place between two recurrent layers (appendix E).

    The biases b2 are negative at first, as those of the gates of highway networks (Srivastava et
    al. 2015, section 2.2), so that the result is small. The paper does not name their values."""

    def __init__(
        self, gate: NoisyTopKGate, inner_size: int, *, importance: float = 0.01, load: float = 0.01
    ) -> None:
        super().__init__(gate, inner_size, importance=importance, load=load)
        nn.init.constant_(self.outer_bias, FIRST_BIAS)

    def _mix(
        self, rows: Float[Tensor, "row size"], choice: ExpertChoice
    ) -> Float[Tensor, "row size"]:
        # Shazeer et al. 2017, appendix E: sigmoid(MoE(x))
        return super()._mix(rows, choice).sigmoid()
