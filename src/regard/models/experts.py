"""Gate values, terms of the loss and numbers of the log of models with experts (Shazeer et al.
2017)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from regard.layers.feed_forward import Balance, Routing
from regard.models.contracts import AttentionBlock, Measure, Penalty
from regard.names import AttentionKind


def penalties_of_balance(routings: Sequence[Routing | None]) -> tuple[Penalty, ...]:
    """Return the importance loss and the load loss of every layer with experts, in training."""
    return tuple(
        Penalty(name, value, is_mean=True)
        for balance in _balances(routings)
        for name, value in (("importance", balance.importance), ("load", balance.load))
    )


def measures_of_load(name: str, routings: Sequence[Routing | None]) -> tuple[Measure, ...]:
    """Return the load of the busiest expert over the mean load, as the mean over layers, in
    training."""
    loads = [balance.largest_load for balance in _balances(routings)]
    return (Measure(name, torch.stack(loads).mean()),) if loads else ()


def blocks_of_gates(
    kind: AttentionKind, routings: Sequence[Routing | None]
) -> tuple[AttentionBlock, ...]:
    """Return the gate values of all layers with experts as one block, whose source axis counts the
    experts; none without experts."""
    sparse = [routing for routing in routings if routing is not None]
    if not sparse:
        return ()
    weights = torch.stack([routing.weights for routing in sparse], dim=1)
    scores = torch.stack([routing.scores for routing in sparse], dim=1)
    return (AttentionBlock(kind, weights[:, :, None], scores[:, :, None]),)


def _balances(routings: Sequence[Routing | None]) -> Iterator[Balance]:
    for routing in routings:
        if routing is not None and routing.balance is not None:
            yield routing.balance
