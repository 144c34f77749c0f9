"""The most probable token at every step: one hypothesis a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from regard.models.contracts import Decoder, Memory
from regard.search.backpointers import NOBODY, End, History, Step
from regard.search.candidates import best
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits, Rules, count_going, going_on
from regard.search.penalties import LengthPenalty, NoPenalty
from regard.shapes import Float, Int, Tensor

NO_PENALTY = NoPenalty()
Choose = Callable[
    [Float[Tensor, "batch 1 vocabulary"], Int[Tensor, "closed"]],
    tuple[Int[Tensor, "batch 1"], Float[Tensor, "batch 1"]],
]
"""From logits, and what may not be written, to what is, and its log probability."""


def greedy(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    limits: Limits,
    length_penalty: LengthPenalty = NO_PENALTY,
    *,
    need_weights: bool = False,
) -> list[Hypothesis]:
    """Write the most probable token (of equals the lowest) until the end or the maximum. A score
    is the sum of the log probabilities over the length penalty, as in a beam. ImpossibleError where
    no token is possible or its probability is no number."""
    found = write(decoder, memories, limits, most_probable, need_weights=need_weights)
    divisors = length_penalty(
        torch.tensor([len(each.tokens) for each in found], dtype=torch.long, device="cpu")
    ).tolist()
    return [
        replace(each, score=each.score / divisor)
        for each, divisor in zip(found, divisors, strict=True)
    ]


def most_probable(
    logits: Float[Tensor, "batch 1 vocabulary"], closed: Int[Tensor, "closed"]
) -> tuple[Int[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
    """Of equals the lowest."""
    totals = logits.new_zeros(len(logits), 1, dtype=torch.float)
    found = best(logits, totals, closed, 1)
    return found.tokens, found.log_probabilities


@torch.inference_mode()
def write(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    limits: Limits,
    choose: Choose,
    *,
    need_weights: bool = False,
) -> list[Hypothesis]:
    """Write one hypothesis a sentence, token by token. Sentences leave the batch as they end."""
    rules = Rules.of(limits, memories)
    maximum, state, tokens = rules.maximum, decoder.start(memories), rules.first()
    sentences = torch.arange(maximum.size(0), device=maximum.device)
    num_sentences = num_going = maximum.size(0)
    steps, looked = [], []
    for position in range(rules.longest):
        output, state = decoder.step(tokens, state, need_weights=need_weights)
        tokens, chosen = choose(decoder.project(output.features), rules.closed(position))
        steps.append(Step(sentences, tokens, torch.zeros_like(tokens), chosen))
        looked.append(output.attention)
        is_going = (tokens[:, 0] != rules.end) & (maximum > position + 1) & (sentences != NOBODY)
        now_going = count_going(is_going, position)
        if now_going == 0:
            break
        if now_going is None or now_going < num_going:
            sentences = sentences.masked_fill(~is_going, NOBODY)
        if now_going is not None:
            num_going, rows = now_going, going_on(is_going, now_going)
            if rows is not None:
                state, tokens = state.keep(rows), tokens[rows]
                sentences, maximum = sentences[rows], maximum[rows]
    history = History(steps, rules.end)
    return history.hypotheses(
        [End(number, history.last(number), 0) for number in range(num_sentences)], looked
    )
