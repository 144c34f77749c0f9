"""An encoder, with what decoders and heads need to know of it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from regard.names import AttentionKind


@dataclass(frozen=True)
class BuiltEncoder:
    """An encoder and the shapes of its output."""

    module: nn.Module
    layer_sizes: tuple[int, ...]
    """Size of the states of each layer, the embeddings first."""
    num_summary_layers: int | None
    """Layers of the summary. None if the encoder computes no summary."""
    attention_kind: AttentionKind = "cross"
    """Kind of the attention to this encoder's states."""

    @property
    def size(self) -> int:
        """Size of the last layer's states."""
        return self.layer_sizes[-1]
