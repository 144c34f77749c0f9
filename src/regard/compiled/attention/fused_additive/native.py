"""Additive attention in C++ for CPUs: the functions of `tiled`, by `regard.kernels`."""

from __future__ import annotations

import ctypes
import math

import torch

from regard import kernels
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.compiled.attention.fused_additive.mixing import mix, through_mix
from regard.compiled.attention.fused_additive.tiles import near, power
from regard.shapes import Bool, Float, Tensor

__all__ = [
    "attend",
    "differentiate",
    "differentiate_keys",
    "differentiate_queries",
    "differentiate_score",
    "powers",
    "score",
    "through_softmax",
]

CHUNK_SIZE = 1 << 20
"""Number of scores whose gradients are in memory together, unless one sentence has more."""

LARGEST_SPLIT = 4096.0
"""Largest number with a split power: HUGE_NUMBER of regard/kernels/attention/powers.hpp."""


@kernels.structure("Problem")
class _Problem(ctypes.Structure):
    """`Problem` of regard/kernels/attention/additive.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batch", "target", "source", "size")),
        *((name, ctypes.c_void_p) for name in ("queries", "keys", "powers", "vector", "mask")),
        *((name, ctypes.c_int64) for name in ("mask_batch", "mask_row", "threads", "is_split")),
        ("bytes", ctypes.c_int64 * 5),
    ]


@kernels.structure("Gradients")
class _Places(ctypes.Structure):
    """`Gradients` of regard/kernels/attention/additive.hpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("scores", "queries", "keys", "sigmoids")),
        ("bytes", ctypes.c_int64 * 4),
    ]


def attend(
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
    drop: Float[Tensor, "batch target source"] | None = None,
) -> tuple[Float[Tensor, "batch target value"], Float[Tensor, "batch target source"]]:
    """Compute `tiled.attend`."""
    weights = _Call.of(queries, memory).weigh(memory.scale)
    return mix(weights, memory.values, memory.mask, drop), weights


def differentiate(
    grad_context: Float[Tensor, "batch target value"],
    grad_weights: Float[Tensor, "batch target source"] | None,
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
    drop: Float[Tensor, "batch target source"] | None = None,
    weights: Float[Tensor, "batch target source"] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute `tiled.differentiate`."""
    call, values = _Call.of(queries, memory), memory.values
    gradients = _Gradients(call)
    grad_values = values.new_empty(values.shape, dtype=torch.float32)
    if weights is None:
        weights = call.weigh(memory.scale)
    num_batch, num_rows, num_columns = weights.shape
    sentences = max(1, CHUNK_SIZE // max(1, num_rows * num_columns))
    for start in range(0, num_batch, sentences):
        chunk = slice(start, start + sentences)
        grads, grad_values[chunk] = through_mix(
            grad_context[chunk],
            None if grad_weights is None else grad_weights[chunk],
            weights[chunk],
            values[chunk],
            None if drop is None else drop[chunk],
        )
        gradients.add(through_softmax(grads, weights[chunk], None, memory.scale), start)
    grads_of_keys = gradients.of_keys(memory.keys, memory.vector)
    return gradients.of_queries(queries), *grads_of_keys, grad_values.to(values.dtype)


def powers(keys: Float[Tensor, "*batch source size"]) -> Float[Tensor, "*batch source power"]:
    """Return e^{2k} for `attend`. If a key is out of range, return split powers: the mantissas of
    each key, then the exponents of e^{2k} = mantissa * 2^exponent. The mantissa of a key that is
    too large is NaN; the kernels compute its pairs from q + k."""
    keys = keys.float()
    return power(keys) if near(keys) else _split_power(keys)


def _split_power(keys: Float[Tensor, "*batch source size"]) -> Float[Tensor, "*batch source power"]:
    exponents = (keys * (2 / math.log(2))).round_()
    # ln 2 in two parts: the product of the exponents and the first, larger one is exact
    rest = keys.mul(2).sub_(exponents * 0.693359375).add_(exponents * 2.12194440e-4)
    mantissas = rest.exp_().masked_fill_(~(keys.abs() <= LARGEST_SPLIT), math.nan)
    return torch.cat([mantissas, exponents], dim=-1)


def score(
    queries: Float[Tensor, "batch target size"],
    keys: Float[Tensor, "batch source size"],
    vector: Float[Tensor, "size"],
) -> Float[Tensor, "batch target source"]:
    """Compute `tiled.score`."""
    return _Call(queries, keys, vector).weigh().add_(vector.float().sum())


def differentiate_score(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    keys: Float[Tensor, "batch source size"],
    vector: Float[Tensor, "size"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `tiled.differentiate_score`."""
    gradients = _Gradients(_Call(queries, keys, vector))
    gradients.add(grad_scores)
    return gradients.of_queries(queries), *gradients.of_keys(keys, vector)


def differentiate_queries(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
) -> Float[Tensor, "batch target size"]:
    """Compute `tiled.differentiate_queries`."""
    gradients = _Gradients(_Call.of(queries, memory), of_keys=False)
    gradients.add(grad_scores)
    return gradients.of_queries(queries)


def differentiate_keys(
    grad_scores: Float[Tensor, "batch target source"],
    queries: Float[Tensor, "batch target size"],
    memory: AdditiveMemory,
) -> tuple[Float[Tensor, "batch source size"], Float[Tensor, "size"]]:
    """Compute `tiled.differentiate_keys`."""
    gradients = _Gradients(_Call.of(queries, memory), of_queries=False)
    gradients.add(grad_scores)
    return gradients.of_keys(memory.keys, memory.vector)


def through_softmax(
    grad_weights: Float[Tensor, "batch target source"],
    weights: Float[Tensor, "batch target source"],
    mask: Bool[Tensor, "#batch #target source"] | None,
    scale: float,
) -> Float[Tensor, "batch target source"]:
    """Compute `tiled.through_softmax`. The mask is not needed, as hidden keys have weight zero."""
    del mask
    if not (weights.shape == grad_weights.shape and weights.dtype == grad_weights.dtype):
        raise ValueError(
            f"weights: expected the shape and type of their gradients, {grad_weights.dtype} "
            f"{tuple(grad_weights.shape)}, got {weights.dtype} {tuple(weights.shape)}"
        )
    if weights.dtype != torch.float32 or not grad_weights.is_contiguous():
        raise ValueError("gradients of weights: expected a contiguous tensor of torch.float32")
    rows, columns = grad_weights.shape[:-1].numel(), grad_weights.size(-1)
    weights = kernels.dense(weights)
    places = kernels.place(weights), kernels.place(grad_weights)
    sizes = rows, columns, torch.get_num_threads()
    kernels.call(
        "additive_through_softmax", *places, scale, *sizes, weights.nbytes, grad_weights.nbytes
    )
    return grad_weights


class _Call:
    """Arguments of the library: dense tensors in float32."""

    def __init__(
        self,
        queries: Float[Tensor, "batch target size"],
        keys: Float[Tensor, "batch source size"],
        vector: Float[Tensor, "size"],
        mask: Bool[Tensor, "#batch #target source"] | None = None,
        powers: Float[Tensor, "batch source power"] | None = None,
    ) -> None:
        self.queries, self.keys, self.vector = _dense(queries), _dense(keys), _dense(vector)
        self.powers = None if powers is None else _dense(powers)
        self.is_split = powers is not None and powers.size(-1) != keys.size(-1)
        self.mask = mask if mask is None or mask.stride(-1) == 1 else mask.contiguous()
        self.sizes = self._checked_sizes()

    @classmethod
    def of(cls, queries: Float[Tensor, "batch target size"], memory: AdditiveMemory) -> _Call:
        return cls(queries, memory.keys, memory.vector, memory.mask, memory.powers)

    def weigh(self, scale: float | None = None) -> Float[Tensor, "batch target source"]:
        """Return the softmax of `scale` times the scores; without `scale`, the scores without the
        sum of the vector."""
        batch, target, source, _ = self.sizes
        weights = self.queries.new_empty(batch, target, source)
        problem, place = self.problem(), kernels.place(weights)
        settings = scale is not None, scale or 0.0
        kernels.call("additive_weigh", problem, *settings, place, weights.nbytes)
        return weights

    def _checked_sizes(self) -> tuple[int, int, int, int]:
        """Return the sizes of batch, target, source and vectors. ValueError if an array has others
        than the library derives from those of queries and keys."""
        if self.queries.dim() != 3 or self.keys.dim() != 3:
            raise ValueError(
                "queries and keys: expected (batch, position, size), got shapes "
                f"{tuple(self.queries.shape)} and {tuple(self.keys.shape)}"
            )
        (batch, target, size), source = self.queries.shape, self.keys.size(1)
        expected = (
            ("keys", self.keys, (batch, source, size)),
            ("vector", self.vector, (size,)),
            ("powers", self.powers, (batch, source, 2 * size if self.is_split else size)),
        )
        for name, tensor, shape in expected:
            if tensor is not None and (tensor.shape != shape or not tensor.is_cpu):
                raise ValueError(
                    f"{name}: expected {shape} on cpu beside queries of shape "
                    f"{tuple(self.queries.shape)}, got {tuple(tensor.shape)} on {tensor.device}"
                )
        mask = self.mask
        if mask is not None and not (
            mask.dtype == torch.bool
            and mask.is_cpu
            and mask.dim() == 3
            and mask.size(0) in (1, batch)
            and mask.size(1) in (1, target)
            and mask.size(2) == source
        ):
            raise ValueError(
                f"mask: expected torch.bool on cpu, (1 or {batch}, 1 or {target}, {source}), got "
                f"{mask.dtype} on {mask.device}, {tuple(mask.shape)}"
            )
        return batch, target, source, size

    def problem(self, chunk: slice | None = None) -> _Problem:
        """Return the problem of some or of all sentences. The tensors must outlive it, as it holds
        their addresses."""
        mask, steps = self.mask, (0, 0)
        if mask is not None:
            (batch_step, row_step, _), (batch, rows, _) = mask.stride(), mask.shape
            steps = 0 if batch == 1 else batch_step, 0 if rows == 1 else row_step
        queries, keys, powers = self.queries, self.keys, self.powers
        num_batch, target, source, size = self.sizes
        if chunk is not None:
            queries, keys = queries[chunk], keys[chunk]
            num_batch = queries.size(0)
            powers = None if powers is None else powers[chunk]
            mask = mask[chunk] if mask is not None and steps[0] else mask
        addresses, num_bytes = kernels.places(queries, keys, powers, self.vector, mask)
        axes = num_batch, target, source, size
        settings = *steps, torch.get_num_threads(), self.is_split
        return _Problem(*axes, *addresses, *settings, num_bytes)


class _Gradients:
    """Gradients of one call that are needed, computed for some sentences at a time."""

    def __init__(self, call: _Call, *, of_queries: bool = True, of_keys: bool = True) -> None:
        self.call = call
        batch, _, size = call.queries.shape
        self.queries = torch.empty_like(call.queries) if of_queries else None
        self.keys = torch.empty_like(call.keys) if of_keys else None
        self.sigmoids = (
            call.queries.new_empty(batch, size, dtype=torch.float64) if of_keys else None
        )
        self.total = call.queries.new_zeros((), dtype=torch.float64)

    def add(self, grad_scores: Float[Tensor, "sentence target source"], start: int = 0) -> None:
        """Compute the gradients of the sentences from `start` on."""
        grad_scores = _dense(grad_scores)
        batch, target, _ = self.call.queries.shape
        end, axes = start + len(grad_scores), (target, self.call.keys.size(1))
        if grad_scores.shape[1:] != axes or not 0 <= start <= end <= batch:
            raise ValueError(
                f"gradients of scores: expected (at most {batch - start}, {axes[0]}, {axes[1]}), "
                f"got {tuple(grad_scores.shape)}"
            )
        chunk = slice(start, end)
        rooms = self.queries, self.keys, self.sigmoids
        arrays = grad_scores, *(None if room is None else room[chunk] for room in rooms)
        places = _Places(*map(kernels.place, arrays), kernels.all_bytes(*arrays))
        kernels.call("additive_differentiate", self.call.problem(chunk), places)
        if self.keys is not None:
            self.total += grad_scores.sum(dtype=torch.float64)

    def of_queries(self, queries: Tensor) -> Float[Tensor, "batch target size"]:
        """Return the gradient of the queries, in their type."""
        if self.queries is None:
            raise ValueError("the gradient of the queries was not computed")
        return self.queries.to(queries.dtype)

    def of_keys(
        self, keys: Tensor, vector: Tensor
    ) -> tuple[Float[Tensor, "batch source size"], Float[Tensor, "size"]]:
        """Return the gradients of keys and vector, in their types."""
        if self.keys is None or self.sigmoids is None:
            raise ValueError("the gradient of the keys was not computed")
        grad_vector = self.total - 2 * self.sigmoids.sum(dim=0)
        return self.keys.to(keys.dtype), grad_vector.to(vector.dtype)


def _dense(tensor: Tensor) -> Tensor:
    if tensor.dtype is not torch.float32 or tensor.requires_grad:
        tensor = tensor.detach().float()
    return kernels.dense(tensor)
