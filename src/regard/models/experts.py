"""Gate values, terms of the loss and numbers of the log of models with experts (Shazeer et al.
2017)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from regard.attention import none_if_full
from regard.data.special_tokens import END, PAD
from regard.layers.routing import Balance, Routing
from regard.models.contracts import AttentionBlock, DecoderOutput, Measure, Penalty
from regard.names import AttentionKind
from regard.shapes import Bool, Int, Tensor


def inputs_with_target(
    inputs: Int[Tensor, "batch target"],
) -> Bool[Tensor, "batch target"] | None:
    """Return the mask of a decoder's inputs that have a target; None if all have one. Padding has
    none, nor has END, which is the last input of targets that are shorter than others."""
    return none_if_full((inputs != PAD) & (inputs != END))


def penalties_of_balance(routings: Sequence[Routing | None]) -> tuple[Penalty, ...]:
    """Return the importance loss and the load loss of every layer with experts, in training."""
    return _penalties(list(_balances(routings)))


def measures_of_load(name: str, routings: Sequence[Routing | None]) -> tuple[Measure, ...]:
    """Return the load of the busiest expert over the mean load, as the mean over layers, in
    training."""
    return _measures(name, list(_balances(routings)))


def whole_output(output: DecoderOutput) -> DecoderOutput:
    """Return the output for all positions of a target with the terms of the loss and the load of
    its experts."""
    if output.balance is None:
        return output
    return replace(
        output,
        penalties=_penalties([output.balance]),
        measures=_measures("decoder_load", [output.balance]),
        balance=None,
    )


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


def _penalties(balances: Sequence[Balance]) -> tuple[Penalty, ...]:
    return tuple(
        Penalty(name, value, is_mean=True)
        for balance in balances
        for name, value in (
            ("importance", balance.importance_loss),
            ("load", balance.load_loss),
        )
    )


def _measures(name: str, balances: Sequence[Balance]) -> tuple[Measure, ...]:
    loads = [balance.largest_load for balance in balances]
    return (Measure(name, torch.stack(loads).mean()),) if loads else ()


def _balances(routings: Sequence[Routing | None]) -> Iterator[Balance]:
    for routing in routings:
        if routing is not None and routing.balance is not None:
            yield routing.balance
