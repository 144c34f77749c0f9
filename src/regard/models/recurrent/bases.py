"""Members that recurrent decoders share: the projection, and the start from the memories."""

from __future__ import annotations

from torch import nn

from regard.models.contracts import Memory
from regard.models.recurrent.attention import DecoderAttention, num_memories, start_attention
from regard.models.recurrent.parts import DecoderParts, RecurrentState
from regard.shapes import Float, Tensor


class ProjectingDecoder(nn.Module):
    """Decoder that computes logits from features by the projection of its parts."""

    def __init__(self, parts: DecoderParts) -> None:
        super().__init__()
        self.parts = parts

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        # Bahdanau et al. 2015, A.2.2 if wiring is bahdanau: p(y_i | ..) ~ exp(y_i . W_o t_i)
        # Luong et al. 2015, eq. 6 (from memory) if wiring is luong: p(y_t | ..) = softmax(W_s h~_t)
        # Xu et al. 2015, eq. 7 if task is caption: p(y_t | ..) ~ exp(L_o (..))
        return self.parts.projection(features)


class AttendingDecoder(ProjectingDecoder):
    """Decoder that attends to its memories, and feeds no earlier context to a step."""

    def __init__(self, parts: DecoderParts, attention: DecoderAttention) -> None:
        super().__init__(parts)
        self.attention = attention

    @property
    def num_memories(self) -> int:
        return num_memories(self.attention)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        return self.parts.start(memories, start_attention(self.attention, memories))
