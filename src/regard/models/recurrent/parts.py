"""What recurrent decoders are made of, and what they carry from step to step.

Who asks when, and what is fed back, is each decoder's own: `recurrent.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.layers.dropout import Dropout
from regard.layers.recurrent.stack import RecurrentStack
from regard.linear import Linear
from regard.models.contracts import Memory
from regard.models.memory import summary
from regard.models.recurrent.attention import DecoderAttentionState
from regard.models.recurrent.bridge import Bridge
from regard.models.recurrent.output import Output
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class RecurrentState:
    """The recurrent states of every hypothesis and what was fed back into its next step.

    `cell` is None for cells that have none. `look` is what the decoder looks at, and what it
    remembers of that; None for a decoder that looks at nothing, or has not begun to."""

    hidden: Float[Tensor, "batch hypothesis layer hidden"]
    cell: Float[Tensor, "batch hypothesis layer hidden"] | None
    fed: Float[Tensor, "batch hypothesis fed"]
    look: DecoderAttentionState | None

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> RecurrentState:
        batch, width = self.hidden.shape[:2]
        sentences = torch.arange(batch, device=hypotheses.device)[:, None]
        rows = torch.add(hypotheses, sentences, alpha=width).flatten()

        def chosen(values: Tensor) -> Tensor:
            found = values.flatten(0, 1).index_select(0, rows)
            return found.view(*hypotheses.shape, *values.shape[2:])

        return RecurrentState(
            chosen(self.hidden),
            None if self.cell is None else chosen(self.cell),
            chosen(self.fed),
            None if self.look is None else self.look.select(sentences, hypotheses),
        )

    def keep(self, sentences: Int[Tensor, "kept"]) -> RecurrentState:
        return RecurrentState(
            self.hidden[sentences],
            None if self.cell is None else self.cell[sentences],
            self.fed[sentences],
            None if self.look is None else self.look.keep(sentences),
        )


class DecoderParts(nn.Module):
    """What every recurrent decoder is made of; who asks when, and what is fed, is its own."""

    def __init__(
        self,
        embedding: nn.Embedding,
        stack: RecurrentStack,
        bridge: Bridge,
        output: Output,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.bridge = bridge
        self.output = output
        self.dropout = Dropout(dropout)
        self.projection = Linear(output.feature_size, embedding.num_embeddings)

    def embed(self, tokens: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target embedding"]:
        """With dropout, while training. In a step the target axis counts hypotheses."""
        return self.dropout(self.embedding(tokens))

    def start(
        self, memories: tuple[Memory, ...], look: DecoderAttentionState | None, fed: int = 0
    ) -> RecurrentState:
        """The bridged summary of the first memory as the state of one hypothesis a sentence, whose
        `fed` numbers are zero. ValueError where the memory has no summary."""
        first = self.bridge(summary(memories[0]))
        hidden = first.hidden[:, None]
        cell = first.cell[:, None] if self.stack.kind == "lstm" else None
        return RecurrentState(hidden, cell, hidden.new_zeros(hidden.size(0), 1, fed), look)

    def advance(
        self, inputs: Float[Tensor, "batch hypothesis input"], state: RecurrentState
    ) -> RecurrentState:
        """One step of the recurrent layers for every hypothesis: their new states, and all else as
        it came."""
        axes = inputs.shape[:2]
        cell = None if state.cell is None else state.cell.flatten(0, 1)
        read = self.stack.step(inputs.flatten(0, 1), state.hidden.flatten(0, 1), cell)
        hidden = read.hidden.unflatten(0, axes)
        cell = None if read.cell is None else read.cell.unflatten(0, axes)
        return replace(state, hidden=hidden, cell=cell)

    def read(
        self, inputs: Float[Tensor, "batch target input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "batch target hidden"], ...]:
        """All steps of the recurrent layers in one call, from a state of one hypothesis a sentence
        (`start`'s): every layer's states, lowest first."""
        cell = None if state.cell is None else state.cell[:, 0]
        return self.stack(inputs, state.hidden[:, 0], cell).layers

    def features(
        self,
        hidden: Float[Tensor, "batch target hidden"],
        context: Float[Tensor, "batch target value"],
        embedded: Float[Tensor, "batch target embedding"],
    ) -> Float[Tensor, "batch target feature"]:
        """What `projection` makes logits of. A decoder that looks at nothing gives a context of no
        numbers."""
        return self.dropout(self.output(hidden, context, embedded))
