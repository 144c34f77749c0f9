"""A device that computes on the CPU and is as strict as a GPU, for the tests without one.

Tensors of the device `emulated` hold their numbers in a tensor of the CPU. As on a GPU, an operator
fails if its tensors are on different devices, unless one has a single number, and neither kernels
nor NumPy can read the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "emulated"
LIBRARIES: list[torch.library.Library] = []
"""Registrations of operators, which end with these objects."""
MOVES = (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)
"""Operators whose tensors may be on two devices."""
WITH_THE_CPU = (
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten._pack_padded_sequence.default,
    torch.ops.aten._pad_packed_sequence.default,
)
"""Operators of a GPU that take indices or lengths on the CPU."""


class Backend:
    """Functions that PyTorch calls for a device."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def manual_seed_all(self, seed: int) -> None: ...

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class Emulated(torch.Tensor):
    """Tensor of the device, with its numbers in `numbers`."""

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, numbers: torch.Tensor) -> Emulated:
        result = torch.Tensor._make_wrapper_subclass(
            cls,
            numbers.size(),
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=f"{NAME}:0",
            requires_grad=numbers.requires_grad,
        )
        result.numbers = numbers
        return result

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        return compute(function, arguments, options or {})

    def tolist(self) -> Any:
        return self.numbers.tolist()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.numbers.untyped_storage()


class Operators(TorchDispatchMode):
    """Computes the operators that make tensors on the device."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        return compute(function, arguments, options or {})


class Functions(TorchFunctionMode):
    """Makes tensors from numbers, which PyTorch does without an operator."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        device = options.get("device")
        if function in (torch.tensor, torch.as_tensor) and device is not None:
            return function(*arguments, **{**options, "device": None}).to(device)
        if function is torch.Tensor.new_tensor:
            return function(held(arguments[0]), *arguments[1:], **options).to(arguments[0].device)
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            tensor, places, *values = arguments
            places = places if isinstance(places, tuple) else (places,)
            places = tuple(torch.tensor(x) if isinstance(x, list) else x for x in places)
            return function(tensor, places, *values)
        if getattr(function, "__name__", "") in ("gru", "rnn_tanh") and not has_sizes(arguments):
            return positions_first(function, *arguments)
        return function(*arguments, **options)


@contextmanager
def emulation() -> Iterator[torch.device]:
    """Yield the device, which exists in this block. Inference mode only disables gradients, as it
    does not allow tensors with parts."""
    without = patch.object(torch._C, "_InferenceMode", lambda on: torch.set_grad_enabled(not on))
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # not only their `data`
    try:
        with Operators(), Functions(), without:
            yield device()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)


def compute(function: Any, arguments: Any, options: Any) -> Any:
    """Compute an operator on the CPU and return its results on the device of its tensors."""
    tensors: list[torch.Tensor] = []
    tree_map(lambda x: tensors.append(x) if isinstance(x, torch.Tensor) else None, arguments)
    tree_map(lambda x: tensors.append(x) if isinstance(x, torch.Tensor) else None, options)
    here = [x for x in tensors if isinstance(x, Emulated)]
    device = options.get("device")
    to_emulated = bool(here) if device is None else torch.device(device).type == NAME
    if here and function not in MOVES:
        check(function, tensors)
    if device is not None:
        options = {**options, "device": "cpu"}
    outputs = function(*tree_map(held, arguments), **tree_map(held, options))
    if function is torch.ops.aten._pack_padded_sequence.default and to_emulated:
        return wrapped(outputs[0]), outputs[1]  # numbers of sequences stay on the CPU
    return tree_map(wrapped, outputs) if to_emulated else outputs


def check(function: Any, tensors: list[torch.Tensor]) -> None:
    """RuntimeError for tensors of the CPU beside those of the device, as on a GPU."""
    if function in WITH_THE_CPU:
        return
    others = [x for x in tensors if not isinstance(x, Emulated) and x.dim()]
    if others:
        raise RuntimeError(
            f"{function}: expected all tensors to be on the same device, but found at least two "
            f"devices, {NAME} and {others[0].device} (shape {tuple(others[0].shape)})"
        )


def held(value: Any) -> Any:
    return value.numbers if isinstance(value, Emulated) else value


def wrapped(value: Any) -> Any:
    return Emulated(value) if type(value) is torch.Tensor else value


def device() -> torch.device:
    """Register the device, once, and return it."""
    if torch._C._get_privateuse1_backend_name() != NAME:
        _setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
        library = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
        library.fallback(torch.library.fallthrough_kernel)
        steps = torch.library.Library("aten", "IMPL", "AutogradPrivateUse1")
        steps.impl("_thnn_fused_lstm_cell", lstm_step)
        steps.impl("_thnn_fused_gru_cell", gru_step)
        LIBRARIES.extend((library, steps))
    return torch.device(NAME, 0)


def has_sizes(arguments: Any) -> bool:
    """Whether these are the arguments for packed sequences."""
    return not arguments[1].is_floating_point()


def positions_first(function: Any, inputs: torch.Tensor, *others: Any) -> Any:
    """Compute a recurrent layer with the positions first: otherwise PyTorch transposes its result
    in place, which has no effect on the shape of an emulated tensor."""
    *others, batch_first = others
    if not batch_first:
        return function(inputs, *others, False)
    outputs, state = function(inputs.transpose(0, 1), *others, False)
    return outputs.transpose(0, 1), state


def lstm_step(input_gates, recurrent_gates, cell, input_bias=None, recurrent_bias=None):
    """Compute the kernel of a GPU for a step of an LSTM."""
    gates = plus(input_gates, input_bias) + plus(recurrent_gates, recurrent_bias)
    enter, forget, new, out = gates.chunk(4, dim=1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell, gates


def gru_step(input_gates, recurrent_gates, hidden, input_bias=None, recurrent_bias=None):
    """Compute the kernel of a GPU for a step of a GRU."""
    reset, update, new = plus(input_gates, input_bias).chunk(3, dim=1)
    recurrent = plus(recurrent_gates, recurrent_bias).chunk(3, dim=1)
    reset, update = (reset + recurrent[0]).sigmoid(), (update + recurrent[1]).sigmoid()
    new = (new + reset * recurrent[2]).tanh()
    return new + update * (hidden - new), input_gates


def plus(gates: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return gates if bias is None else gates + bias
