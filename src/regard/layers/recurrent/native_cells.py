"""The steps of `cells` in C++, for float32 and bfloat16 on CPUs: one pass over the numbers where
torch makes one for every operation."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType

import torch

from regard import kernels
from regard.layers.recurrent import cells
from regard.layers.recurrent.cells import Step, StepBack
from regard.names import CellKind
from regard.shapes import Tensor

KINDS: dict[CellKind, int] = {"elman": 0, "gru": 1, "lstm": 2}


@kernels.structure("CellStep")
class _Step(ctypes.Structure):
    """`CellStep` of regard/kernels/cells.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("kind", "rows", "size", "is_bfloat16", "threads")),
        ("of_input", ctypes.c_void_p),
        ("of_input_row", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("recurrent", "last_hidden", "last_cell", "mask")),
        ("mask_row", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("hidden", "cell", "kept")),
        ("bytes", ctypes.c_int64 * 8),
    ]


@kernels.structure("CellBack")
class _Back(ctypes.Structure):
    """`CellBack` of regard/kernels/cells.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("kind", "rows", "size", "is_bfloat16", "threads")),
        ("above", ctypes.c_void_p),
        ("above_row", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("around", "passed", "grad_cell")),
        *((name, ctypes.c_void_p) for name in ("last_hidden", "last_cell", "hidden", "cell")),
        *((name, ctypes.c_void_p) for name in ("kept", "mask")),
        ("mask_row", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("of_input", "recurrent")),
        ("bytes", ctypes.c_int64 * 12),
    ]


def choose(like: Tensor) -> ModuleType:
    """The module with `step` and `back` for numbers like these."""
    return sys.modules[__name__] if kernels.suit(like) else cells


def step(kind: CellKind, at: Step) -> None:
    """As `cells.step`. Rows lie one after the other, but for those of `of_input` and the mask."""
    of_input, mask, last, new = at.of_input, at.mask, at.last, at.new
    (first, *addresses), sizes = kernels.places(
        of_input, at.recurrent, last.hidden, last.cell, mask, new.hidden, new.cell, at.kept
    )
    kernels.call(
        "cell_step",
        _Step(
            *_sizes(kind, new.hidden),
            first,
            of_input.stride(0),
            *addresses[:4],
            0 if mask is None else mask.stride(0),
            *addresses[4:],
            sizes,
        ),
    )


def back(kind: CellKind, at: StepBack) -> None:
    """As `cells.back`. Rows lie one after the other, but for those of `above` and the mask."""
    states = at.last.hidden, at.last.cell, at.new.hidden, at.new.cell
    before = at.around, at.passed, at.cell, *states, at.kept, at.mask
    (above, *addresses), sizes = kernels.places(at.above, *before, at.of_input, at.recurrent)
    kernels.call(
        "cell_back",
        _Back(
            *_sizes(kind, at.new.hidden),
            above,
            0 if at.above is None else at.above.stride(0),
            *addresses[: len(before)],
            0 if at.mask is None else at.mask.stride(0),
            *addresses[len(before) :],
            sizes,
        ),
    )


def _sizes(kind: CellKind, hidden: Tensor) -> tuple[int, ...]:
    is_bfloat16 = hidden.dtype == torch.bfloat16
    return KINDS[kind], *hidden.shape, is_bfloat16, torch.get_num_threads()
