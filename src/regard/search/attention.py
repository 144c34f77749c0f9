"""Attention of the returned hypotheses, gathered from the attention of all steps of a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from regard.models.contracts import AttentionBlock
from regard.numerics.precision import precise_type
from regard.search.hypothesis import HypothesisAttention
from regard.shapes import Float, Int, Tensor

Blocks = tuple[AttentionBlock, ...]


@runtime_checkable
class PathStep(Protocol):
    """Indices of one hypothesis in the attention of one step: the row of its sentence, and the slot
    of its parent hypothesis there."""

    @property
    def row(self) -> int: ...
    @property
    def parent(self) -> int: ...


def gather_attention(
    steps: Sequence[Blocks], paths: Sequence[Sequence[PathStep]]
) -> list[tuple[HypothesisAttention, ...]]:
    """Return the attention of each path on the CPU, with one target position for each step."""
    if not paths or not steps or not steps[0]:
        return [()] * len(paths)
    order = sorted(range(len(paths)), key=lambda number: len(paths[number]), reverse=True)
    indices = _Indices.of([paths[number] for number in order], steps[0][0].weights.device)
    attention: list[tuple[HypothesisAttention, ...]] = [()] * len(paths)
    for blocks in zip(*steps[: len(indices.steps)], strict=True):
        for number, block in zip(order, indices.gather(blocks), strict=True):
            attention[number] += (block,)
    return attention


class _Indices(NamedTuple):
    """Lengths of paths, longest first, and the rows and parents of each step. A step has the
    indices of the paths that are long enough, which are the first ones."""

    lengths: list[int]
    steps: list[tuple[Int[Tensor, "path"], Int[Tensor, "path"]]]

    @classmethod
    def of(cls, paths: Sequence[Sequence[PathStep]], device: torch.device) -> _Indices:
        lengths = [len(path) for path in paths]
        counts = [sum(length > step for length in lengths) for step in range(lengths[0])]
        path_steps = [path[step] for step, count in enumerate(counts) for path in paths[:count]]
        numbers = [step.row for step in path_steps], [step.parent for step in path_steps]
        rows, parents = torch.tensor(numbers, device=device)
        return cls(lengths, list(zip(rows.split(counts), parents.split(counts), strict=True)))

    def gather(self, blocks: Sequence[AttentionBlock]) -> Iterator[HypothesisAttention]:
        """Yield the attention of each path from one kind of block, given for every step.

        Attention to the decoder's own output grows wider with each step. Positions that did not
        exist at a step get weight 0 and score -inf."""
        weights = [block.weights for block in blocks]
        scores = [block.scores for block in blocks if block.scores is not None]
        widths = list(accumulate((step.size(-1) for step in weights), max))
        kind, path_weights = blocks[0].kind, self._gather(weights, 0.0)
        path_scores = self._gather(scores, -torch.inf) if scores else (None,) * len(path_weights)
        for length, weight, score in zip(self.lengths, path_weights, path_scores, strict=True):
            width = widths[length - 1]
            yield HypothesisAttention(
                kind,
                weight[:, :, :length, :width],
                None if score is None else score[:, :, :length, :width],
            )

    def _gather(
        self, steps: list[Float[Tensor, "_ layer head _ _"]], absent: float
    ) -> tuple[Float[Tensor, "layer head target source"], ...]:
        """Return one tensor for each path, as wide as the widest step, at least in float32."""
        _, layers, heads, _, _ = steps[0].shape
        width = max(step.size(-1) for step in steps)
        gathered = steps[0].new_full(
            (len(self.lengths), layers, heads, len(steps), width),
            absent,
            dtype=precise_type(steps[0].dtype),
        )
        for position, (step, (rows, parents)) in enumerate(zip(steps, self.steps, strict=True)):
            selected = step[rows, :, :, parents]
            gathered[: len(rows), :, :, position, : step.size(-1)] = selected
        return gathered.cpu().unbind()
