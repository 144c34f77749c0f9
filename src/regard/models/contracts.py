"""Protocols and records of every model. Read this first.

    source --Encoder--> Encoded --memory.py-------> Memory(keys, values, mask, summary)
                                                        |
                                  Decoder(queries) <----+----> Head(queries)
                                        |                          |
                            features, attention       predictions, attention

Models differ only in where queries, keys and values come from. Search, training and viewing use
these records and protocols, never a concrete class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F

from regard.names import AttentionKind
from regard.shapes import Bool, Float, Int, Tensor

AT_SOURCE: tuple[AttentionKind, ...] = ("cross", "image")
"""Kinds of attention from a target to its source."""


@dataclass(frozen=True)
class AttentionBlock:
    """Attention weights of one kind: `cross` (target to source), `encoder` and `decoder`
    (self-attention), `image` (target to grid cells), `memory` (target to vectors that belong to no
    source), `encoder_experts` and `decoder_experts` (gate values of the experts of each position of
    source or target, with one head). Layers and heads are separate axes."""

    kind: AttentionKind
    weights: Float[Tensor, "batch layer head target source"]
    scores: Float[Tensor, "batch layer head target source"] | None = None
    drawn: Int[Tensor, "batch layer head target"] | None = None
    """Source positions drawn by hard attention; -1 for an expected context."""


@dataclass(frozen=True)
class Summary:
    """The source as one vector a layer, from which recurrent decoders start.

    `cell` is set for encoders with cells (LSTM) only."""

    hidden: Float[Tensor, "batch layer hidden"]
    cell: Float[Tensor, "batch layer hidden"] | None = None


@dataclass(frozen=True)
class Encoded:
    """Output of an encoder. `layers` has the embeddings, then the states of each layer from the
    first to the last. The mask is True for real positions."""

    layers: tuple[Float[Tensor, "batch source _"], ...]
    mask: Bool[Tensor, "batch source"]
    summary: Summary | None = None
    attention: tuple[AttentionBlock, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    measures: tuple[Measure, ...] = ()
    unfolded: Memory | None = None
    """States of the last layer at more positions than the source has, for decoders that read one
    position at each step (ByteNet)."""


@dataclass(frozen=True)
class Memory:
    """Keys and values that a decoder or head attends to. The mask is True for positions that may be
    attended to. The summary is None for encoders without one."""

    keys: Float[Tensor, "batch source key"]
    values: Float[Tensor, "batch source value"]
    mask: Bool[Tensor, "batch source"]
    summary: Summary | None = None
    copies: Int[Tensor, "batch source"] | None = None
    """Number of each source piece in the target vocabulary, for decoders that copy; a piece that
    the vocabulary lacks has a number above it."""


@dataclass(frozen=True)
class Penalty:
    """Term that a model adds to its loss, and its name in the log. Terms of one name are logged as
    their sum."""

    name: str
    value: Float[Tensor, ""]
    is_mean: bool = False
    """Whether the value is a term of the mean loss of the batch. By default it is a term of the
    sum, which is divided by the batch's number of words or sentences."""


@dataclass(frozen=True)
class Measure:
    """Number that a model or an objective reports for a batch, for the log alone: no part of the
    loss. The log has its mean over batches, weighted by their numbers of words or sentences."""

    name: str
    value: Float[Tensor, ""]


@dataclass(frozen=True)
class DecoderOutput:
    """Output of a decoder for every target position or, in a step, for every hypothesis.

    `Decoder.project` computes logits from `features`. It is a separate call so that a loss computes
    logits only where there is a target. `attention` is empty unless `need_weights` was set."""

    features: Float[Tensor, "batch target feature"]
    attention: tuple[AttentionBlock, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    measures: tuple[Measure, ...] = ()
    copied: Float[Tensor, "batch target"] | None = None
    """Probability to copy a word of the source; None for decoders that do not copy."""


@runtime_checkable
class State(Protocol):
    """State of a decoder between two steps. Immutable.

    Tensors of hypotheses have axes batch and hypothesis. Tensors of the source (prepared keys and
    values) have one entry a sentence and are never copied for hypotheses."""

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> State:
        """Return the state of these hypotheses of each sentence. An index may repeat, and the
        number of hypotheses may change, so one hypothesis becomes a beam by the same call."""

    def keep(self, sentences: Int[Tensor, "kept"]) -> State:
        """Return the state of these sentences, in this order."""


@runtime_checkable
class Encoder(Protocol):
    """Encoder of a source. The type of the source (tokens, images) depends on the encoder."""

    def __call__(self, source: Any, *, need_weights: bool = False) -> Encoded: ...


@runtime_checkable
class Decoder(Protocol):
    """Decoder of a target with attention to memories.

    A call for all steps and calls of `step` give the same numbers. The module stores nothing
    between steps: the state holds all that the next step needs."""

    def __call__(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Compute all steps. `inputs` is the target shifted right by one START token."""

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        """Return the logits of the next token."""

    def start(self, memories: tuple[Memory, ...]) -> State:
        """Return the state before the first token, with one hypothesis a sentence. Keys are
        projected here, once."""

    def step(
        self, tokens: Int[Tensor, "batch hypothesis"], state: Any, *, need_weights: bool = False
    ) -> tuple[DecoderOutput, Any]:
        """Compute one step for one token of every hypothesis, from a state that `start` or `step`
        of this decoder returned. In the output the target axis counts hypotheses."""


@runtime_checkable
class TrainedDecoder(Decoder, Protocol):
    """Decoder whose logits are a linear layer of its features, so that a loss can compute them
    itself."""

    @property
    def projection(self) -> nn.Linear:
        """The last layer, from features to logits."""

    @property
    def num_memories(self) -> int:
        """Number of memories that it takes."""


@dataclass(frozen=True)
class Copying:
    """Copied part of a pointer-generator's output, for every target position: the logit of the
    probability to generate, and the distribution over the source positions with their numbers.
    Weights are zero without attention to any position."""

    gate: Float[Tensor, "*target"]
    weights: Float[Tensor, "*target source"]
    numbers: Int[Tensor, "*target source"]

    @property
    def log_generate(self) -> Float[Tensor, "*target"]:
        """Log probability to generate; 0 without attention to any position."""
        return torch.where(self.weights.sum(dim=-1) > 0, F.logsigmoid(self.gate), 0)

    @property
    def log_copy(self) -> Float[Tensor, "*target"]:
        """Log probability to copy."""
        return F.logsigmoid(-self.gate)

    @property
    def probability(self) -> Float[Tensor, "*target"]:
        """Probability to copy; 0 without attention to any position."""
        return torch.where(self.weights.sum(dim=-1) > 0, torch.sigmoid(-self.gate), 0)


@runtime_checkable
class CopyingDecoder(TrainedDecoder, Protocol):
    """Decoder that also copies words of the source. Its vocabulary is extended by one number for
    each source position."""

    def compute_parts(
        self, inputs: Int[Tensor, "batch target"], memories: tuple[Memory, ...]
    ) -> tuple[DecoderOutput, Copying]:
        """Compute the generator's features, with attention, and the copied part."""


@dataclass(frozen=True)
class HeadOutput:
    """Logits of classes, or predicted numbers, with the attention of each output."""

    predictions: Float[Tensor, "batch *output"]
    attention: tuple[AttentionBlock, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    measures: tuple[Measure, ...] = ()


@runtime_checkable
class Head(Protocol):
    """Head that computes all outputs in one call: counts, labels or numbers, without steps."""

    def __call__(
        self, memories: tuple[Memory, ...], *, need_weights: bool = False
    ) -> HeadOutput: ...
