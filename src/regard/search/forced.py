"""Forced decoding: the log probability of given targets, token by token, and the most probable
alternatives."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.models.contracts import AttentionBlock, Decoder, Memory
from regard.numerics.precision import precise_type
from regard.search.topk import stable_topk
from regard.shapes import Bool, Float, Int, Tensor

WORDS_AT_A_TIME = 1024
"""Maximum number of distributions over the vocabulary in memory together."""
NUMBERS_AT_A_TIME = 1 << 23
"""Maximum number of their probabilities, unless one distribution has more."""


@dataclass(frozen=True)
class Forced:
    """Log probabilities and entropies of given targets.

    Log probabilities are natural logarithms; entropies are in nats. Both are zero where the mask is
    False. The `top` axis counts the most probable tokens, best first. `copied` is the probability
    to copy, as in `DecoderOutput`."""

    log_probabilities: Float[Tensor, "batch target"]
    entropy: Float[Tensor, "batch target"]
    top_tokens: Int[Tensor, "batch target top"]
    top_log_probabilities: Float[Tensor, "batch target top"]
    attention: tuple[AttentionBlock, ...] = ()
    copied: Float[Tensor, "batch target"] | None = None

    @property
    def scores(self) -> Float[Tensor, "batch"]:
        """The log probability of each target."""
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
    """Return the log probability of each output token.

    `inputs` are the outputs shifted right by one start token; the mask is True for real positions.
    `num_top` is the number of most probable tokens to return, at most the size of the
    vocabulary."""
    output = decoder(inputs, memories, need_weights=need_weights)
    words = output.features[mask]
    vocabulary = decoder.project(words[:1]).size(-1)
    count = max(1, min(WORDS_AT_A_TIME, NUMBERS_AT_A_TIME // vocabulary))
    chunks = [
        _score(decoder.project(features), targets, num_top)
        for features, targets in zip(words.split(count), outputs[mask].split(count), strict=True)
    ]
    log_probabilities, entropy, top_tokens, top = (
        _spread(torch.cat(values), mask) for values in zip(*chunks, strict=True)
    )
    return Forced(log_probabilities, entropy, top_tokens, top, output.attention, output.copied)


def _score(
    logits: Float[Tensor, "word vocabulary"], targets: Int[Tensor, "word"], num_top: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the log probability of each target, the entropy of its distribution, the most probable
    tokens and their log probabilities."""
    dtype = precise_type(logits.dtype)
    log_probabilities = torch.log_softmax(logits, dim=1, dtype=dtype)
    target_log_probabilities = log_probabilities.gather(1, targets[:, None])[:, 0]
    entropy = torch.special.entr(log_probabilities.exp()).sum(dim=1)
    top, top_tokens = stable_topk(log_probabilities, min(num_top, logits.size(1)))
    return target_log_probabilities, entropy, top_tokens, top


def _spread(values: Tensor, mask: Bool[Tensor, "batch target"]) -> Tensor:
    """Return values at the positions where the mask is True, and zeros elsewhere."""
    spread = values.new_zeros(*mask.shape, *values.shape[1:])
    spread[mask] = values
    return spread
