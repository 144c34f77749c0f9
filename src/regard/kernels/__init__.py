"""Kernels in C++ for CPUs, for computations that PyTorch would divide into many passes over memory.

The library is compiled when the package is built, if there is a compiler, and loaded by its C
interface. Without it results are the same, but slower. It uses AVX-512, AVX2 or the machine's
baseline, depending on the CPU. There is a header for each kind of kernel, in folders for attention,
layers, models and the output layer. The modules that call a kernel by `call` have its formula in
PyTorch, which tests compare with it.
"""

from __future__ import annotations

import ctypes
import logging
import shlex
import sys
from collections.abc import Callable
from functools import cache
from operator import mul
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from regard.runtime import instruction_set
from regard.runtime.modes import needs_formula
from regard.shapes import Tensor

log = logging.getLogger(__name__)

INTERFACE = 12
"""Version that the library must return. A library compiled from other sources is not used."""

_WRONG_SIZES = 2
"""Status that the library returns for arrays that are smaller than their sizes."""

_POINTER, _NUMBER, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_FUNCTIONS = {
    "additive_weigh": [_POINTER, ctypes.c_int, _FLOAT, _POINTER, _NUMBER],
    "additive_differentiate": [_POINTER, _POINTER],
    "additive_through_softmax": [_POINTER, _POINTER, _FLOAT, *[_NUMBER] * 5],
    "size": [ctypes.c_char_p],
    "cell_step": [_POINTER],
    "cell_back": [_POINTER],
    "cross_entropy": [_POINTER, _POINTER, _NUMBER],
    "cross_entropy_back": [_POINTER, _FLOAT],
    "attend": [_POINTER, _NUMBER],
    "drop": [_POINTER],
    "candidates": [_POINTER],
    "pack": [_POINTER, _NUMBER, _POINTER],
    "multiply": [_POINTER],
    "decoder_step": [_POINTER],
    "encode": [_POINTER],
    "recurrent_step": [_POINTER],
    "byte_products": [ctypes.c_int],
    "estimates": [ctypes.c_int],
}
"""Argument types of each function of the interface. Structures are passed by address."""


AnyStructure = TypeVar("AnyStructure", bound=type[ctypes.Structure])


def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(Path(__file__).parent / "libkernels.so"))
        if library.regard_interface() != INTERFACE:
            return None
        for name, takes in _FUNCTIONS.items():
            getattr(library, f"regard_{name}").argtypes = takes
        library.regard_lanes(instruction_set.max_lanes() or 0)
        library.regard_byte_products(instruction_set.limit() is None)
    except (OSError, AttributeError):
        return None
    return library


_LIBRARY = _load()


def available() -> bool:
    """Whether the library was compiled from these sources."""
    return _LIBRARY is not None


def suit(*tensors: Tensor) -> bool:
    """Whether a kernel can run for these: plain tensors on a CPU, all float32 or all bfloat16,
    without torch's negative bit, and not while torch compiles, exports or transforms functions.
    Warns once if only the library is missing."""
    if torch.compiler.is_compiling() or needs_formula():
        return False
    dtype = tensors[0].dtype
    if dtype is not torch.float32 and dtype is not torch.bfloat16:
        return False
    for tensor in tensors:
        kind = type(tensor)
        if kind is not Tensor and kind is not nn.Parameter:
            return False
        if tensor.dtype is not dtype or not tensor.is_cpu or tensor.is_neg():
            return False
    return usable()


def usable() -> bool:
    """Like `available`, but warns once if the library is missing."""
    if _LIBRARY is None and not torch.compiler.is_compiling():
        _warn_missing()
    return _LIBRARY is not None


@cache
def _warn_missing() -> None:
    log.warning(
        "the C++ kernels are missing or were compiled from other sources: results are the same, "
        "but Regard is slower on this CPU. %s",
        how_to_build(),
    )


def how_to_build() -> str:
    """Return how to build the package again with the kernels."""
    compilers = "Install g++ 11 or newer, or Clang 14 or newer"
    return f"{compilers}, and run: {_command_to_build()}"


def _command_to_build() -> str:
    """Return the command that builds the package again, for a clone or an installed package."""
    root = Path(__file__).resolve().parents[3]
    build = f"{shlex.quote(sys.executable)} -m pip install --force-reinstall --no-deps"
    if (root / "setup.py").is_file() and (root / "pyproject.toml").is_file():
        return f"{build} --editable {shlex.quote(str(root))}"
    return f"{build} --no-cache-dir . (in the folder of Regard's sources)"


def structure(name: str) -> Callable[[AnyStructure], AnyStructure]:
    """Return a decorator that compares the size of a class with that of the library's structure. If
    they differ, the library was compiled from other sources and is not used."""

    def compared(own: AnyStructure) -> AnyStructure:
        global _LIBRARY
        if _LIBRARY is not None and _LIBRARY.regard_size(name.encode()) != ctypes.sizeof(own):
            _LIBRARY = None
        return own

    return compared


def lanes(wanted: int = 0) -> int:
    """Return the number of lanes of the instruction set in use: 16 with AVX-512, 8 with AVX2, 4
    with the baseline. `wanted` selects one of these sets, if the CPU has it and
    REGARD_INSTRUCTION_SET allows it."""
    maximum = instruction_set.max_lanes() if wanted else None
    return _library().regard_lanes(0 if maximum is not None and wanted > maximum else wanted)


def byte_products(allowed: bool) -> bool:
    """Allow or forbid the instructions for dot products of bytes (AVX-512 VNNI) in products of
    integers, whose results are the same without them. Return whether they are in use. A limit by
    REGARD_INSTRUCTION_SET forbids them."""
    allowed = allowed and instruction_set.limit() is None
    return bool(_library().regard_byte_products(allowed))


def reciprocal_estimates(wanted: bool | None = None) -> bool:
    """Select estimates of reciprocals with a Newton step, or divisions, for the kernels of AVX2;
    None selects the faster ones on this CPU: estimates on Intel CPUs. The last digits of additive
    attention depend on it. Return whether estimates are selected."""
    return bool(_library().regard_estimates(-1 if wanted is None else wanted))


def call(name: str, *arguments: Any) -> None:
    """Call a function of the interface; structures and addresses must outlive the call.
    MemoryError if its workspace does not fit; ValueError for arrays smaller than their sizes."""
    addresses = [ctypes.addressof(x) if isinstance(x, ctypes.Structure) else x for x in arguments]
    status = getattr(_library(), f"regard_{name}")(*addresses)
    if status == _WRONG_SIZES:
        raise ValueError(
            f"{name.replace('_', ' ')}: an array is smaller than its sizes, or a target, token or "
            "count is out of range"
        )
    if status:
        raise MemoryError(f"{name.replace('_', ' ')}: not enough memory for its workspace")


def place(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's numbers. ValueError if a kernel cannot read them."""
    if tensor is None:
        return None
    if not tensor.is_cpu or tensor.is_neg():
        raise _unreadable(tensor)
    return tensor.data_ptr()


def dense(tensor: Tensor) -> Tensor:
    """Return the tensor, or a contiguous copy without PyTorch's negative bit."""
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def num_bytes(tensor: Tensor | None) -> int:
    """Return the bytes from the first number of a tensor to the end of the last."""
    if tensor is None:
        return 0
    if tensor.is_contiguous():
        return tensor.nbytes
    if not tensor.numel():
        return 0
    shape, steps = tensor.shape, tensor.stride()
    last = sum(map(mul, shape, steps)) - sum(steps)
    return (1 + last) * tensor.element_size()


def all_bytes(*tensors: Tensor | None) -> Any:
    """Return the bytes of every array of a structure, as its last field."""
    return (_NUMBER * len(tensors))(*map(num_bytes, tensors))


def places(*tensors: Tensor | None) -> tuple[list[int | None], tuple[int, ...]]:
    """Return the addresses and bytes of arrays in the order of a structure's fields. ValueError if
    a kernel cannot read an array."""
    addresses: list[int | None] = []
    sizes: list[int] = []
    for x in tensors:
        if x is None:
            addresses.append(None)
            sizes.append(0)
            continue
        if not x.is_cpu or x.is_neg():
            raise _unreadable(x)
        addresses.append(x.data_ptr())
        sizes.append(x.nbytes if x.is_contiguous() else num_bytes(x))
    return addresses, tuple(sizes)


def _unreadable(tensor: Tensor) -> ValueError:
    bit = " with the negative bit" if tensor.is_neg() else ""
    return ValueError(f"array of a kernel: expected one on cpu, got one on {tensor.device}{bit}")


def new_seed() -> int:
    """Return a seed for the noise of a kernel, drawn from PyTorch's generator."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_())


def _library() -> ctypes.CDLL:
    if _LIBRARY is None:
        raise RuntimeError("the kernels are not compiled: use the formulas in PyTorch")
    return _LIBRARY
