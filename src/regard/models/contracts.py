"""What the parts of every model say to each other. Read this first.

    source --Encoder--> Encoded --memory.py picks--> Memory(keys, values, mask, summary)
                                                        |
                                  Decoder(queries) <----+----> Head(queries)
                                        |                          |
                            features, attention            values, attention

Models differ only in where queries, keys and values come from. Search, training and the views speak
of these records and protocols and of nothing more concrete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import nn

from regard.names import AttentionKind
from regard.shapes import Bool, Float, Int, Tensor

AT_SOURCE: tuple[AttentionKind, ...] = ("cross", "image")
"""Kinds that go from a target to its source."""


@dataclass(frozen=True)
class AttentionBlock:
    """Who looked at what, of one kind: `cross` (target at source), `encoder` and `decoder`
    (at themselves), `image` (words at cells), `memory` (target at vectors that are of no source).
    Heads and layers are never averaged here."""

    kind: AttentionKind
    weights: Float[Tensor, "batch layer head target source"]
    scores: Float[Tensor, "batch layer head target source"] | None = None
    drawn: Int[Tensor, "batch layer head target"] | None = None
    """Where hard attention looked; -1 where it took the expected context instead."""


@dataclass(frozen=True)
class Summary:
    """The whole source in one vector a layer: where recurrent decoders start.

    `cell` is there when the encoder has one (LSTM)."""

    hidden: Float[Tensor, "batch layer hidden"]
    cell: Float[Tensor, "batch layer hidden"] | None = None


@dataclass(frozen=True)
class Encoded:
    """All that an encoder computed: its embeddings, then every layer's states, lowest first."""

    layers: tuple[Float[Tensor, "batch source _"], ...]
    mask: Bool[Tensor, "batch source"]
    summary: Summary | None = None
    attention: tuple[AttentionBlock, ...] = ()


@dataclass(frozen=True)
class Memory:
    """What a decoder or a readout may look at. A summary is there where the encoder makes one."""

    keys: Float[Tensor, "batch source key"]
    values: Float[Tensor, "batch source value"]
    mask: Bool[Tensor, "batch source"]
    summary: Summary | None = None


@dataclass(frozen=True)
class Penalty:
    """A term that a model adds to its loss, under the name it is logged by."""

    name: str
    value: Float[Tensor, ""]


@dataclass(frozen=True)
class DecoderOutput:
    """What a decoder computed at every target position (or, in a step, for every hypothesis).

    `features` become logits through `Decoder.project`, apart, so that a loss forms logits only
    where there is a target. `attention` is empty unless it was asked for."""

    features: Float[Tensor, "batch target feature"]
    attention: tuple[AttentionBlock, ...] = ()
    penalties: tuple[Penalty, ...] = ()


@runtime_checkable
class State(Protocol):
    """Where a decoder stands between two steps. Immutable.

    What belongs to a hypothesis has axes batch and hypothesis; what belongs to the source (its
    prepared keys and values) is there once a sentence and is never copied for a hypothesis."""

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> State:
        """Continue from these hypotheses of each sentence. An index may repeat; their number may
        differ from before, so one hypothesis grows into a beam by the same call."""

    def keep(self, sentences: Int[Tensor, "kept"]) -> State:
        """Go on with these sentences only, in this order."""


@runtime_checkable
class Encoder(Protocol):
    """Reads a source. What a source is (tokens, a picture) is between it and its data."""

    def __call__(self, source: Any, *, need_weights: bool = False) -> Encoded: ...


@runtime_checkable
class Decoder(Protocol):
    """Writes a target, looking at memories.

    Reading a whole sequence and stepping through it give the same numbers. Nothing is remembered on
    the module: what the next step needs is in the State."""

    def __call__(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Read all of the inputs (the target shifted right by one START) at once."""

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        """Logits of the next token."""

    def start(self, memories: tuple[Memory, ...]) -> State:
        """The state before the first token, with one hypothesis a sentence. Keys are projected
        here, once."""

    def step(
        self, tokens: Int[Tensor, "batch hypothesis"], state: Any, *, need_weights: bool = False
    ) -> tuple[DecoderOutput, Any]:
        """Read one token for every hypothesis, going on from a State of this decoder's own `start`
        or `step`. In the output the target axis counts hypotheses."""


@runtime_checkable
class TrainedDecoder(Decoder, Protocol):
    """A decoder with weights, whose logits are a linear layer of its features: a loss can form them
    where it likes."""

    @property
    def projection(self) -> nn.Linear:
        """The last layer, from features to logits."""

    @property
    def num_memories(self) -> int:
        """How many memories it is given."""


@dataclass(frozen=True)
class HeadOutput:
    """Logits or values, with what each output looked at."""

    values: Float[Tensor, "batch *output"]
    attention: tuple[AttentionBlock, ...] = ()


@runtime_checkable
class Head(Protocol):
    """Answers all its queries at once: counts, labels, numbers. No targets, no steps."""

    def __call__(
        self, memories: tuple[Memory, ...], *, need_weights: bool = False
    ) -> HeadOutput: ...
