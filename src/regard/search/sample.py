"""Tokens drawn at random, each as often as the model expects it."""

from __future__ import annotations

import torch

from regard.models.contracts import Decoder, Memory
from regard.search.candidates import log_probabilities
from regard.search.greedy import write
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits
from regard.search.topk import highest
from regard.shapes import Float, Int, Tensor


def sample(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    limits: Limits,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
    need_weights: bool = False,
) -> list[Hypothesis]:
    """Draw one hypothesis a sentence. A temperature below 1 sharpens, above 1 flattens; with
    `top_k` only the so many most probable tokens are drawn from (Fan et al. 2018).

    Log probabilities and scores are the model's own, before both. A generator (on the model's
    device) makes a draw repeatable for the same batch. ValueError for a temperature or top_k that
    nothing can be drawn by; ImpossibleError where no token is possible."""
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}: expected more than 0 (for 0 use greedy)")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}: expected at least 1 token, or None for all")

    def draw(
        logits: Float[Tensor, "batch 1 vocabulary"], closed: Int[Tensor, "closed"]
    ) -> tuple[Int[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        values, tokens = log_probabilities(logits[:, 0], closed), None
        if top_k is not None:
            values, tokens = highest(values, min(top_k, values.size(1)))
        drawn = _draw(values / temperature, generator)
        return drawn if tokens is None else tokens.gather(1, drawn), values.gather(1, drawn)

    return write(decoder, memories, limits, draw, need_weights=need_weights)


def _draw(
    logits: Float[Tensor, "batch choice"], generator: torch.Generator | None
) -> Int[Tensor, "batch 1"]:
    """Any of them where their probabilities are no numbers, which is found when they are read."""
    shares = torch.softmax(logits, dim=1)
    shares = torch.where(shares.isfinite().all(dim=1, keepdim=True), shares, 1.0)
    return torch.multinomial(shares, 1, generator=generator)
