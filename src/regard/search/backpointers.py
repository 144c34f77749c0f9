"""Back-pointers: each step of a search as it was made, from which hypotheses are read at the end.

step    0        1        2
slot 0  the <--- cat <-+- sat        Nothing is copied when a hypothesis is continued or dies.
slot 1  a   <--- dog   +- ran        A text, and its attention, is a walk from right to left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch

from regard.search.attention import Blocks, gather
from regard.search.hypothesis import Hypothesis, HypothesisAttention, Lattice
from regard.shapes import Float, Int, Tensor

NOBODY = -1


@dataclass(frozen=True)
class Step:
    """What the hypotheses of the sentences that were going on wrote, and which hypothesis of the
    step before (`parents`) each continues. A dead one's log probability is -inf. Rows of `NOBODY`
    are of sentences that were done before."""

    sentences: Int[Tensor, "batch"]
    tokens: Int[Tensor, "batch hypothesis"]
    parents: Int[Tensor, "batch hypothesis"]
    log_probabilities: Float[Tensor, "batch hypothesis"]


class End(NamedTuple):
    """Where a hypothesis ends. By default its score is its log probability."""

    sentence: int
    position: int
    slot: int
    score: float | None = None


class _Place(NamedTuple):
    """One token of a hypothesis and where it was written; `row` is its sentence's in that step."""

    position: int
    row: int
    parent: int
    token: int
    log_probability: float


class History:
    """All steps of a search, off the device in one go."""

    def __init__(self, steps: list[Step], end: int) -> None:
        self._end = end
        self._rows = _rows(steps)
        self._widths = [step.tokens.size(1) for step in steps]
        self._tokens: list[list[int]] = _lists([step.tokens for step in steps])
        self._parents: list[list[int]] = _lists([step.parents for step in steps])
        self._log_probabilities: list[list[float]] = _lists(
            [step.log_probabilities for step in steps]
        )

    def hypotheses(self, ends: Sequence[End], looked: Sequence[Blocks] = ()) -> list[Hypothesis]:
        """What was written up to each of these ends, with its part of what the decoder looked at in
        each step. ValueError where a log probability is not finite."""
        paths = [self._walk(end.sentence, end.position, end.slot) for end in ends]
        for end, path in zip(ends, paths, strict=True):
            for number, place in enumerate(path):
                if not math.isfinite(value := place.log_probability):
                    where = f"sentence {end.sentence}, token {number}"
                    raise ImpossibleError(where, f"it has {value}")
        maps: list[tuple[HypothesisAttention, ...]] = [()] * len(paths)
        if looked:
            maps = gather(looked, paths)
        return [self._hypothesis(*found) for found in zip(ends, paths, maps, strict=True)]

    def _hypothesis(
        self, end: End, path: list[_Place], attention: tuple[HypothesisAttention, ...]
    ) -> Hypothesis:
        log_probabilities = tuple(place.log_probability for place in path)
        return Hypothesis(
            tuple(place.token for place in path),
            log_probabilities,
            sum(log_probabilities) if end.score is None else end.score,
            path[-1].token == self._end,
            attention,
        )

    def last(self, sentence: int) -> int:
        """The last step that the sentence was in."""
        return sum(sentence in rows for rows in self._rows) - 1

    def lattice(self, sentence: int) -> Lattice:
        """Every hypothesis that the sentence's beam ever held."""
        tokens: list[list[int]] = []
        parents: list[list[int]] = []
        scores: list[list[float]] = []
        width = max(self._widths)
        for position in range(self.last(sentence) + 1):
            tokens.append([-1] * width)
            parents.append([-1] * width)
            scores.append([-math.inf] * width)
            for slot in range(self._widths[position]):
                place = self._place(sentence, position, slot)
                if place.log_probability == -math.inf:
                    continue
                before = scores[position - 1][place.parent] if position else 0.0
                tokens[position][slot] = place.token
                parents[position][slot] = place.parent
                scores[position][slot] = before + place.log_probability
        return Lattice(torch.tensor(tokens), torch.tensor(parents), torch.tensor(scores))

    def _place(self, sentence: int, position: int, slot: int) -> _Place:
        row = self._rows[position][sentence]
        number = row * self._widths[position] + slot
        return _Place(
            position,
            row,
            self._parents[position][number],
            self._tokens[position][number],
            self._log_probabilities[position][number],
        )

    def _walk(self, sentence: int, position: int, slot: int) -> list[_Place]:
        """From a slot back to the first step, in reading order."""
        path = []
        for step in range(position, -1, -1):
            path.append(self._place(sentence, step, slot))
            slot = path[-1].parent
        return path[::-1]


class ImpossibleError(ValueError):
    """Where the best that can be written is not possible, or its probability not a number."""

    def __init__(self, place: str, came: str) -> None:
        super().__init__(
            f"{place}: expected a finite log probability, but {came}: look for logits that are not "
            "numbers, or limits that leave no token to write"
        )


def _rows(steps: list[Step]) -> list[dict[int, int]]:
    """For each step, sentence to row. Steps of the same sentences share one dictionary."""
    starts = [
        number
        for number, step in enumerate(steps)
        if not number or step.sentences is not steps[number - 1].sentences
    ]
    told = _lists([steps[number].sentences for number in starts])
    rows: list[dict[int, int]] = []
    for sentences, (first, after) in zip(told, pairwise([*starts, len(steps)]), strict=True):
        row_of = {number: row for row, number in enumerate(sentences) if number != NOBODY}
        rows += [row_of] * (after - first)
    return rows


def _lists(tensors: list[Tensor]) -> list[list[Any]]:
    """The numbers of each tensor, row by row, moved off the device together."""
    if not tensors:
        return []
    joined = torch.cat([tensor.flatten() for tensor in tensors]).tolist()
    ends = list(accumulate(tensor.numel() for tensor in tensors))
    return [joined[start:end] for start, end in pairwise([0, *ends])]
