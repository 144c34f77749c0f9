"""Products of matrices on a CPU.

torch asks MKL for those in float32, which takes AVX-512 on Intel's CPUs alone: on others oneDNN,
which torch brings too, takes half the time. In bfloat16 torch asks oneDNN itself, but writes a bias
to every row of the result first. Small products and other devices are left to torch.

oneDNN takes a matrix in an order of its own, and brings it there at every call. For few rows that
is most of the time, so `freeze` packs the weights of a model that learns no more once and for all.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard import instruction_set
from regard.fast_path import is_cast, is_exactly, needs_formula
from regard.shapes import Float, Tensor

log = logging.getLogger(__name__)

WORTH_A_CALL = 1 << 20
"""Multiplications in one product from which oneDNN is asked."""

LARGE = 1 << 22
"""The same for one of many, which torch takes at once and oneDNN one by one."""

ROWS = 256
"""Rows of a large product that are formed at a time, at most: of so many oneDNN takes a copy."""

PACKED_FOR = 64
"""Rows that a packed matrix is put in order for; for others it is as good."""

AnyModule = TypeVar("AnyModule", bound=nn.Module)

LINEAR: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


@runtime_checkable
class Packable(Protocol):
    """A module whose weights `affine` and `linear` alone use, without calling their layers."""

    def weights_of_products(self) -> Iterator[tuple[nn.Module, str]]:
        """Modules and names of their parameters."""


class Linear(nn.Linear):
    """torch's own layer, with its product and those of its gradients taken by `linear`."""

    def forward(self, inputs: Float[Tensor, "*batch inner"]) -> Float[Tensor, "*batch column"]:
        return affine(inputs, self.weight, self.bias)


def affine(
    inputs: Float[Tensor, "*batch inner"],
    weight: Float[Tensor, "column inner"],
    bias: Float[Tensor, "column"] | None = None,
) -> Float[Tensor, "*batch column"]:
    """`linear` of vectors in any batch, with gradients, in the type that autocast asks for."""
    if weight.is_mkldnn:
        return _one_call(inputs, weight, bias)
    dtype = working_type(inputs)
    if needs_formula() or _is_small(inputs, weight) or not _suits(inputs.device, dtype):
        return F.linear(inputs, weight, bias)
    shift = None if bias is None else bias.to(dtype)
    rows = inputs.reshape(-1, inputs.size(-1))
    found: Tensor = _Affine.apply(rows.to(dtype), weight.to(dtype), shift)
    return found.view(*inputs.shape[:-1], -1)


def working_type(like: Tensor) -> torch.dtype:
    """The type that products of numbers like these are taken in: autocast's where it is on, but
    double precision stays, as torch has it."""
    dtype = like.dtype
    if not is_cast(like) or not dtype.is_floating_point or dtype == torch.float64:
        return dtype
    return torch.get_autocast_dtype(like.device.type)


class _Affine(torch.autograd.Function):
    """`linear` with its way back."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        above = above.contiguous()
        of_inputs, of_weight, of_bias = ctx.needs_input_grad
        return (
            linear(above, weight.T) if of_inputs else None,
            outer(above, inputs) if of_weight else None,
            above.sum(dim=0) if of_bias else None,
        )


def linear(
    inputs: Float[Tensor, "row inner"],
    weight: Float[Tensor, "column inner"],
    bias: Float[Tensor, "column"] | None = None,
) -> Float[Tensor, "row column"]:
    """inputs @ weight.T + bias, without gradients."""
    if weight.is_mkldnn:
        return _one_call(inputs, weight, bias)
    if _is_small(inputs, weight) or not _suits(inputs.device, inputs.dtype):
        return F.linear(inputs, weight, bias)
    return _one_call(inputs, _dense(weight), bias)


def freeze(model: AnyModule, dtype: torch.dtype = torch.float32) -> AnyModule:
    """A copy of a model that computes the same in this type, and faster on a CPU: the weights of
    `Linear` and of recurrent stacks are packed. They are for products alone, without gradients.

    Weights of a subclass of `Linear`, of a layer with hooks and of torch's own layers outside of a
    stack are not packed, as other code may read them."""
    frozen = copy.deepcopy(model).eval().requires_grad_(False).to(dtype)
    for module in frozen.modules():
        if is_exactly(module, Linear):
            module.weight = _packed(cast(nn.Parameter, module.weight))
        elif isinstance(module, Packable):
            for layer, name in module.weights_of_products():
                setattr(layer, name, _packed(getattr(layer, name)))
    return frozen


class PackedWeight(nn.Parameter):
    """A matrix in oneDNN's own order, which torch can neither copy nor pickle. Copies and pickles
    are made of the plain matrix and packed again."""

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        return memo.setdefault(id(self), _packed(_plain(self)))

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return _packed, (_plain(self),)


def _plain(weight: Tensor) -> nn.Parameter:
    return nn.Parameter(weight.detach().to_dense(), requires_grad=False)


def _packed(weight: nn.Parameter) -> nn.Parameter:
    if not _suits(weight.device, weight.dtype) or weight.is_mkldnn:
        return weight
    matrix = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), PACKED_FOR)
    return PackedWeight(matrix, requires_grad=False)


def outer(
    left: Float[Tensor, "row column"], right: Float[Tensor, "row inner"]
) -> Float[Tensor, "column inner"]:
    """left.T @ right, without gradients: a weight's gradient from those of its products and what
    entered them. oneDNN takes a copy of the first matrix, so the smaller one comes first."""
    if left.dtype != torch.float32 or left.numel() * right.size(1) < WORTH_A_CALL:
        return left.T @ right
    if left.size(1) < right.size(1):
        return linear(left.T, right.T)
    return linear(right.T, left.T).T


def multiply(
    left: Float[Tensor, "batch row inner"], right: Float[Tensor, "batch inner column"]
) -> Float[Tensor, "batch row column"]:
    """left @ right, matrix by matrix, without gradients."""
    num_rows, num_inner = left.shape[1:]
    num_columns = right.size(2)
    if num_rows * num_inner * num_columns < LARGE or not _suits(left.device, left.dtype):
        return torch.bmm(left, right)
    product = left.new_empty(len(left), num_rows, num_columns)
    parts = -(-num_rows // ROWS)
    for found, rows, matrix in zip(product, left, right.mT, strict=True):
        columns = _dense(matrix)
        for place, part in zip(found.chunk(parts), rows.chunk(parts), strict=True):
            place.copy_(_one_call(part, columns))
    return product


def _one_call(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """oneDNN's product, with nothing done to it afterwards."""
    found: Tensor = LINEAR(inputs, weight, bias, "none", [], "")
    return found


def _dense(matrix: Tensor) -> Tensor:
    """A part of the columns of another takes oneDNN a thousand times longer."""
    if matrix.is_contiguous() or matrix.T.is_contiguous():
        return matrix
    return matrix.contiguous()


def _is_small(inputs: Tensor, weight: Tensor) -> bool:
    return inputs.numel() * weight.size(0) < WORTH_A_CALL


def _suits(device: torch.device, dtype: torch.dtype) -> bool:
    return device.type == "cpu" and dtype in _TYPES


def has_fast_bfloat16(device: torch.device | str) -> bool:
    """Whether a device has bfloat16 instructions that PyTorch uses."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu" or torch.bfloat16 not in _types():
        return False
    features = torch.cpu.get_capabilities()
    names = ("amx_bf16", "avx512_bf16", "sve_bf16")
    return instruction_set.allows_bfloat16() and any(features.get(name, False) for name in names)


@cache
def warn_of_slow_bfloat16(option: str, device: torch.device) -> None:
    """Warn once for each option if bfloat16 was chosen on a device without such instructions."""
    if has_fast_bfloat16(device):
        return
    log.warning(
        "%s is bfloat16, but this %s has no bfloat16 instructions, so each product is emulated: on "
        "a CPU with AVX2 alone, training ran at 1/20 of its float32 speed. Use float32 instead",
        option,
        {"cpu": "CPU", "cuda": "GPU"}.get(device.type, "device"),
    )


def _types() -> tuple[torch.dtype, ...]:
    """Return the types that oneDNN multiplies on this CPU, within the limit for tests."""
    if LINEAR is None:
        return ()
    if (instruction_set.most_lanes() or 16) < 16:
        return (torch.float32,)
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return (torch.float32,)
    return torch.float32, torch.bfloat16


_TYPES = _types()


def glorot_uniform(linear: nn.Linear, num_parts: int = 1) -> None:
    """Glorot and Bengio's uniform weights (2010, eq. 16), in each by itself of so many matrices of
    one size that are stacked in the layer, and no bias."""
    for part in linear.weight.chunk(num_parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Build modules on the meta device: shapes and types, without memory for numbers."""
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Draws no normal numbers on the meta device: PyTorch would import its compiler, in a second,
    to do nothing."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        arguments: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        del types
        options = options or {}
        if function in (torch.Tensor.normal_, nn.init.normal_):
            tensor: Tensor = arguments[0] if arguments else options["tensor"]
            if tensor.is_meta:
                return tensor
        return function(*arguments, **options)
