"""Recurrent decoders whose attention and layers are computed by one operator for all steps."""

from __future__ import annotations

from regard.compiled.exact import Accelerated
from regard.compiled.recurrent.unrolling import (
    fused_attention,
    fused_lowest,
    unroll_fused,
    unroll_lowest,
)
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.contracts import DecoderOutput, Memory
from regard.models.recurrent import decoders as formula
from regard.models.recurrent import gnmt
from regard.models.recurrent.feeding import ContextFeeding
from regard.shapes import Int, Tensor


class BahdanauDecoder(Accelerated, formula.BahdanauDecoder):
    """`BahdanauDecoder` with one operator for all steps of a target, or, with connections between
    layers, for those of its lowest layer."""

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        fused = fused_attention(self)
        if fused is not None:
            return unroll_fused(
                self.parts,
                fused,
                inputs,
                self.start(memories),
                attend_first=True,
                need_weights=need_weights,
            )
        if not isinstance(self.parts.stack, RecurrentStack):
            output = _by_lowest(self, inputs, memories, need_weights=need_weights)
            if output is not None:
                return output
        return super().forward(inputs, memories, need_weights=need_weights)


class LuongDecoder(Accelerated, formula.LuongDecoder):
    """`LuongDecoder` with one operator for all steps, if the context is fed."""

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        fused = fused_attention(self) if type(self.feeding) is ContextFeeding else None
        if fused is None:
            return super().forward(inputs, memories, need_weights=need_weights)
        return unroll_fused(
            self.parts,
            fused,
            inputs,
            self.start(memories),
            attend_first=False,
            need_weights=need_weights,
        )


class GNMTDecoder(Accelerated, gnmt.GNMTDecoder):
    """`GNMTDecoder` with one operator for all steps of the lowest layer."""

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        output = _by_lowest(self, inputs, memories, need_weights=need_weights)
        if output is None:
            return super().forward(inputs, memories, need_weights=need_weights)
        return output


def _by_lowest(
    decoder: formula.BahdanauDecoder | gnmt.GNMTDecoder,
    inputs: Int[Tensor, "batch target"],
    memories: tuple[Memory, ...],
    *,
    need_weights: bool,
) -> DecoderOutput | None:
    """Compute the lowest layer by one operator, then the layers above for all positions. None if
    the operator cannot compute this decoder."""
    fused = fused_lowest(decoder)
    if fused is None:
        return None
    state = decoder.start(memories)
    return unroll_lowest(decoder.parts, fused, inputs, state, need_weights=need_weights)


TWINS = {
    formula.BahdanauDecoder: BahdanauDecoder,
    formula.LuongDecoder: LuongDecoder,
    gnmt.GNMTDecoder: GNMTDecoder,
}
