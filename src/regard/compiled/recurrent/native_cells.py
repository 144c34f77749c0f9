"""The steps of `cells` in C++, for float32 and bfloat16 on CPUs. A step reads its numbers once, but
PyTorch reads them once for each operation."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType

import torch

from regard import kernels
from regard.compiled.recurrent import cells
from regard.compiled.recurrent.cells import CellBackward, CellStep
from regard.names import CellKind
from regard.shapes import Tensor

KINDS: dict[CellKind, int] = {"elman": 0, "gru": 1, "lstm": 2}


@kernels.structure("CellStep")
class _Step(ctypes.Structure):
    """`CellStep` of regard/kernels/layers/cells.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("kind", "rows", "size", "is_bfloat16", "threads")),
        ("input_gates", ctypes.c_void_p),
        ("input_gates_row", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("recurrent", "last_hidden", "last_cell", "mask")),
        ("mask_row", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("hidden", "cell", "saved")),
        ("bytes", ctypes.c_int64 * 8),
    ]


@kernels.structure("CellBack")
class _Backward(ctypes.Structure):
    """`CellBack` of regard/kernels/layers/cells.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("kind", "rows", "size", "is_bfloat16", "threads")),
        ("grad_output", ctypes.c_void_p),
        ("grad_output_row", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("grad_recurrent", "grad_carried", "grad_cell")),
        *((name, ctypes.c_void_p) for name in ("last_hidden", "last_cell", "hidden", "cell")),
        *((name, ctypes.c_void_p) for name in ("saved", "mask")),
        ("mask_row", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("input_gates", "recurrent")),
        ("bytes", ctypes.c_int64 * 12),
    ]


def choose(like: Tensor) -> ModuleType:
    """Return the module whose `step` and `backward` run for tensors like this one."""
    return sys.modules[__name__] if kernels.suit(like) else cells


def step(kind: CellKind, at: CellStep) -> None:
    """Compute `cells.step`. All tensors except `input_gates` and the mask have contiguous rows."""
    input_gates, mask, last, new = at.input_gates, at.mask, at.last, at.new
    (first, *addresses), sizes = kernels.places(
        input_gates,
        at.recurrent_gates,
        last.hidden,
        last.cell,
        mask,
        new.hidden,
        new.cell,
        at.saved,
    )
    kernels.call(
        "cell_step",
        _Step(
            *_sizes(kind, new.hidden),
            first,
            input_gates.stride(0),
            *addresses[:4],
            0 if mask is None else mask.stride(0),
            *addresses[4:],
            sizes,
        ),
    )


def backward(kind: CellKind, at: CellBackward) -> None:
    """Compute `cells.backward`. All tensors except `grad_output` and the mask have contiguous
    rows."""
    states = at.last.hidden, at.last.cell, at.new.hidden, at.new.cell
    gradients = at.grad_recurrent, at.grad_carried, at.grad_cell
    before = *gradients, *states, at.saved, at.mask
    (grad_output, *addresses), sizes = kernels.places(
        at.grad_output, *before, at.grad_input_gates, at.grad_recurrent_gates
    )
    kernels.call(
        "cell_back",
        _Backward(
            *_sizes(kind, at.new.hidden),
            grad_output,
            0 if at.grad_output is None else at.grad_output.stride(0),
            *addresses[: len(before)],
            0 if at.mask is None else at.mask.stride(0),
            *addresses[len(before) :],
            sizes,
        ),
    )


def _sizes(kind: CellKind, hidden: Tensor) -> tuple[int, ...]:
    is_bfloat16 = hidden.dtype == torch.bfloat16
    return KINDS[kind], *hidden.shape, is_bfloat16, torch.get_num_threads()
