"""The most probable token at every step: one hypothesis a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from regard.models.contracts import Decoder, Memory
from regard.search.highest import highest
from regard.search.history import History, Step
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits, Rules
from regard.search.penalties import LengthPenalty, NoPenalty
from regard.shapes import Float, Int, Tensor

NO_PENALTY = NoPenalty()
Choose = Callable[[Float[Tensor, "batch vocabulary"]], Int[Tensor, "batch 1"]]
"""From the log probabilities of what may be written next to what is."""


def greedy(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    limits: Limits,
    length_penalty: LengthPenalty = NO_PENALTY,
    *,
    need_weights: bool = False,
) -> list[Hypothesis]:
    """Write the most probable token (of equals the lowest) until the end or the maximum. A score
    is the sum of the log probabilities over the length penalty, as in a beam."""
    found = write(decoder, memories, limits, most_probable, need_weights=need_weights)
    divisors = length_penalty(
        torch.tensor([len(each.tokens) for each in found], dtype=torch.long)
    ).tolist()
    return [
        replace(each, score=each.score / divisor)
        for each, divisor in zip(found, divisors, strict=True)
    ]


def most_probable(
    log_probabilities: Float[Tensor, "batch vocabulary"],
) -> Int[Tensor, "batch 1"]:
    """Of equals the lowest."""
    return highest(log_probabilities, 1)[1]


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
    num_sentences, steps = maximum.size(0), []
    for position in range(rules.longest):
        output, state = decoder.step(tokens, state, need_weights=need_weights)
        allowed = rules.log_probabilities(decoder.project(output.features)[:, 0], position)
        tokens = choose(allowed)
        chosen = allowed.gather(1, tokens)
        steps.append(Step(sentences, tokens, torch.zeros_like(tokens), chosen, output.attention))
        going = ((tokens[:, 0] != rules.end) & (maximum > position + 1)).nonzero()[:, 0]
        if going.size(0) < sentences.size(0):
            if going.size(0) == 0:
                break
            state, tokens = state.keep(going), tokens[going]
            sentences, maximum = sentences[going], maximum[going]
    history = History(steps, rules.end)
    return [history.hypothesis(number, history.last(number), 0) for number in range(num_sentences)]
