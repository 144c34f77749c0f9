"""Back-pointers: the record of every search step, from which hypotheses are read at the end.

step    0        1        2
slot 0  the <--- cat <-+- sat        Extending or pruning a hypothesis copies nothing.
slot 1  a   <--- dog   +- ran        A text and its attention are read by walking right to left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch

from regard.search.attention import Blocks, gather_attention
from regard.search.hypothesis import Hypothesis, HypothesisAttention, Lattice
from regard.shapes import Float, Int, Tensor

DONE = -1
"""Sentence number of a row whose sentence is done."""


@dataclass(frozen=True)
class SearchStep:
    """Tokens of one step for every row of the batch, and the parent hypothesis of each token in the
    step before. A pruned hypothesis has log probability -inf. `sentences` is the sentence number of
    each row, or DONE."""

    sentences: Int[Tensor, "batch"]
    tokens: Int[Tensor, "batch hypothesis"]
    parents: Int[Tensor, "batch hypothesis"]
    log_probabilities: Float[Tensor, "batch hypothesis"]


class HypothesisEnd(NamedTuple):
    """Last step of a hypothesis. The score defaults to the log probability."""

    sentence: int
    position: int
    slot: int
    score: float | None = None


class _Token(NamedTuple):
    """One token of a hypothesis with its step, the row of its sentence there, and its parent."""

    position: int
    row: int
    parent: int
    token: int
    log_probability: float


class BackPointers:
    """All steps of a search, moved off the device together."""

    def __init__(self, steps: list[SearchStep], end: int) -> None:
        self._end = end
        self._rows = _rows(steps)
        self._widths = [step.tokens.size(1) for step in steps]
        self._tokens: list[list[int]] = _lists([step.tokens for step in steps])
        self._parents: list[list[int]] = _lists([step.parents for step in steps])
        self._log_probabilities: list[list[float]] = _lists(
            [step.log_probabilities for step in steps]
        )

    def hypotheses(
        self, ends: Sequence[HypothesisEnd], attention: Sequence[Blocks] = ()
    ) -> list[Hypothesis]:
        """Return the hypothesis of each end, with its part of the decoder's attention at each step.
        ImpossibleError if a log probability is not finite."""
        paths = [self._walk(end.sentence, end.position, end.slot) for end in ends]
        for end, path in zip(ends, paths, strict=True):
            for number, token in enumerate(path):
                if not math.isfinite(value := token.log_probability):
                    place = f"sentence {end.sentence}, token {number}"
                    raise ImpossibleError(place, f"it has {value}")
        maps: list[tuple[HypothesisAttention, ...]] = [()] * len(paths)
        if attention:
            maps = gather_attention(attention, paths)
        return [self._hypothesis(*parts) for parts in zip(ends, paths, maps, strict=True)]

    def _hypothesis(
        self, end: HypothesisEnd, path: list[_Token], attention: tuple[HypothesisAttention, ...]
    ) -> Hypothesis:
        log_probabilities = tuple(token.log_probability for token in path)
        return Hypothesis(
            tuple(token.token for token in path),
            log_probabilities,
            sum(log_probabilities) if end.score is None else end.score,
            path[-1].token == self._end,
            attention,
        )

    def last(self, sentence: int) -> int:
        """Return the last step of a sentence."""
        return sum(sentence in rows for rows in self._rows) - 1

    def lattice(self, sentence: int) -> Lattice:
        """Return every hypothesis that was in the beam of a sentence."""
        tokens: list[list[int]] = []
        parents: list[list[int]] = []
        scores: list[list[float]] = []
        width = max(self._widths)
        for position in range(self.last(sentence) + 1):
            tokens.append([-1] * width)
            parents.append([-1] * width)
            scores.append([-math.inf] * width)
            for slot in range(self._widths[position]):
                token = self._token(sentence, position, slot)
                if token.log_probability == -math.inf:
                    continue
                before = scores[position - 1][token.parent] if position else 0.0
                tokens[position][slot] = token.token
                parents[position][slot] = token.parent
                scores[position][slot] = before + token.log_probability
        return Lattice(
            torch.tensor(tokens, device="cpu"),
            torch.tensor(parents, device="cpu"),
            torch.tensor(scores, dtype=torch.float32, device="cpu"),
        )

    def _token(self, sentence: int, position: int, slot: int) -> _Token:
        row = self._rows[position][sentence]
        number = row * self._widths[position] + slot
        return _Token(
            position,
            row,
            self._parents[position][number],
            self._tokens[position][number],
            self._log_probabilities[position][number],
        )

    def _walk(self, sentence: int, position: int, slot: int) -> list[_Token]:
        """Return the tokens on the path from the first step to this slot."""
        path = []
        for step in range(position, -1, -1):
            path.append(self._token(sentence, step, slot))
            slot = path[-1].parent
        return path[::-1]


class ImpossibleError(ValueError):
    """The best hypothesis of a search has a log probability that is not finite."""

    def __init__(self, place: str, came: str) -> None:
        super().__init__(
            f"{place}: expected a finite log probability, but {came}: check the logits for NaN, "
            "and that the limits leave at least one token"
        )


def _rows(steps: list[SearchStep]) -> list[dict[int, int]]:
    """Map sentence to row for each step. Consecutive steps of the same rows share a dictionary."""
    starts = [
        number
        for number, step in enumerate(steps)
        if not number or step.sentences is not steps[number - 1].sentences
    ]
    sentence_lists = _lists([steps[number].sentences for number in starts])
    rows: list[dict[int, int]] = []
    ranges = pairwise([*starts, len(steps)])
    for sentences, (first, after) in zip(sentence_lists, ranges, strict=True):
        row_of = {number: row for row, number in enumerate(sentences) if number != DONE}
        rows += [row_of] * (after - first)
    return rows


def _lists(tensors: list[Tensor]) -> list[list[Any]]:
    """Return the numbers of each tensor, row by row, moved off the device together."""
    if not tensors:
        return []
    joined = torch.cat([tensor.flatten() for tensor in tensors]).tolist()
    ends = list(accumulate(tensor.numel() for tensor in tensors))
    return [joined[start:end] for start, end in pairwise([0, *ends])]
