"""How probable given targets are, token by token, and what else was probable."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.models.contracts import AttentionBlock, Decoder, Memory
from regard.precise import precise_type
from regard.search.topk import highest
from regard.shapes import Bool, Float, Int, Tensor

WORDS_AT_A_TIME = 1024
"""Distributions over the whole vocabulary that are held at once."""


@dataclass(frozen=True)
class Forced:
    """What a decoder thinks of given targets. Natural logarithms; entropies in nats; zero where
    the mask is False. The `top` axis is the most probable tokens, best first."""

    log_probabilities: Float[Tensor, "batch target"]
    entropy: Float[Tensor, "batch target"]
    top_tokens: Int[Tensor, "batch target top"]
    top_log_probabilities: Float[Tensor, "batch target top"]
    attention: tuple[AttentionBlock, ...] = ()

    @property
    def scores(self) -> Float[Tensor, "batch"]:
        """The log probability of each whole target."""
        return self.log_probabilities.sum(dim=1)


@torch.inference_mode()
def forced(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    inputs: Int[Tensor, "batch target"],
    outputs: Int[Tensor, "batch target"],
    mask: Bool[Tensor, "batch target"],
    *,
    num_top: int = 0,
    need_weights: bool = False,
) -> Forced:
    """Read the inputs (the outputs shifted right by one start) and look each output up in what the
    decoder expects there. `num_top` is how many alternatives to give, at most the vocabulary."""
    output = decoder(inputs, memories, need_weights=need_weights)
    parts = [
        _look_up(decoder.project(features), targets, num_top)
        for features, targets in zip(
            output.features[mask].split(WORDS_AT_A_TIME),
            outputs[mask].split(WORDS_AT_A_TIME),
            strict=True,
        )
    ]
    found, entropy, top_tokens, top = (
        _spread(torch.cat(values), mask) for values in zip(*parts, strict=True)
    )
    return Forced(found, entropy, top_tokens, top, output.attention)


def _look_up(
    logits: Float[Tensor, "word vocabulary"], targets: Int[Tensor, "word"], num_top: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each word its log probability, the entropy there, the best tokens and theirs."""
    dtype = precise_type(logits.dtype)
    log_probabilities = torch.log_softmax(logits, dim=1, dtype=dtype)
    found = log_probabilities.gather(1, targets[:, None])[:, 0]
    entropy = torch.special.entr(log_probabilities.exp()).sum(dim=1)
    top, top_tokens = highest(log_probabilities, min(num_top, logits.size(1)))
    return found, entropy, top_tokens, top


def _spread(values: Tensor, mask: Bool[Tensor, "batch target"]) -> Tensor:
    """Words back to their positions, zero elsewhere."""
    spread = values.new_zeros(*mask.shape, *values.shape[1:])
    spread[mask] = values
    return spread
