"""All texts that the limits allow with their probabilities: the reference of every search."""

from __future__ import annotations

import math
from itertools import product

import torch


def texts(num_tokens, start, end, maximum, minimum=0, forbidden=()):
    """Return all texts: the end token comes only last and not before the minimum; a text without it
    has the maximum length."""
    words = [token for token in range(num_tokens) if token not in (*forbidden, end)]
    result = list(product(words, repeat=maximum))
    if end is not None:
        for length in range(minimum, maximum):
            result += [(*text, end) for text in product(words, repeat=length)]
    return result


def log_probabilities(decoder, memories, start, text):
    """Return the log probability of each token of one text for one sentence, from one forward
    pass."""
    inputs = torch.tensor([[start, *text[:-1]]])
    logits = decoder.project(decoder(inputs, memories).features)[0]
    return [float(row[token] - row.logsumexp(0)) for row, token in zip(logits, text, strict=True)]


def coverage(decoder, memories, start, text):
    """Return the coverage of Wu et al. 2016, equation 14: sum over i of log(min(sum over j of p_ij,
    1))."""
    inputs = torch.tensor([[start, *text[:-1]]])
    weights = decoder(inputs, memories, need_weights=True).attention[0].weights[0]
    layers, heads, length, _ = weights.shape
    weights = weights.tolist()
    total = 0.0
    for source in range(int(memories[0].mask[0].sum())):
        seen = sum(
            weights[layer][head][target][source]
            for layer in range(layers)
            for head in range(heads)
            for target in range(length)
        )
        total += math.log(min(seen / (layers * heads), 1.0))
    return total


def plain_beam(decoder, memories, limits, settings, rank):
    """Search one sentence with lists, without a bound that ends it early: to the maximum or, with
    early stopping, until the worst of the `size` best finished texts is at least as good as every
    live one. `rank` is the score of a text and its log probabilities."""
    living, complete = [((), [])], []
    for position in range(limits.maximum):
        candidates = []
        for text, values in living:
            inputs = torch.tensor([[limits.start, *text]])
            logits = decoder.project(decoder(inputs, memories).features)[0, -1]
            for token, value in enumerate((logits - logits.logsumexp(0)).tolist()):
                early = token == limits.end and position < limits.minimum
                if token not in limits.forbidden and not early:
                    candidates.append(((*text, token), [*values, value]))
        candidates.sort(key=lambda candidate: -sum(candidate[1]))
        over = [c for c in candidates[: settings.size] if c[0][-1] == limits.end]
        living = [c for c in candidates if c[0][-1] != limits.end][: settings.size]
        complete = complete + over
        ranks = sorted((rank(*c) for c in complete), reverse=True)
        beaten = len(ranks) >= settings.size and all(
            rank(*c) <= ranks[settings.size - 1] for c in living
        )
        if not living or (settings.early_stopping and beaten):
            break
    if position + 1 == limits.maximum:
        complete += living
    complete.sort(key=lambda c: -rank(*c))
    return complete[: settings.num_best]
