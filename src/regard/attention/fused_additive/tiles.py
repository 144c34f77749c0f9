"""Pairs of queries and keys, cut into chunks that fit in memory and tiles that fit in the cache.

    batch ┬ chunk: some sentences, some of their rows (queries), every column (key)
          └──┬ tile: some of those, and the columns between the first and last that they see

For every pair and number, s = 1 / (1 + e^{2q} e^{2k}), so that tanh(q + k) = 1 - 2 s.

On other devices than a CPU s is formed as sigmoid(-2 (q + k)), for all columns: to ask which
numbers are out of range and which columns are hidden, Python would have to wait for the device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from regard.attention.fused_additive.prepared import AdditiveMemory
from regard.precise import precise_type
from regard.shapes import Bool, Float, Tensor

LIMITS = {torch.float32: 43.0, torch.float64: 354.0}
"""How far from zero a number may be for e^{2x} to be a normal one. A query or key with a number
beyond that is far; in its pairs s is formed as sigmoid(-2 (q + k)), which is right everywhere and
slower."""

TILE_SIZE = 1 << 18
"""Numbers in a tile on a CPU: a megabyte, which stays in the cache of one core."""

LARGE_TILE_SIZE = 1 << 24
"""On other devices, where starting a computation costs more than the cache saves."""

CHUNK_SIZE = 1 << 19
"""Scores, or numbers in queries and keys, that are worked on together."""


def is_slow_to_read(device: torch.device) -> bool:
    """Whether Python waits for the device to read a number of its tensors."""
    return device.type != "cpu"


def power(vectors: Tensor, out: Tensor | None = None) -> Tensor:
    """e^{2x}."""
    return torch.mul(vectors, 2, out=out).exp_()


def near(vectors: Tensor) -> bool:
    """Whether no vector is far. What holds a NaN is."""
    if vectors.numel() == 0:
        return True
    lowest, highest = torch.aminmax(vectors)
    limit = LIMITS[vectors.dtype]
    return bool(highest <= limit) and bool(lowest >= -limit)


def far(vectors: Float[Tensor, "batch position size"]) -> Bool[Tensor, "batch position"]:
    """Which vectors are. What holds a NaN is."""
    return ~(vectors.abs().amax(dim=-1) <= LIMITS[vectors.dtype])


def seen_only(vectors: Tensor, mask: Tensor) -> Tensor:
    """Zeros for what no query sees, so that whatever stood there is in nobody's way."""
    return torch.where(mask.any(dim=1)[..., None], vectors, 0)


class Tile(NamedTuple):
    """Where in its chunk it lies, and s there: its own only until the next tile is formed."""

    batch: slice
    rows: slice
    columns: slice
    shares: Float[Tensor, "batch row column size"]


class Pairs:
    """All queries with all keys: what they are cut by, and how s is formed."""

    def __init__(
        self,
        queries: Float[Tensor, "batch target size"],
        keys: Float[Tensor, "batch source size"],
        memory: AdditiveMemory | None = None,
    ) -> None:
        """`memory`: source of the mask and the powers."""
        mask, powers = (None, None) if memory is None else (memory.mask, memory.powers)
        self.dtype = precise_type(queries.dtype)
        self.device = queries.device
        self.queries, self.keys = queries.to(self.dtype), keys.to(self.dtype)
        self.mask, self.powers = mask, powers
        if powers is not None and (
            powers.size(-1) != keys.size(-1)  # split powers of the kernels: a key is out of range
            or powers.dtype != self.dtype  # keys were prepared in another type: less precise
        ):
            self.powers = powers = None
        self.axes = (*queries.shape[:2], keys.size(1))
        self.size = queries.size(-1)
        self.is_direct = is_slow_to_read(self.device)
        self.all_near = self.is_direct
        if not self.is_direct:
            self.all_near = near(self.queries) and (powers is not None or near(self.keys))
        if (self.is_direct or not self.all_near) and mask is not None:
            self.keys, self.powers = seen_only(self.keys, mask), None
        self.spans = None if memory is None or self.is_direct else memory.spans
        self.one = torch.ones((), dtype=self.dtype, device=self.device)
        self.buffer = self._new_buffer()
        self._rooms: dict[tuple[int, ...], Tensor] = {}

    def new(self, *shape: int) -> Tensor:
        """Room for numbers of the type that is computed in."""
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def chunks(self) -> Iterator[Chunk]:
        """Everything, some sentences after the other."""
        num_batch, num_rows, num_columns = self.axes
        largest = max(num_rows * num_columns, (num_rows + num_columns) * self.size, 1)
        sentences = max(1, min(num_batch, CHUNK_SIZE // largest))
        rows = max(1, CHUNK_SIZE // max(1, sentences * num_columns))
        needs_room = self.powers is None and not self.is_direct
        shared = self.new(sentences, num_columns, self.size) if needs_room else None
        for batch in _parts(0, num_batch, sentences):
            keys = self.keys[batch]
            if self.is_direct:
                powers = keys
            elif self.powers is not None:
                powers = self.powers[batch]
            elif shared is not None:  # one room for all: fresh memory costs more than the powers
                powers = power(keys, shared[: len(keys)])
            for row in _parts(0, num_rows, rows):
                yield Chunk(self, batch, row, self.queries[batch, row], keys, powers)

    def room(self, shape: tuple[int, ...]) -> Tensor:
        """The buffer in this shape. Few shapes are asked for, thousands of times."""
        if shape not in self._rooms:
            self._rooms[shape] = self.buffer[: math.prod(shape)].view(shape)
        return self._rooms[shape]

    def _new_buffer(self) -> Tensor:
        limit = TILE_SIZE if self.device.type == "cpu" else LARGE_TILE_SIZE
        return self.new(max(min(limit, math.prod(self.axes) * self.size), self.size))


class Chunk:
    """Some sentences and some of their rows, with all columns; only until the next is formed."""

    def __init__(
        self, pairs: Pairs, batch: slice, rows: slice, queries: Tensor, keys: Tensor, powers: Tensor
    ) -> None:
        self.pairs, self.batch, self.rows = pairs, batch, rows
        self.queries, self.keys = queries, keys
        self.query_powers = (queries if pairs.is_direct else power(queries)).unsqueeze(2)
        self.key_powers = powers.unsqueeze(1)
        self.far = None if pairs.all_near else (far(queries), far(keys))
        self.axes = (*queries.shape[:2], keys.size(1))

    @property
    def mask(self) -> Bool[Tensor, "#batch #row column"] | None:
        mask = self.pairs.mask
        if mask is None:
            return None
        return mask[
            self.batch if mask.size(0) > 1 else slice(0, 1),
            self.rows if mask.size(1) > 1 else slice(0, 1),
        ]

    def tiles(self) -> Iterator[Tile]:
        """Every pair that is not hidden, and some that are, a buffer at a time."""
        size, (num_batch, num_rows, num_columns) = self.pairs.size, self.axes
        room = max(1, self.pairs.buffer.numel() // max(1, size))
        # several rows look at the same keys, which then stay in the cache beside the tile
        columns = max(1, min(num_columns, room // min(4, num_rows)))
        rows = max(1, min(num_rows, room // columns))
        sentences = max(1, min(num_batch, room // (columns * rows)))
        for batch in _parts(0, num_batch, sentences):
            for row in _parts(0, num_rows, rows):
                first, end = self._span(batch, row)
                for column in _parts(first, end, columns):
                    yield Tile(batch, row, column, self._shares(batch, row, column))

    def _span(self, batch: slice, rows: slice) -> tuple[int, int]:
        """From the first column that one of these rows sees to after the last."""
        spans = self.pairs.spans
        if spans is None:
            return 0, self.axes[2]
        sentences = _cut(spans, self.batch, batch)
        seen = [span for sentence in sentences for span in _cut(sentence, self.rows, rows)]
        return min(first for first, _ in seen), max(end for _, end in seen)

    def _shares(self, batch: slice, rows: slice, columns: slice) -> Tensor:
        """s of a tile, in the buffer."""
        pairs = self.pairs
        asking = self.query_powers[batch, rows]
        asked = self.key_powers[batch, :, columns]
        shares = pairs.room((asking.size(0), asking.size(1), asked.size(2), pairs.size))
        if pairs.is_direct:
            return torch.add(asking, asked, out=shares).mul_(-2).sigmoid_()
        torch.addcmul(pairs.one, asking, asked, out=shares).reciprocal_()
        if self.far is not None:
            queries, keys = self.queries[batch, rows], self.keys[batch, columns]
            far_queries, far_keys = self.far[0][batch, rows], self.far[1][batch, columns]
            far = far_queries.unsqueeze(2) | far_keys.unsqueeze(1)
            if far.any():
                exact = torch.sigmoid(-2 * (queries.unsqueeze(2) + keys.unsqueeze(1)))
                torch.where(far[..., None], exact, shares, out=shares)
        return shares


def _parts(first: int, end: int, size: int) -> Iterator[slice]:
    for start in range(first, end, size):
        yield slice(start, min(start + size, end))


def _cut(numbers: list[Any], chunk: slice, tile: slice) -> list[Any]:
    """A tile's part, within its chunk's, of what may be one for all."""
    if len(numbers) == 1:
        return numbers
    return numbers[chunk.start + tile.start : chunk.start + tile.stop]
