"""Parts of the recurrent decoders, whose embedding has one gradient for all steps of a loop."""

from __future__ import annotations

from regard.compiled.exact import Accelerated
from regard.compiled.recurrent.lookup import lookup
from regard.models.recurrent import parts as formula
from regard.shapes import Float, Int, Tensor


class DecoderParts(Accelerated, formula.DecoderParts):
    """`DecoderParts` with `lookup`."""

    def embed(self, tokens: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target embedding"]:
        return self.dropout(lookup(self.embedding, tokens))


TWINS = {formula.DecoderParts: DecoderParts}
