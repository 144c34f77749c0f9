"""Additive attention on a GPU: kernels for scores and their gradients; PyTorch computes the rest.

The kernels have run in Triton's interpreter and were compiled for compute capability 9.0, but have
not run on a GPU. Therefore they are off unless the environment variable REGARD_TRITON is 1.

The following figures are estimates, not measurements. In a cycle a multiprocessor of an H100
finishes 16 special functions (a reciprocal, a power of two) and issues 128 operations of any kind.
It has 132 multiprocessors at 1.98 GHz. Operations for every number of every pair of a query and a
key:

| | special | all | M | L | as compiled: all | M | L |
|---|---|---|---|---|---|---|---|
| tanh, as precise as float32 is | 2 | | 157 us | 980 us | | | |
| 1 / (1 + e^{2q} e^{2k}) | 1 | 3 | 78 us | 490 us | | | |
| two numbers with one reciprocal: scores | 1/2 | 4.5 | 44 us | 275 us | 6.5 | 64 us | 398 us |
| gradients of queries, and of keys and vector | 1 | 13 | 127 us | 796 us | 17 | 165 us | 1.0 ms |

M: batch 64, 100 x 100, size 512. L: batch 8, 1000 x 1000, size 256. Both without PyTorch's part,
waits for memory, and partly filled tiles. The first two lines are bound by special functions. The
others are bound by issuing, so more numbers for one reciprocal would gain nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch.nn import functional as F

from regard.compiled.attention.fused_additive import tiled
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.compiled.attention.fused_additive.mixing import mix, through_mix
from regard.compiled.attention.fused_additive.tiles import far, power, visible_only
from regard.shapes import Bool, Float, Tensor

powers = tiled.powers

ROWS = 32
COLUMNS = 64
"""A tile of scores."""

NUMBERS = 32
"""Rows of a tile of gradients. A tile has twice as many numbers of each row."""

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)

HIGHEST = tl.constexpr(2.0**60)
"""Maximum of a denominator, so that the product of two is a normal float32. The error of s is at
most 2^-60."""


def available() -> bool:
    """Whether there is an NVIDIA GPU, whose reciprocal is used, and REGARD_TRITON enables these
    kernels."""
    if torch.version.cuda is None or not torch.cuda.is_available():
        return False
    return os.environ.get("REGARD_TRITON") == "1"


def attend(
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
    drop: Float[Tensor, "batch target source"] | None = None,
) -> tuple[Float[Tensor, "batch target value"], Float[Tensor, "batch target source"]]:
    """Compute `tiled.attend`: contexts, and weights before dropout."""
    mask = memory.mask
    column_side = Side.of(memory.keys, mask, memory.powers)
    weights = _weigh(Side.of(queries), column_side, memory.vector, mask, memory.scale)
    return mix(weights, memory.values, mask, drop), weights


def differentiate(
    grad_context: Float[Tensor, "batch target value"],
    grad_weights: Float[Tensor, "batch target source"] | None,
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
    drop: Float[Tensor, "batch target source"] | None = None,
    weights: Float[Tensor, "batch target source"] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute `tiled.differentiate`: the gradients of queries, keys, vector and values."""
    vector, values, mask, scale = memory.vector, memory.values, memory.mask, memory.scale
    row_side, column_side = Side.of(queries), Side.of(memory.keys, mask, memory.powers)
    if weights is None:
        weights = _weigh(row_side, column_side, vector, mask, scale)
    result = through_mix(grad_context, grad_weights, weights, _seen(values, mask), drop)
    grad_scores = tiled.through_softmax(result[0], weights, mask, scale)
    grad_queries = _of_rows(grad_scores, row_side, column_side, vector).to(queries.dtype)
    of_keys = _of_keys(grad_scores, row_side, column_side, memory.keys, vector)
    return grad_queries, *of_keys, result[1].to(values.dtype)


def score(
    queries: Float[Tensor, "batch target size"],
    keys: Float[Tensor, "batch source size"],
    vector: Float[Tensor, "size"],
) -> Float[Tensor, "batch target source"]:
    """Return the scores, with the sum of the vector, which softmax ignores."""
    return _scores(Side.of(queries), Side.of(keys), vector).add_(vector.float().sum())


def differentiate_score(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    keys: Float[Tensor, "batch source size"],
    vector: Float[Tensor, "size"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and vector."""
    row_side, column_side = Side.of(queries), Side.of(keys)
    grad_queries = _of_rows(grad_scores, row_side, column_side, vector).to(queries.dtype)
    return grad_queries, *_of_keys(grad_scores, row_side, column_side, keys, vector)


def differentiate_queries(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
) -> Float[Tensor, "batch target size"]:
    """Return the gradient of the queries only. Scores of hidden pairs must have gradient zero."""
    row_side, column_side = Side.of(queries), Side.of(memory.keys, memory.mask, memory.powers)
    return _of_rows(grad_scores, row_side, column_side, memory.vector).to(queries.dtype)


def differentiate_keys(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
) -> tuple[Float[Tensor, "batch source size"], Float[Tensor, "size"]]:
    """Return the gradients of keys and vector only. Scores of hidden pairs must have gradient
    zero."""
    column_side = Side.of(memory.keys, memory.mask, memory.powers)
    return _of_keys(grad_scores, Side.of(queries), column_side, memory.keys, memory.vector)


@dataclass(frozen=True)
class Side:
    """Queries or keys in float32. A vector with numbers out of range is far. Its powers, which must
    be finite, are 1, and its pairs are computed from the numbers."""

    numbers: Float[Tensor, "batch position size"]
    powers: Float[Tensor, "batch position size"]
    far: Bool[Tensor, "batch position"]

    @classmethod
    def of(cls, vectors: Tensor, mask: Tensor | None = None, powers: Tensor | None = None) -> Side:
        """Return the keys, with zeros at hidden positions. With given powers no key is far."""
        if powers is not None:
            nobody = torch.zeros(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
            return cls(_seen(vectors, None), powers, nobody)
        numbers = _seen(vectors, mask)
        is_far = far(numbers)
        return cls(numbers, power(numbers.masked_fill(is_far[..., None], 0)), is_far)


def _seen(vectors: Tensor, mask: Tensor | None) -> Tensor:
    vectors = vectors.float().resolve_neg()
    return (vectors if mask is None else visible_only(vectors, mask)).contiguous()


def _weigh(
    row_side: Side, column_side: Side, vector: Tensor, mask: Tensor | None, scale: float
) -> Float[Tensor, "batch target source"]:
    """Return the softmax of the scores. PyTorch computes it, which reads the scores once more: 4
    bytes for every `size` numbers of the kernel."""
    weights = torch.softmax(_scores(row_side, column_side, vector, mask, scale), dim=-1)
    return (
        weights if mask is None else weights.masked_fill_(~mask, 0)
    )  # NaN in rows without visible keys


def _scores(
    row_side: Side,
    column_side: Side,
    vector: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
) -> Float[Tensor, "batch target source"]:
    """Return the scores times the scale, without the sum of the vector; -inf for hidden pairs."""
    batch, num_rows, size = row_side.numbers.shape
    num_columns = column_side.numbers.size(1)
    scores = row_side.numbers.new_empty(batch, num_rows, num_columns)
    row_block = min(ROWS, triton.next_power_of_2(num_rows))
    grid = (batch * triton.cdiv(num_rows, row_block), triton.cdiv(num_columns, COLUMNS))
    if mask is not None:
        mask = mask.expand(scores.shape)
    with torch.cuda.device_of(scores):
        _score[grid](
            _in_blocks(row_side.powers, row_block),
            _in_blocks(column_side.powers, COLUMNS),
            row_side.numbers,
            column_side.numbers,
            row_side.far,
            column_side.far,
            _even(vector.float().resolve_neg()).contiguous(),
            mask,
            scores,
            -2 * scale,
            *scores.shape[1:],
            size,
            *((0, 0, 0) if mask is None else mask.stride()),
            row_block=row_block,
            column_block=COLUMNS,
        )
    return scores


def _in_blocks(
    powers: Float[Tensor, "batch position size"], block: int
) -> Float[Tensor, "batch tile even place"]:
    """Arrange the numbers that a tile reads together next to each other. Zeros pad the last block
    and make the size even, so that the loop needs no bounds checks."""
    padded = F.pad(_even(powers), (0, 0, 0, -powers.size(1) % block))
    return padded.unflatten(1, (-1, block)).mT.contiguous()


def _even(numbers: Float[Tensor, "*_ size"]) -> Float[Tensor, "*_ even"]:
    return F.pad(numbers, (0, numbers.size(-1) % 2))


def _of_rows(
    grad_scores: Float[Tensor, "batch row column"], rows: Side, columns: Side, vector: Tensor
) -> Float[Tensor, "batch row size"]:
    """Return the gradient of the queries, which are the rows."""
    return _differentiated(grad_scores.mT, rows, columns, vector, None)


def _of_keys(
    grad_scores: Float[Tensor, "batch target source"],
    row_side: Side,
    column_side: Side,
    keys: Tensor,
    vector: Tensor,
) -> tuple[Float[Tensor, "batch source size"], Float[Tensor, "size"]]:
    """Return the gradients of keys, which are the rows, and vector, in their types."""
    batch, num_keys, size = column_side.numbers.shape
    sigmoids = column_side.numbers.new_empty(batch, triton.cdiv(num_keys, ROWS), size)
    grad_keys = _differentiated(grad_scores, column_side, row_side, vector, sigmoids)
    total = grad_scores.sum(dtype=torch.float64)
    grad_vector = total - 2 * sigmoids.sum(dim=(0, 1), dtype=torch.float64)
    return grad_keys.to(keys.dtype), grad_vector.to(vector.dtype)


def _differentiated(
    grad_scores: Float[Tensor, "batch column row"],
    rows: Side,
    columns: Side,
    vector: Tensor,
    sigmoids: Float[Tensor, "batch tile size"] | None,
) -> Float[Tensor, "batch row size"]:
    """Return the gradients of the rows' numbers, and for every block of rows the sums of s for the
    gradient of the vector."""
    batch, num_rows, size = rows.numbers.shape
    grad_rows = torch.empty_like(rows.numbers)
    number_block = min(NUMBERS, triton.next_power_of_2(triton.cdiv(size, 2)))
    with torch.cuda.device_of(grad_rows):
        _differentiate[batch * triton.cdiv(num_rows, ROWS), triton.cdiv(size, 2 * number_block)](
            rows.powers.contiguous(),
            columns.powers.contiguous(),
            rows.numbers,
            columns.numbers,
            rows.far,
            columns.far,
            vector.float().contiguous().resolve_neg(),
            grad_scores.float().contiguous().resolve_neg(),
            grad_rows,
            sigmoids,
            num_rows,
            columns.numbers.size(1),
            size,
            row_block=ROWS,
            column_block=COLUMNS,
            number_block=number_block,
        )
    return grad_rows


@triton.jit
@no_type_check
def _score(
    row_powers,
    column_powers,
    row_numbers,
    column_numbers,
    row_far,
    column_far,
    vector,
    mask,
    scores,
    factor,
    num_rows,
    num_columns,
    size,
    mask_batch,
    mask_row,
    mask_column,
    row_block: tl.constexpr,
    column_block: tl.constexpr,
):
    """Compute factor * sum_d v_d s_ijd for a tile of pairs."""
    batch = (tl.program_id(0) // tl.cdiv(num_rows, row_block)).to(tl.int64)
    in_rows, in_columns = tl.arange(0, row_block)[:, None], tl.arange(0, column_block)[None, :]
    rows = (tl.program_id(0) % tl.cdiv(num_rows, row_block)) * row_block + in_rows
    columns = tl.program_id(1) * column_block + in_columns
    is_row, is_column = rows < num_rows, columns < num_columns
    visible = is_row & is_column
    if mask is not None:
        place = mask + batch * mask_batch + rows.to(tl.int64) * mask_row + columns * mask_column
        visible = visible & (tl.load(place, mask=visible, other=0) != 0)
    result = tl.zeros((row_block, column_block), tl.float32)
    if _any(visible):
        even = size + size % 2
        column_tile = batch * tl.cdiv(num_columns, column_block) + tl.program_id(1)
        row_place = row_powers + tl.program_id(0).to(tl.int64) * row_block * even
        column_place = column_powers + column_tile * column_block * even
        for number in range(0, even, 2):
            first_denominator = _denominator(
                tl.load(row_place + in_rows), tl.load(column_place + in_columns)
            )
            row_place += row_block
            column_place += column_block
            second_denominator = _denominator(
                tl.load(row_place + in_rows), tl.load(column_place + in_columns)
            )
            row_place += row_block
            column_place += column_block
            first, second = tl.load(vector + number), tl.load(vector + number + 1)
            # first / first_denominator + second / second_denominator
            total = tl.fma(first, second_denominator, second * first_denominator)
            result = tl.fma(total, _reciprocal(first_denominator * second_denominator), result)
        row, column = batch * num_rows + rows, batch * num_columns + columns
        is_far_row = tl.load(row_far + row, mask=is_row, other=0) != 0
        is_far = is_far_row | (tl.load(column_far + column, mask=is_column, other=0) != 0)
        if _any(is_far & visible):
            exact = tl.zeros((row_block, column_block), tl.float32)
            for number in range(size):
                row_number = tl.load(row_numbers + row * size + number, mask=is_row, other=0)
                column_number = tl.load(
                    column_numbers + column * size + number, mask=is_column, other=0
                )
                exact = tl.fma(
                    tl.load(vector + number), _far_share(row_number + column_number), exact
                )
            result = tl.where(is_far, exact, result)
    place = scores + (batch * num_rows + rows) * num_columns + columns
    tl.store(place, tl.where(visible, result * factor, -float("inf")), mask=is_row & is_column)


@triton.jit
@no_type_check
def _differentiate(
    row_powers,
    column_powers,
    row_numbers,
    column_numbers,
    row_far,
    column_far,
    vector,
    grad_scores,
    grad_rows,
    sigmoids,
    num_rows,
    num_columns,
    size,
    row_block: tl.constexpr,
    column_block: tl.constexpr,
    number_block: tl.constexpr,
):
    """Compute 4 v_d sum_j g_ij s_ijd (1 - s_ijd) for some rows and two blocks of their numbers,
    column by column; and sum_ij g_ij s_ijd if there is a tensor for these sums.

    Numbers of one pair share a reciprocal. Two pairs never do: no bit of a result may depend on
    another pair, which may be hidden."""
    batch = (tl.program_id(0) // tl.cdiv(num_rows, row_block)).to(tl.int64)
    in_rows = tl.arange(0, row_block)[:, None]
    rows = (tl.program_id(0) % tl.cdiv(num_rows, row_block)) * row_block + in_rows
    numbers = tl.program_id(1) * 2 * number_block + tl.arange(0, number_block)[None, :]
    others = numbers + number_block
    is_row, is_number, is_other = rows < num_rows, numbers < size, others < size
    row = batch * num_rows + rows
    place, other_place = row * size + numbers, row * size + others
    row_power = tl.load(row_powers + place, mask=is_row & is_number, other=0)
    other_row_power = tl.load(row_powers + other_place, mask=is_row & is_other, other=0)
    is_far_row = tl.load(row_far + row, mask=is_row, other=0) != 0
    slopes = tl.zeros((row_block, number_block), tl.float32)
    other_slopes = tl.zeros((row_block, number_block), tl.float32)
    gathered = tl.zeros((row_block, number_block), tl.float32)
    other_gathered = tl.zeros((row_block, number_block), tl.float32)
    for start in range(0, num_columns, column_block):
        columns = start + tl.arange(0, column_block)[None, :]
        is_column = columns < num_columns
        columns += batch * num_columns
        tile = tl.load(grad_scores + columns * num_rows + rows, mask=is_row & is_column, other=0)
        if _any(tile != 0):
            end = tl.minimum(start + column_block, num_columns)
            for index in range(start, end):
                column = batch * num_columns + index
                is_far = is_far_row | (tl.load(column_far + column) != 0)
                grads = tl.load(grad_scores + column * num_rows + rows, mask=is_row, other=0)
                grads = tl.where(is_far, 0.0, grads)
                column_place = column_powers + column * size
                denominator = _denominator(
                    row_power, tl.load(column_place + numbers, mask=is_number, other=0)
                )
                other_denominator = _denominator(
                    other_row_power, tl.load(column_place + others, mask=is_other, other=0)
                )
                reciprocal = _reciprocal(denominator * other_denominator)
                share, other_share = reciprocal * other_denominator, reciprocal * denominator
                slopes = tl.fma(grads, _slope(share), slopes)
                other_slopes = tl.fma(grads, _slope(other_share), other_slopes)
                if sigmoids is not None:
                    gathered = tl.fma(grads, share, gathered)
                    other_gathered = tl.fma(grads, other_share, other_gathered)
            is_far_column = tl.load(column_far + columns, mask=is_column, other=0) != 0
            if _any(is_far_column | is_far_row):
                row_values = tl.load(row_numbers + place, mask=is_row & is_number, other=0)
                other_numbers = tl.load(row_numbers + other_place, mask=is_row & is_other, other=0)
                for index in range(start, end):
                    column = batch * num_columns + index
                    is_far = is_far_row | (tl.load(column_far + column) != 0)
                    grads = tl.load(grad_scores + column * num_rows + rows, mask=is_row, other=0)
                    grads = tl.where(is_far, grads, 0.0)
                    column_place = column_numbers + column * size
                    total = row_values + tl.load(column_place + numbers, mask=is_number, other=0)
                    other_total = other_numbers + tl.load(
                        column_place + others, mask=is_other, other=0
                    )
                    share, other_share = _far_share(total), _far_share(other_total)
                    slopes = tl.fma(grads, _slope(share), slopes)
                    other_slopes = tl.fma(grads, _slope(other_share), other_slopes)
                    if sigmoids is not None:
                        gathered = tl.fma(grads, share, gathered)
                        other_gathered = tl.fma(grads, other_share, other_gathered)
    weight = 4 * tl.load(vector + numbers, mask=is_number, other=0)
    other_weight = 4 * tl.load(vector + others, mask=is_other, other=0)
    tl.store(grad_rows + place, weight * slopes, mask=is_row & is_number)
    tl.store(grad_rows + other_place, other_weight * other_slopes, mask=is_row & is_other)
    if sigmoids is not None:
        sigmoids += tl.program_id(0).to(tl.int64) * size
        tl.store(sigmoids + numbers, tl.sum(gathered, axis=0)[None, :], mask=is_number)
        tl.store(sigmoids + others, tl.sum(other_gathered, axis=0)[None, :], mask=is_other)


@triton.jit
@no_type_check
def _any(flags):
    return tl.max(tl.max(flags.to(tl.int32), axis=1), axis=0) > 0


@triton.jit
@no_type_check
def _denominator(row_power, column_power):
    """Return 1 + e^{2q} e^{2k}."""
    return tl.minimum(tl.fma(row_power, column_power, 1.0), HIGHEST)


@triton.jit
@no_type_check
def _reciprocal(number):
    """Return 1 / x to one unit in the last place, by one instruction instead of the six of a
    division."""
    if INTERPRETED:
        return 1 / number
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [number], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
@no_type_check
def _slope(share):
    """Return s (1 - s)."""
    return tl.fma(-share, share, share)


@triton.jit
@no_type_check
def _far_share(number):
    """Return sigmoid(-2 x)."""
    return 1 / (1 + tl.exp(2 * number))
