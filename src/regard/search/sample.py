"""Sampling: tokens drawn at random from the model's distribution."""

from __future__ import annotations

import torch

from regard.models.contracts import Decoder, Memory
from regard.search.candidates import log_probabilities
from regard.search.greedy import decode
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits
from regard.search.restrictions import TokenHistory
from regard.search.topk import stable_topk
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
    """Draw one hypothesis a sentence.

    A temperature below 1 sharpens the distribution, one above 1 flattens it. With `top_k` tokens
    are drawn from the k most probable ones (Fan et al. 2018). Log probabilities and scores are
    the model's own, before temperature and top_k. A generator on the model's device makes the
    result of a batch repeatable.

    ValueError if the temperature is not positive or top_k is below 1; ImpossibleError if no
    token is possible."""
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}: expected more than 0 (for 0 use greedy)")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}: expected at least 1 token, or None for all")

    def draw(
        logits: Float[Tensor, "batch 1 vocabulary"],
        forbidden: Int[Tensor, "_"],
        history: TokenHistory | None,
    ) -> tuple[Int[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        values, tokens = log_probabilities(logits, forbidden, history)[:, 0], None
        if top_k is not None:
            values, tokens = stable_topk(values, min(top_k, values.size(1)))
        drawn = _draw(values / temperature, generator)
        return drawn if tokens is None else tokens.gather(1, drawn), values.gather(1, drawn)

    return decode(decoder, memories, limits, draw, need_weights=need_weights)


def _draw(
    logits: Float[Tensor, "batch choice"], generator: torch.Generator | None
) -> Int[Tensor, "batch 1"]:
    """Draw an index for each row: the first whose cumulative probability is above a random number.
    One number a row is several times as fast as `torch.multinomial`, which draws one for each
    choice. If the probabilities of a row are NaN, draw any index: the error is raised when the log
    probabilities are read."""
    sums = torch.softmax(logits, dim=1).cumsum(dim=1, dtype=torch.double)
    total = sums[:, -1:]
    numbers = torch.rand(total.shape, generator=generator, dtype=torch.double, device=total.device)
    below = torch.minimum(numbers * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(sums, below, right=True).clamp(max=logits.size(1) - 1)
