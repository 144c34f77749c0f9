"""What every hypothesis of a sentence may write next, and the best of it.

    log p_v = x_v - log sum_w e^{x_w}        -inf for what is closed
    sum     = total + log p_v                of a hypothesis and a token

On a CPU one kernel finds the few best of a sentence (`regard/kernels/candidates.hpp`); `_plain` is
the formula, for every device and type.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from regard import kernels
from regard.precise import precise_type
from regard.search.topk import highest_sums
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Candidates:
    """The best of each sentence, best first: the log probability of the whole and of the token
    (-inf where that of the whole is), the token, and which hypothesis it continues."""

    totals: Float[Tensor, "batch candidate"]
    log_probabilities: Float[Tensor, "batch candidate"]
    tokens: Int[Tensor, "batch candidate"]
    parents: Int[Tensor, "batch candidate"]

    def __getitem__(self, index: Any) -> Candidates:
        return self._each(lambda numbers: numbers[index])

    def at(self, places: Int[Tensor, "batch chosen"]) -> Candidates:
        """Those at these places of each sentence."""
        return self._each(lambda numbers: numbers.gather(1, places))

    def only(self, living: Bool[Tensor, "batch candidate"]) -> Candidates:
        """The others are dead: impossible, with their logarithms."""
        numbers = self.totals, self.log_probabilities
        totals, logs = (each.masked_fill(~living, -torch.inf) for each in numbers)
        return Candidates(totals, logs, self.tokens, self.parents)

    def beside(self, others: Candidates) -> Candidates:
        """These, then those, of every sentence."""
        pairs = zip(self._columns(), others._columns(), strict=True)
        return Candidates(*(torch.cat(pair, dim=1) for pair in pairs))

    def filled_up(self, count: int) -> Candidates:
        """Return at least this number of candidates: these, followed by impossible ones."""
        missing = count - self.totals.size(1)
        if missing <= 0:
            return self
        return Candidates(
            F.pad(self.totals, (0, missing), value=-torch.inf),
            F.pad(self.log_probabilities, (0, missing), value=-torch.inf),
            F.pad(self.tokens, (0, missing)),
            F.pad(self.parents, (0, missing)),
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> Candidates:
        return Candidates(*map(change, self._columns()))

    def _columns(self) -> tuple[Tensor, ...]:
        return self.totals, self.log_probabilities, self.tokens, self.parents


def best(
    logits: Float[Tensor, "batch hypothesis vocabulary"],
    totals: Float[Tensor, "batch hypothesis"],
    closed: Int[Tensor, "_"],
    count: int,
) -> Candidates:
    """The `count` candidates with the highest totals, or all where there are fewer: equal ones by
    the lower hypothesis, then the lower token. What is not a number comes before all that is, what
    is impossible after it, and may come more than once. ValueError for shapes that do not fit."""
    _check(logits, totals, closed, count)
    find = _native if totals.dtype == torch.float32 and kernels.suit(logits) else _plain
    return find(logits, totals, closed, min(count, logits.size(1) * logits.size(2)))


def _check(logits: Tensor, totals: Tensor, closed: Tensor, count: int) -> None:
    if logits.dim() != 3 or 0 in logits.shape[1:] or totals.shape != logits.shape[:2]:
        raise ValueError(
            "logits and totals: expected (batch, hypothesis, vocabulary), at least one of the last "
            f"two, and (batch, hypothesis), got {tuple(logits.shape)} and {tuple(totals.shape)}"
        )
    if closed.dim() != 1 or closed.dtype != torch.long:
        raise ValueError(
            f"closed: expected a vector of torch.int64, got {closed.dtype} of shape "
            f"{tuple(closed.shape)}"
        )
    if count < 1:
        raise ValueError(f"count: expected 1 or more, got {count}")
    if not logits.device == totals.device == closed.device:
        raise ValueError(
            f"logits, totals and closed: expected one device, got {logits.device}, "
            f"{totals.device} and {closed.device}"
        )


def log_probabilities(
    logits: Float[Tensor, "*batch vocabulary"], closed: Int[Tensor, "_"]
) -> Float[Tensor, "*batch vocabulary"]:
    """Natural logarithms, at least in float32; -inf for what is closed. What is not keeps the
    probability that the model gives it."""
    dtype = precise_type(logits.dtype)
    values = torch.log_softmax(logits, dim=-1, dtype=dtype)
    return values.index_fill_(-1, closed, -torch.inf) if closed.numel() else values


def _plain(logits: Tensor, totals: Tensor, closed: Tensor, count: int) -> Candidates:
    values = log_probabilities(logits, closed)
    sums, places = highest_sums(totals, values, count)
    written = values.flatten(1).gather(1, places).masked_fill(sums == -torch.inf, -torch.inf)
    num_tokens = logits.size(2)
    return Candidates(sums, written, places % num_tokens, places // num_tokens)


@kernels.structure("Candidates")
class _Candidates(ctypes.Structure):
    """`Candidates` of regard/kernels/kernels.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("sentences", "hypotheses", "words", "count")),
        *((name, ctypes.c_int64) for name in ("num_closed", "is_bfloat16", "threads")),
        *((name, ctypes.c_void_p) for name in ("logits", "totals", "closed")),
        *((name, ctypes.c_void_p) for name in ("sums", "logs", "parents", "tokens")),
        ("bytes", ctypes.c_int64 * 7),
    ]


def _native(logits: Tensor, totals: Tensor, closed: Tensor, count: int) -> Candidates:
    logits, totals, closed = map(kernels.dense, (logits, totals, closed))
    batch = len(logits)
    numbers = logits.new_empty(2, batch, count, dtype=torch.float32)
    places = logits.new_empty(2, batch, count, dtype=torch.long)
    sums, logs = numbers.unbind()
    parents, tokens = places.unbind()
    addresses, sizes = kernels.places(logits, totals, closed, sums, logs, parents, tokens)
    problem = _Candidates(
        *logits.shape,
        count,
        len(closed),
        logits.dtype == torch.bfloat16,
        torch.get_num_threads(),
        *addresses,
        sizes,
    )
    if batch:
        kernels.call("candidates", problem)
    return Candidates(sums, logs, tokens, parents)
