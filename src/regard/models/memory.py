"""Which of the things an encoder computed become keys and values, and who takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.attention import Prepared
from regard.models.contracts import Encoded, Memory, Summary
from regard.shapes import Bool, Float, Int, Tensor

Remember = Callable[[Encoded], tuple[Memory, ...]]
"""From all that an encoder computed to what is looked at: several memories for a decoder that looks
at several things."""


def top_layer(encoded: Encoded) -> tuple[Memory]:
    """Keys and values are both the highest layer's states (Bahdanau et al. 2015, Luong et al.
    2015, Vaswani et al. 2017)."""
    states = encoded.layers[-1]
    return (Memory(states, states, encoded.mask, encoded.summary),)


def first_and_last(encoded: Encoded) -> tuple[Memory]:
    """Keys are the first of the layers and values the last; where there is one, it is both."""
    return (Memory(encoded.layers[0], encoded.layers[-1], encoded.mask, encoded.summary),)


@dataclass(frozen=True)
class PreparedMemory:
    """What a recurrent decoder looks at, its keys projected once: one a sentence."""

    prepared: Prepared
    values: Float[Tensor, "batch source value"]
    mask: Bool[Tensor, "batch 1 source"]

    def keep(self, sentences: Int[Tensor, "kept"]) -> PreparedMemory:
        return PreparedMemory(
            self.prepared[sentences], self.values[sentences], self.mask[sentences]
        )


def only(memories: tuple[Memory, ...]) -> Memory:
    """The memory of who looks at one; ValueError where another number came."""
    if len(memories) != 1:
        raise ValueError(f"expected to look at one memory, but {len(memories)} came")
    return memories[0]


def summary(memory: Memory) -> Summary:
    """What the encoder made of the whole source; ValueError where it made nothing."""
    if memory.summary is None:
        raise ValueError(
            "a summary of the source is needed, and this encoder gives none: use another encoder, "
            "or another bridge or pool"
        )
    return memory.summary
