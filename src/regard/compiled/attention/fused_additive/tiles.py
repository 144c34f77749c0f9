"""Pairs of queries and keys, cut into chunks that fit in memory and tiles that fit in the cache.

    batch ┬ chunk: some sentences, some of their rows (queries), every column (key)
          └──┬ tile: some of these, and the columns from the first to the last visible one

For every pair and number, s = 1 / (1 + e^{2q} e^{2k}), so that tanh(q + k) = 1 - 2 s.

On other devices than a CPU s is computed as sigmoid(-2 (q + k)) for all columns: Python would wait
for the device to learn which numbers are out of range and which columns are hidden.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.numerics.precision import precise_type
from regard.shapes import Bool, Float, Tensor

LIMITS = {torch.float32: 43.0, torch.float64: 354.0}
"""Largest absolute value of x for which e^{2x} is a normal number. A query or key with a larger
number is called far; s of its pairs is computed as sigmoid(-2 (q + k)), which is correct everywhere
but slower."""

TILE_SIZE = 1 << 18
"""Number of values of a tile on a CPU: a megabyte, which stays in the cache of one core."""

LARGE_TILE_SIZE = 1 << 24
"""Number of values of a tile on other devices, where the start of a computation costs more than the
cache saves."""

CHUNK_SIZE = 1 << 19
"""Number of scores, or of numbers in queries and keys, that are computed together."""


def is_slow_to_read(device: torch.device) -> bool:
    """Whether Python waits for the device to read a number of its tensors."""
    return device.type != "cpu"


def power(vectors: Tensor, out: Tensor | None = None) -> Tensor:
    """Return e^{2x}."""
    return torch.mul(vectors, 2, out=out).exp_()


def near(vectors: Tensor) -> bool:
    """Whether no vector is far. A vector with NaN is."""
    if vectors.numel() == 0:
        return True
    lowest, highest = torch.aminmax(vectors)
    limit = LIMITS[vectors.dtype]
    return bool(highest <= limit) and bool(lowest >= -limit)


def far(vectors: Float[Tensor, "batch position size"]) -> Bool[Tensor, "batch position"]:
    """Return which vectors are far (see LIMITS) or have NaN."""
    return ~(vectors.abs().amax(dim=-1) <= LIMITS[vectors.dtype])


def visible_only(vectors: Tensor, mask: Tensor) -> Tensor:
    """Return vectors with zeros at positions that no query may attend to."""
    return torch.where(mask.any(dim=1)[..., None], vectors, 0)


class Tile(NamedTuple):
    """Position of a tile in its chunk, and its values s, which the next tile overwrites."""

    batch: slice
    rows: slice
    columns: slice
    sigmoids: Float[Tensor, "batch row column size"]


class Pairs:
    """All pairs of queries and keys: their division into chunks, and the computation of s."""

    def __init__(
        self,
        queries: Float[Tensor, "batch target size"],
        keys: Float[Tensor, "batch source size"],
        memory: AdditiveMemory | None = None,
    ) -> None:
        """`memory` has the mask and the powers of the keys."""
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
            self.keys, self.powers = visible_only(self.keys, mask), None
        self.spans = None if memory is None or self.is_direct else memory.spans
        self.one = torch.ones((), dtype=self.dtype, device=self.device)
        self.buffer = self._new_buffer()
        self._rooms: dict[tuple[int, ...], Tensor] = {}

    def new(self, *shape: int) -> Tensor:
        """Allocate a tensor of the type of the computation."""
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over all chunks."""
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
            elif shared is not None:  # one buffer: new memory would cost more than the powers
                powers = power(keys, shared[: len(keys)])
            for row in _parts(0, num_rows, rows):
                yield Chunk(self, batch, row, self.queries[batch, row], keys, powers)

    def room(self, shape: tuple[int, ...]) -> Tensor:
        """Return the buffer in this shape. Few shapes are used, thousands of times."""
        if shape not in self._rooms:
            self._rooms[shape] = self.buffer[: math.prod(shape)].view(shape)
        return self._rooms[shape]

    def _new_buffer(self) -> Tensor:
        limit = TILE_SIZE if self.device.type == "cpu" else LARGE_TILE_SIZE
        return self.new(max(min(limit, math.prod(self.axes) * self.size), self.size))


class Chunk:
    """Some sentences and some of their rows, with all columns. The next chunk overwrites it."""

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
        """Iterate over tiles with all visible pairs, and some hidden ones."""
        size, (num_batch, num_rows, num_columns) = self.pairs.size, self.axes
        room = max(1, self.pairs.buffer.numel() // max(1, size))
        # several rows have the same keys, which stay in the cache with the tile
        columns = max(1, min(num_columns, room // min(4, num_rows)))
        rows = max(1, min(num_rows, room // columns))
        sentences = max(1, min(num_batch, room // (columns * rows)))
        for batch in _parts(0, num_batch, sentences):
            for row in _parts(0, num_rows, rows):
                first, end = self._span(batch, row)
                for column in _parts(first, end, columns):
                    yield Tile(batch, row, column, self._sigmoids(batch, row, column))

    def _span(self, batch: slice, rows: slice) -> tuple[int, int]:
        """Return the first column visible from these rows, and the column after the last."""
        spans = self.pairs.spans
        if spans is None:
            return 0, self.axes[2]
        sentences = _cut(spans, self.batch, batch)
        row_spans = [span for sentence in sentences for span in _cut(sentence, self.rows, rows)]
        return min(first for first, _ in row_spans), max(end for _, end in row_spans)

    def _sigmoids(self, batch: slice, rows: slice, columns: slice) -> Tensor:
        """Compute s of a tile in the buffer."""
        pairs = self.pairs
        query_powers = self.query_powers[batch, rows]
        key_powers = self.key_powers[batch, :, columns]
        sigmoids = pairs.room(
            (query_powers.size(0), query_powers.size(1), key_powers.size(2), pairs.size)
        )
        if pairs.is_direct:
            return torch.add(query_powers, key_powers, out=sigmoids).mul_(-2).sigmoid_()
        torch.addcmul(pairs.one, query_powers, key_powers, out=sigmoids).reciprocal_()
        if self.far is not None:
            queries, keys = self.queries[batch, rows], self.keys[batch, columns]
            far_queries, far_keys = self.far[0][batch, rows], self.far[1][batch, columns]
            far = far_queries.unsqueeze(2) | far_keys.unsqueeze(1)
            if far.any():
                exact = torch.sigmoid(-2 * (queries.unsqueeze(2) + keys.unsqueeze(1)))
                torch.where(far[..., None], exact, sigmoids, out=sigmoids)
        return sigmoids


def _parts(first: int, end: int, size: int) -> Iterator[slice]:
    for start in range(first, end, size):
        yield slice(start, min(start + size, end))


def _cut(numbers: list[Any], chunk: slice, tile: slice) -> list[Any]:
    """Return the entries of a tile; a single entry is that of all tiles."""
    if len(numbers) == 1:
        return numbers
    return numbers[chunk.start + tile.start : chunk.start + tile.stop]
