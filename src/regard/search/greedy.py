"""Greedy search: the most probable token at every step, so one hypothesis a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from regard.models.contracts import Decoder, Memory
from regard.runtime.wanted import check_wanted
from regard.search.backpointers import DONE, BackPointers, HypothesisEnd, SearchStep
from regard.search.candidates import TopCandidates, top_candidates
from regard.search.hypothesis import Hypothesis
from regard.search.limits import Limits, Rules, count_active, rows_to_keep
from regard.search.penalties import LengthPenalty, NoPenalty
from regard.search.restrictions import TokenHistory
from regard.shapes import Float, Int, Tensor

NO_PENALTY = NoPenalty()
Choose = Callable[
    [Float[Tensor, "batch 1 vocabulary"], Int[Tensor, "_"], TokenHistory | None],
    tuple[Int[Tensor, "batch 1"], Float[Tensor, "batch 1"]],
]
"""Function from logits, forbidden tokens and history to the next tokens and their log
probabilities."""


def greedy(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    limits: Limits,
    length_penalty: LengthPenalty = NO_PENALTY,
    *,
    need_weights: bool = False,
    find: TopCandidates = top_candidates,
) -> list[Hypothesis]:
    """Return the greedy hypothesis of each sentence: the most probable token at every step, the
    lowest of equally probable ones, until the end token or the maximum.

    The score is the sum of log probabilities divided by the length penalty, as in `beam`. `find`
    returns the candidate of a step. ImpossibleError if no token is possible or its probability is
    not a number."""

    def most_probable(
        logits: Tensor, forbidden: Tensor, history: TokenHistory | None
    ) -> tuple[Tensor, Tensor]:
        totals = logits.new_zeros(len(logits), 1, dtype=torch.float)
        candidates = find(logits, totals, forbidden, 1, history)
        return candidates.tokens, candidates.log_probabilities

    hypotheses = decode(decoder, memories, limits, most_probable, need_weights=need_weights)
    lengths = [len(hypothesis.tokens) for hypothesis in hypotheses]
    divisors = length_penalty(torch.tensor(lengths, dtype=torch.long, device="cpu")).tolist()
    return [
        replace(hypothesis, score=hypothesis.score / divisor)
        for hypothesis, divisor in zip(hypotheses, divisors, strict=True)
    ]


@torch.inference_mode()
def decode(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    limits: Limits,
    choose: Choose,
    *,
    need_weights: bool = False,
) -> list[Hypothesis]:
    """Decode one hypothesis a sentence, token by token. Sentences leave the batch when they are
    done."""
    rules = Rules.of(limits, memories)
    maximum, state, tokens = rules.maximum, decoder.start(memories), rules.first()
    history = rules.history
    sentences = torch.arange(maximum.size(0), device=maximum.device)
    num_sentences = num_active = maximum.size(0)
    steps, attention = [], []
    for position in range(rules.longest):
        check_wanted()
        output, state = decoder.step(tokens, state, need_weights=need_weights)
        logits = decoder.project(output.features)
        tokens, log_probabilities = choose(logits, rules.forbidden(position), history)
        parents = torch.zeros_like(tokens)
        steps.append(SearchStep(sentences, tokens, parents, log_probabilities))
        attention.append(output.attention)
        history = history.extend(parents, tokens) if history else None
        is_active = (tokens[:, 0] != rules.end) & (maximum > position + 1) & (sentences != DONE)
        still_active = count_active(is_active, position)
        if still_active == 0:
            break
        if still_active is None or still_active < num_active:
            sentences = sentences.masked_fill(~is_active, DONE)
        if still_active is not None:
            num_active, rows = still_active, rows_to_keep(is_active, still_active)
            if rows is not None:
                state, tokens = state.keep(rows), tokens[rows]
                sentences, maximum = sentences[rows], maximum[rows]
                history = history.keep(rows) if history else None
    pointers = BackPointers(steps, rules.end)
    ends = [HypothesisEnd(number, pointers.last(number), 0) for number in range(num_sentences)]
    return pointers.hypotheses(ends, attention)
