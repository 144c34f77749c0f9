"""Hard attention: the context of a step is the value at one source position.

    hard                s_t ~ weights_t in training (Xu et al. 2015, section 4.1)
    straight through    s_t = argmax of weights_t, with the gradient of the expected context
                        (straight-through estimator, Bengio et al. 2013, section 4)

A draw has no gradient, so the weights of `HardAttention` are learned from a reward, the log
probability of the target (`models/penalties.py`). For stable training, a share of the sources get
the expected context at every step, as in soft attention (section 4.2). In evaluation both use the
most probable position, and the returned weights are 1 there and 0 elsewhere, because the context
has nothing from other positions. The scores of the output still show the other candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import nn

from regard.attention.attend import Attention, AttentionOutput, Mask
from regard.attention.hidden import mix
from regard.attention.masks import mask_tensor
from regard.attention.scores import PreparedKeys
from regard.shapes import Bool, Float, Int, Tensor

EXPECTED = 0.5
"""Probability that a source gets the expected context in training, as in the paper."""
NOWHERE = -1
"""Drawn position of a source that got the expected context."""


class HardAttention(nn.Module):
    """Attention to one drawn position, called like `Attention`. Its output has the positions in
    `drawn`, and in training the weights that they were drawn by. Its state is True for sources that
    get the expected context; without a state no source does."""

    is_stateful = False

    def __init__(self, soft: Attention, expected: float = EXPECTED) -> None:
        """`expected` is the probability that a source gets the expected context in training.
        ValueError unless it is from 0 to 1."""
        if not 0 <= expected <= 1:
            raise ValueError(f"expected is {expected}: expected a probability from 0 to 1")
        super().__init__()
        self.soft = soft
        self.expected = expected

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """Compute the part of the score that depends on the keys only, once a source."""
        return self.soft.prepare(keys)

    def start(self, mask: Bool[Tensor, "batch source"]) -> Bool[Tensor, "batch 1"] | None:
        """Return which sources get the expected context; None outside training."""
        return self._drawn_softened(mask)

    def all_steps_state(
        self, queries: Float[Tensor, "batch target query"]
    ) -> Bool[Tensor, "batch 1"] | None:
        """Return which sources get the expected context at all steps; None outside training."""
        return self._drawn_softened(queries)

    def _drawn_softened(self, sources: Tensor) -> Bool[Tensor, "batch 1"] | None:
        if not self.training:
            return None
        return torch.rand(len(sources), 1, device=sources.device) < self.expected

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "batch source value"],
        mask: Mask | None = None,
        state: Bool[Tensor, "batch 1"] | None = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend. The context of a query that may attend to nothing is zero. ValueError for a state
        of another type or number of sources."""
        if state is not None and (state.dtype != torch.bool or state.shape != (len(queries), 1)):
            raise ValueError(
                f"state: expected bool of shape {(len(queries), 1)}, one value for each source, "
                f"got {state.dtype} of shape {tuple(state.shape)}; use start or all_steps_state"
            )
        output = self.soft(queries, prepared, values, mask, state, need_weights=True)
        weights = cast(Tensor, output.weights)
        if not weights.size(-1):
            return output if need_weights else replace(output, weights=None, scores=None)
        drawn = self._draw(weights) if self.training else weights.argmax(dim=-1)
        visible = mask_tensor(mask, queries)
        context = _values_at(drawn, values, visible)
        if need_weights and not self.training:
            output = replace(output, weights=_one_hot(drawn, weights, visible))
        if state is not None:
            context = torch.where(state[..., None], output.context, context)
            drawn = torch.where(state, NOWHERE, drawn)
        output = replace(output, context=context, drawn=drawn)
        return output if need_weights else replace(output, weights=None, scores=None)

    def _draw(self, weights: Float[Tensor, "batch target source"]) -> Int[Tensor, "batch target"]:
        """Draw a position for every query by its weights; any position if all weights are zero."""
        flat = weights.detach().flatten(0, 1)
        flat = torch.where(flat.sum(dim=-1, keepdim=True) > 0, flat, torch.ones_like(flat))
        # Xu et al. 2015, section 4.1: s_t ~ Multinoulli({a_ti})
        return torch.multinomial(flat, 1).view(weights.shape[:2])


class StraightThroughAttention(nn.Module):
    """Attention to the most probable position, in training too, called like `Attention`. Its output
    has the positions in `drawn`, and in training the weights that they are the highest of. Values
    get the gradient of the context. Weights get the gradient that they would have if the context
    were the weighted mean.

    This gradient is biased, because it ignores the difference between one value and the mean. But
    it has no noise, and the decoder learns from the contexts that it has in evaluation."""

    is_stateful = False

    def __init__(self, soft: Attention) -> None:
        super().__init__()
        self.soft = soft

    def prepare(self, keys: Float[Tensor, "*batch source key"]) -> PreparedKeys:
        """Compute the part of the score that depends on the keys only, once a source."""
        return self.soft.prepare(keys)

    def start(self, mask: Bool[Tensor, "batch source"]) -> None:
        """Return None: this attention has no state."""

    def all_steps_state(self, queries: Float[Tensor, "batch target query"]) -> None:
        """Return None: this attention has no state."""

    def forward(
        self,
        queries: Float[Tensor, "batch target query"],
        prepared: PreparedKeys,
        values: Float[Tensor, "batch source value"],
        mask: Mask | None = None,
        state: None = None,
        *,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """Attend. The context of a query that may attend to nothing is zero."""
        output = self.soft(queries, prepared, values, mask, state, need_weights=True)
        weights = cast(Tensor, output.weights)
        if not weights.size(-1):
            return output if need_weights else replace(output, weights=None, scores=None)
        drawn, visible = weights.argmax(dim=-1), mask_tensor(mask, queries)
        context = _values_at(drawn, values, visible)
        if self.training:  # plus zero, with the gradient of the mean for the weights
            # Bengio et al. 2013, section 4: d loss / d a_i = (d loss / d z) . v_i, as for a sum
            context = context + mix(weights - weights.detach(), values.detach(), visible)
        elif need_weights:
            output = replace(output, weights=_one_hot(drawn, weights, visible))
        output = replace(output, context=context, drawn=drawn)
        return output if need_weights else replace(output, weights=None, scores=None)


def _values_at(
    drawn: Int[Tensor, "batch target"],
    values: Float[Tensor, "batch source value"],
    visible: Bool[Tensor, "..."] | None,
) -> Float[Tensor, "batch target value"]:
    """Return the value at the position of every query, or zeros if it may attend to nothing."""
    index = drawn[..., None].expand(*drawn.shape, values.size(-1))
    # Xu et al. 2015, section 4.1: z_t = sum_i s_ti a_i, with s_ti = 1 at the drawn position
    context = values.expand(len(drawn), -1, -1).gather(1, index)
    if visible is None:
        return context
    return torch.where(visible.any(dim=-1, keepdim=True), context, 0)


def _one_hot(
    drawn: Int[Tensor, "batch target"],
    weights: Float[Tensor, "batch target source"],
    visible: Bool[Tensor, "..."] | None,
) -> Float[Tensor, "batch target source"]:
    """Return weights of 1 at the position of every query, or zeros if it may attend to nothing."""
    one_hot = torch.zeros_like(weights).scatter(-1, drawn[..., None], 1.0)
    return one_hot if visible is None else one_hot.masked_fill(~visible, 0)
