"""What the hypotheses that were found looked at, out of what all hypotheses of every step did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from regard.models.contracts import AttentionBlock
from regard.precise import precise_type
from regard.search.hypothesis import HypothesisAttention
from regard.shapes import Float, Int, Tensor

Blocks = tuple[AttentionBlock, ...]


@runtime_checkable
class Asked(Protocol):
    """Which question of a step was a hypothesis's: its sentence's row, and the place there of the
    hypothesis that it continues."""

    @property
    def row(self) -> int: ...
    @property
    def parent(self) -> int: ...


def gather(
    steps: Sequence[Blocks], paths: Sequence[Sequence[Asked]]
) -> list[tuple[HypothesisAttention, ...]]:
    """The attention of each path, off the device: one line a step that it came through."""
    if not paths or not steps or not steps[0]:
        return [()] * len(paths)
    order = sorted(range(len(paths)), key=lambda number: len(paths[number]), reverse=True)
    picked = _Picked.of([paths[number] for number in order], steps[0][0].weights.device)
    found: list[tuple[HypothesisAttention, ...]] = [()] * len(paths)
    for blocks in zip(*steps[: len(picked.steps)], strict=True):
        for number, part in zip(order, picked.maps(blocks), strict=True):
            found[number] += (part,)
    return found


class _Picked(NamedTuple):
    """Lengths of paths, the longest first, and of each step the rows and parents of those that
    have it: of the first few."""

    lengths: list[int]
    steps: list[tuple[Int[Tensor, "path"], Int[Tensor, "path"]]]

    @classmethod
    def of(cls, paths: Sequence[Sequence[Asked]], device: torch.device) -> _Picked:
        lengths = [len(path) for path in paths]
        counts = [sum(length > step for length in lengths) for step in range(lengths[0])]
        asked = [path[step] for step, count in enumerate(counts) for path in paths[:count]]
        numbers = [each.row for each in asked], [each.parent for each in asked]
        rows, parents = torch.tensor(numbers, device=device)
        return cls(lengths, list(zip(rows.split(counts), parents.split(counts), strict=True)))

    def maps(self, blocks: Sequence[AttentionBlock]) -> Iterator[HypothesisAttention]:
        """Each path's part of a block, of which there is one a step. A decoder that looks at what
        it has written sees more at each step: what was not there yet has no weight."""
        weights = [block.weights for block in blocks]
        scores = [block.scores for block in blocks if block.scores is not None]
        widths = list(accumulate((step.size(-1) for step in weights), max))
        kind, lines = blocks[0].kind, self._lines(weights, 0.0)
        before = self._lines(scores, -torch.inf) if scores else (None,) * len(lines)
        for length, line, score in zip(self.lengths, lines, before, strict=True):
            width = widths[length - 1]
            yield HypothesisAttention(
                kind,
                line[:, :, :length, :width],
                None if score is None else score[:, :, :length, :width],
            )

    def _lines(
        self, steps: list[Float[Tensor, "_ layer head _ _"]], absent: float
    ) -> tuple[Float[Tensor, "layer head target source"], ...]:
        """Of every path, as wide as the widest; at least in float32."""
        _, layers, heads, _, _ = steps[0].shape
        width = max(step.size(-1) for step in steps)
        lines = steps[0].new_full(
            (len(self.lengths), layers, heads, len(steps), width),
            absent,
            dtype=precise_type(steps[0].dtype),
        )
        for position, (step, (rows, parents)) in enumerate(zip(steps, self.steps, strict=True)):
            chosen = step[rows, :, :, parents]
            lines[: len(rows), :, :, position, : step.size(-1)] = chosen
        return lines.cpu().unbind()
