"""Matrix products on a CPU, by the faster of PyTorch's two libraries: MKL or oneDNN.

PyTorch computes float32 products with MKL. `product_library.py` says for which shapes and CPUs
oneDNN is faster. PyTorch computes bfloat16 products with oneDNN, but first writes the bias to every
row of the result. Products of fewer than a million multiplications and other devices are left to
PyTorch.

oneDNN reorders a weight matrix at every call. For few rows this takes most of the time, so `freeze`
packs the weights of a model for inference once: in float32 and int8 in panels, for the kernels of
this package (`panels.py`, `int8_panels.py`), otherwise for oneDNN. oneDNN also compiles a kernel
for every number of rows, so callers round their numbers of rows with `round_rows_up` and
`round_rows_down`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any, TypeGuard

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from regard import kernels
from regard.names import ShapeClass
from regard.numerics import product_library
from regard.numerics.int8_panels import MAX_INNER, IntegerPanels
from regard.numerics.joined_gradients import JoinedParameters, joined_parameters
from regard.numerics.panels import PackedMatrix, Panels
from regard.numerics.product_library import class_of_gradient, class_of_product
from regard.runtime import instruction_set
from regard.runtime.modes import is_cast, needs_formula
from regard.shapes import Float, Int, Tensor

log = logging.getLogger(__name__)

WORTH_A_CALL = 1 << 20
"""Minimum number of multiplications in a product that oneDNN computes."""

LARGE = 1 << 22
"""Minimum number of multiplications in each product of a batch that oneDNN computes: PyTorch
computes the batch in one call, oneDNN takes one call per product."""

ROWS = 256
"""Maximum number of rows of a large product computed in one call: oneDNN copies these rows."""

JOINED_ROWS = 512
"""Maximum number of rows of a step whose gradient is joined with those of other steps: more rows
are fast by themselves, and would take much memory."""

PACKED_FOR = 64
"""Number of input rows that packing assumes. Packed weights are as fast for other numbers."""

LINEAR: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


class Linear(nn.Linear):
    """PyTorch's linear layer, with its product and those of its gradients computed by `linear`."""

    def forward(self, inputs: Float[Tensor, "*batch inner"]) -> Float[Tensor, "*batch column"]:
        return affine(inputs, self.weight, self.bias)


def affine(
    inputs: Float[Tensor, "*batch inner"],
    weight: Float[Tensor, "column inner"],
    bias: Float[Tensor, "column"] | None = None,
) -> Float[Tensor, "*batch column"]:
    """Return inputs @ weight.T + bias for any leading axes, with gradients, in autocast's type."""
    if is_packed(weight):
        return _one_call(inputs, weight, bias)
    dtype = working_type(inputs)
    if needs_formula():
        return F.linear(inputs, weight, bias)
    *axes, size = inputs.shape
    num_rows, joined = prod(axes), None
    has_type = weight.dtype == dtype or is_cast(inputs)  # else PyTorch names the types
    if has_type and num_rows <= JOINED_ROWS:
        joined = joined_parameters((weight, bias), dtype, _affine_gradients)
    if joined is not None:
        parameters = joined.tensors
    elif _is_small(inputs, weight) or not _suits(inputs.device, dtype):
        return F.linear(inputs, weight, bias)
    else:
        parameters = weight.to(dtype), None if bias is None else bias.to(dtype)
    rows = inputs.reshape(num_rows, size)
    product: Tensor = _Affine.apply(rows.to(dtype), *parameters, joined)
    return product.view(*axes, len(weight))


def working_type(like: Tensor) -> torch.dtype:
    """Return the type of products of tensors like this one: autocast's type if autocast is enabled.
    As in PyTorch, float64 stays float64."""
    dtype = like.dtype
    if not is_cast(like) or not dtype.is_floating_point or dtype == torch.float64:
        return dtype
    return torch.get_autocast_dtype(like.device.type)


class _Affine(torch.autograd.Function):
    """`linear` with gradients. Those of joined parameters are computed for all steps of a loop."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        joined: JoinedParameters | None,
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.joined = joined
        return linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        grad_output = grad_output.contiguous()
        needs_inputs, needs_weight, needs_bias, _ = ctx.needs_input_grad
        grad_inputs = linear(grad_output, weight.T) if needs_inputs else None
        if ctx.joined is not None:
            ctx.joined.save(grad_output, inputs)
            return grad_inputs, None, None, None
        gradients = _affine_gradients(needs_weight, needs_bias, grad_output, inputs)
        return grad_inputs, *gradients, None


def _affine_gradients(
    needs_weight: bool, needs_bias: bool, grad_output: Tensor, inputs: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    return (
        weight_gradient(grad_output, inputs) if needs_weight else None,
        grad_output.sum(dim=0) if needs_bias else None,
    )


def linear(
    inputs: Float[Tensor, "row inner"],
    weight: Float[Tensor, "column inner"],
    bias: Float[Tensor, "column"] | None = None,
) -> Float[Tensor, "row column"]:
    """Return inputs @ weight.T + bias, without gradients."""
    if is_packed(weight):
        return _one_call(inputs, weight, bias)
    if _is_small(inputs, weight) or not _suits(inputs.device, inputs.dtype):
        return F.linear(inputs, weight, bias)
    if not _is_faster(class_of_product(len(inputs), inputs.size(1), len(weight)), inputs.dtype):
        return F.linear(inputs, weight, bias)
    return _one_call(inputs, _dense(weight), bias)


class PackedWeight(nn.Parameter):
    """Matrix in the memory layout of a product: in panels, or in oneDNN's layout. Only products may
    read it; for other code its numbers are NaN, or an error. Copies, pickles and state dictionaries
    are made from the plain matrix, or from the integers of a quantised matrix. A weight whose
    numbers are replaced, for example by a conversion to another type, is a plain matrix from then
    on."""

    panels: PackedMatrix | None

    def suits(self, inputs: Tensor) -> bool:
        """Whether a product with these inputs can read the packed weight: in its type, on a CPU,
        without gradients, and not for a program that has no kernels."""
        if torch.is_grad_enabled() and inputs.requires_grad:
            return False
        if not inputs.dtype == working_type(inputs) == self.dtype:
            return False
        if self.panels is not None:
            return kernels.suit(inputs)
        return inputs.is_cpu and not torch.compiler.is_compiling() and not needs_formula()

    def plain(self) -> nn.Parameter:
        """Return the plain matrix."""
        if not is_packed(self):
            matrix = super().detach()
        elif self.panels is None:
            with torch._C._DisableFuncTorch():  # which has no rule for oneDNN's layout
                matrix = super().detach().to_dense()
        else:
            matrix = self.panels.plain()
        return nn.Parameter(matrix, requires_grad=False)

    def detach(self) -> Tensor:
        """Return the plain matrix, for state dictionaries."""
        return self.plain().data

    def copy_(self, *_arguments: Any, **_options: Any) -> Tensor:
        """ValueError: other numbers need other panels."""
        raise ValueError(
            "a packed weight cannot be overwritten: load the weights into the model itself, and "
            "freeze it again"
        )

    def storage_offset(self) -> Any:
        """ValueError in an export, as of `is_packed`."""
        if torch.compiler.is_exporting():
            raise ValueError("a frozen model cannot be exported: export the model itself")
        return super().storage_offset()

    def share_memory_(self) -> Tensor:
        """Return the weight, which other processes get as a pickle."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        function, arguments = self.__reduce_ex__(None)
        return memo.setdefault(id(self), function(*arguments))

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        if not is_packed(self):
            return nn.Parameter, (self.plain().data, self.requires_grad)
        if isinstance(self.panels, IntegerPanels):
            return _packed_integers, (self.panels.integers(), self.panels.scales)
        return packed, (self.plain(),)


def _conversion(name: str) -> Callable[..., Any]:
    """Return a method of a packed weight that converts the plain matrix as this method of a
    tensor does."""
    convert: Callable[..., Any] = getattr(Tensor, name)

    def converted(self: PackedWeight, *arguments: Any, **options: Any) -> Any:
        like = torch.empty(0, dtype=self.dtype, device=self.device)
        if is_packed(self) and convert(like, *arguments, **options) is like:
            return self
        return convert(self.plain().data, *arguments, **options)

    return converted


for _name in ("to", "float", "double", "half", "bfloat16", "type", "cpu", "cuda"):
    setattr(PackedWeight, _name, _conversion(_name))


def packed(weight: nn.Parameter, is_int8: bool = False) -> nn.Parameter:
    """Return a weight in the memory layout of a product, as int8 numbers or in its type. Weights of
    types that no product packs, and weights that are not on a CPU, are returned as they are."""
    if is_packed(weight) or weight.device.type != "cpu":
        return weight
    if isinstance(weight, PackedWeight):
        weight = weight.plain()
    if weight.dtype == torch.float32 and kernels.available():
        fits = is_int8 and weight.size(1) <= MAX_INNER
        return _in_panels(IntegerPanels.of(weight) if fits else Panels.of(weight))
    if weight.dtype in _TYPES:
        matrix = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), PACKED_FOR)
    else:
        return weight
    result = PackedWeight(matrix, requires_grad=False)
    result.panels = None
    return result


def _in_panels(panels: PackedMatrix) -> PackedWeight:
    shape = panels.columns, panels.inner
    number = torch.full((), torch.nan, dtype=torch.float32, device="cpu")
    matrix = number.as_strided(shape, (0, 0))  # the shape alone
    result = PackedWeight(matrix, requires_grad=False)
    result.panels = panels
    return result


def _packed_integers(
    integers: Int[Tensor, "column inner"], scales: Float[Tensor, "column"]
) -> nn.Parameter:
    if kernels.available():
        return _in_panels(IntegerPanels.of_integers(integers, scales))
    return nn.Parameter(integers * scales[:, None], requires_grad=False)


def is_packed(weight: Tensor) -> TypeGuard[PackedWeight]:
    """Whether a weight is in the memory layout of a product, so that only products may read it.
    ValueError in an export, whose tensors have the shapes of the weights and no panels."""
    kind = type(weight)
    if kind is PackedWeight:
        matrix: Any = weight
        return matrix.panels is None or matrix.stride() == (0, 0)
    if kind is nn.Parameter or kind is Tensor or not torch.compiler.is_exporting():
        return False
    if weight.stride() == (0, 0):
        raise ValueError("a frozen model cannot be exported: export the model itself")
    return False


def has_integers(weight: Tensor) -> bool:
    """Whether a weight is packed as int8 numbers."""
    return is_packed(weight) and isinstance(weight.panels, IntegerPanels)


def plain_weight(weight: Tensor) -> Tensor:
    """Return the matrix of a weight that may be packed, without gradients."""
    return weight.detach()


def panels_of(weight: Tensor) -> PackedMatrix:
    """Return a weight in panels, of the instruction set in use."""
    panels = weight.panels if is_packed(weight) else None
    return Panels.of(weight.detach()) if panels is None else _present(panels)


def _present(panels: PackedMatrix) -> PackedMatrix:
    return panels if panels.lanes == kernels.lanes() else panels.repacked()


def stacked_panels(weights: Sequence[Tensor]) -> PackedMatrix:
    """Return weights below each other in panels: integers if all of them are."""
    panels = [weight.panels for weight in weights if is_packed(weight)]
    integers = [part for part in panels if isinstance(part, IntegerPanels)]
    if len(integers) < len(weights):
        return Panels.of(torch.cat([weight.detach() for weight in weights]))
    return IntegerPanels.of_integers(
        torch.cat([part.integers() for part in integers]),
        torch.cat([part.scales for part in integers]),
    )


def round_rows_up(num_rows: int, multiple: int) -> int:
    """Return the least multiple of `multiple` that is at least `num_rows`.

    oneDNN compiles a kernel for every number of rows, so products should have few of them."""
    return -(-num_rows // multiple) * multiple


def round_rows_down(num_rows: int) -> int:
    """Return the largest multiple of 16 that is at most `num_rows`. Below 64 rows the multiple
    is of 8, 4, 2 or 1, the smaller the fewer rows there are."""
    return num_rows - num_rows % min(16, 1 << max(0, num_rows.bit_length() - 3))


def weight_gradient(
    grad_output: Float[Tensor, "row column"], inputs: Float[Tensor, "row inner"]
) -> Float[Tensor, "column inner"]:
    """Return grad_output.T @ inputs, the gradient of the weight of a linear layer, without
    gradients of its own. oneDNN copies the first matrix, so the smaller one comes first."""
    if grad_output.dtype != torch.float32 or grad_output.numel() * inputs.size(1) < WORTH_A_CALL:
        return grad_output.T @ inputs
    if not _suits(inputs.device, inputs.dtype):
        return grad_output.T @ inputs
    shape_class = class_of_gradient(len(inputs), inputs.size(1), grad_output.size(1))
    if not _is_faster(shape_class, inputs.dtype):
        return grad_output.T @ inputs
    if grad_output.size(1) < inputs.size(1):
        return _one_call(grad_output.T, _dense(inputs.T))
    return _one_call(inputs.T, _dense(grad_output.T)).T


def batch_matmul(
    left: Float[Tensor, "batch row inner"], right: Float[Tensor, "batch inner column"]
) -> Float[Tensor, "batch row column"]:
    """Return left @ right for each pair of matrices, without gradients."""
    num_rows, num_inner = left.shape[1:]
    num_columns = right.size(2)
    if num_rows * num_inner * num_columns < LARGE or not _suits(left.device, left.dtype):
        return torch.bmm(left, right)
    if not _is_faster(class_of_product(num_rows, num_inner, num_columns), left.dtype):
        return torch.bmm(left, right)
    product = left.new_empty(len(left), num_rows, num_columns)
    num_chunks = -(-num_rows // ROWS)
    for output, rows, matrix in zip(product, left, right.mT, strict=True):
        columns = _dense(matrix)
        chunks = zip(output.chunk(num_chunks), rows.chunk(num_chunks), strict=True)
        for output_chunk, row_chunk in chunks:
            output_chunk.copy_(_one_call(row_chunk, columns))
    return product


def _one_call(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the product with a packed weight, or oneDNN's product with a plain one."""
    if is_packed(weight):
        matrix = _readable(weight, inputs)
        if matrix is not weight:
            return F.linear(inputs, matrix, bias)
        if weight.panels is not None:
            return _present(weight.panels).product(inputs, bias)
    product: Tensor = LINEAR(inputs, weight, bias, "none", [], "")
    return product


def readable(weight: Tensor, inputs: Tensor) -> Tensor:
    """Return a packed weight if a product with these inputs can read it, otherwise the plain
    matrix. ValueError for a packed weight that needs a gradient, which it cannot have."""
    return _readable(weight, inputs) if is_packed(weight) else weight


def _readable(weight: PackedWeight, inputs: Tensor) -> Tensor:
    if torch.is_grad_enabled() and weight.requires_grad:
        raise ValueError(
            "a packed weight has no gradient, but requires_grad is set: train the model itself, "
            "and freeze it again"
        )
    return weight if weight.suits(inputs) else weight.plain()


def _dense(matrix: Tensor) -> Tensor:
    """Copy a slice of columns: oneDNN takes a thousand times longer with such a view."""
    if matrix.is_contiguous() or matrix.T.is_contiguous():
        return matrix
    return matrix.contiguous()


def _is_small(inputs: Tensor, weight: Tensor) -> bool:
    return inputs.numel() * weight.size(0) < WORTH_A_CALL


def _suits(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether oneDNN computes any of these products."""
    if device.type != "cpu" or dtype not in _TYPES:
        return False
    return dtype != torch.float32 or product_library.needs_onednn()


def _is_faster(shape_class: ShapeClass, dtype: torch.dtype) -> bool:
    """Whether oneDNN is the faster library for a class of products."""
    return dtype != torch.float32 or product_library.library_for(shape_class) == "onednn"


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
        "a CPU with AVX2 alone, training ran at 1/25 of its float32 speed. Use float32 instead",
        option,
        {"cpu": "CPU", "cuda": "GPU"}.get(device.type, "device"),
    )


def _types() -> tuple[torch.dtype, ...]:
    """Return the types that oneDNN multiplies on this CPU, within the limit for tests."""
    if LINEAR is None:
        return ()
    if (instruction_set.max_lanes() or 16) < 16:
        return (torch.float32,)
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return (torch.float32,)
    return torch.float32, torch.bfloat16


_TYPES = _types()


def glorot_uniform(linear: nn.Linear, num_parts: int = 1) -> None:
    """Initialise a layer with Glorot and Bengio's uniform weights (2010, eq. 16) and a zero bias.

    `num_parts` is the number of matrices of equal size stacked in the layer's weight. Each of them
    is initialised by itself."""
    for part in linear.weight.chunk(num_parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)


@contextmanager
def meta_device() -> Iterator[None]:
    """Build modules on the meta device, where tensors have shapes and types but no memory."""
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Skips normal initialisation on the meta device, for which PyTorch would import its compiler:
    this takes a second and has no effect."""

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
