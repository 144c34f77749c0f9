"""Candidates of a search by one kernel for each sentence
(`regard/kernels/output/candidates.hpp`)."""

from __future__ import annotations

import ctypes

import torch

from regard import kernels
from regard.search import candidates as formula
from regard.search.candidates import Candidates, check_candidates
from regard.search.restrictions import TokenHistory
from regard.shapes import Float, Int, Tensor


def top_candidates(
    logits: Float[Tensor, "batch hypothesis vocabulary"],
    totals: Float[Tensor, "batch hypothesis"],
    forbidden: Int[Tensor, "_"],
    count: int,
    history: TokenHistory | None = None,
) -> Candidates:
    """Compute `regard.search.candidates.top_candidates`. The formula computes other devices and
    types, and the restrictions of each hypothesis."""
    if history is not None or totals.dtype != torch.float32 or not kernels.suit(logits):
        return formula.top_candidates(logits, totals, forbidden, count, history)
    check_candidates(logits, totals, forbidden, count)
    return _native(logits, totals, forbidden, min(count, logits.size(1) * logits.size(2)))


@kernels.structure("Candidates")
class _Candidates(ctypes.Structure):
    """`Candidates` of regard/kernels/kernels.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("sentences", "hypotheses", "words", "count")),
        *((name, ctypes.c_int64) for name in ("num_forbidden", "is_bfloat16", "threads")),
        *((name, ctypes.c_void_p) for name in ("logits", "totals", "forbidden")),
        *((name, ctypes.c_void_p) for name in ("sums", "logs", "parents", "tokens")),
        ("bytes", ctypes.c_int64 * 7),
    ]


def _native(logits: Tensor, totals: Tensor, forbidden: Tensor, count: int) -> Candidates:
    logits, totals, forbidden = map(kernels.dense, (logits, totals, forbidden))
    batch = len(logits)
    numbers = logits.new_empty(2, batch, count, dtype=torch.float32)
    places = logits.new_empty(2, batch, count, dtype=torch.long)
    sums, logs = numbers.unbind()
    parents, tokens = places.unbind()
    addresses, sizes = kernels.places(logits, totals, forbidden, sums, logs, parents, tokens)
    problem = _Candidates(
        *logits.shape,
        count,
        len(forbidden),
        logits.dtype == torch.bfloat16,
        torch.get_num_threads(),
        *addresses,
        sizes,
    )
    if batch:
        kernels.call("candidates", problem)
    return Candidates(sums, logs, tokens, parents)
