"""Decoders: one record for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from regard.config.attention import AttentionConfig, DecoderAttentionConfig
from regard.config.checks import (
    ContextWindow,
    Count,
    Layers,
    Length,
    Share,
    Size,
    SizeOrZero,
    changed,
    check_fields,
    check_heads,
    first_set,
)
from regard.errors import UserError
from regard.names import (
    Activation,
    BridgeKind,
    CellKind,
    FeedingKind,
    NormPlacement,
    OutputKind,
    PositionKind,
    QueryKind,
    Wiring,
)

__all__ = [
    "DecoderConfig",
    "RecurrentDecoderConfig",
    "TransformerDecoderConfig",
]

OF_ATTENTION = (
    "query",
    "key_layers",
    "value_layers",
    "context_window",
    "key_positions",
    "memory_vectors",
    "extra_vectors",
    "intra_attention",
    "gate",
)
"""Fields that a decoder without attention does not read."""


@dataclass(frozen=True)
class RecurrentDecoderConfig:
    """Recurrent layers that attend to the source (Bahdanau et al. 2015; Luong et al. 2015)."""

    kind: Literal["recurrent"] = "recurrent"
    """Kind of decoder."""
    wiring: Wiring = "luong"
    """Order of a step: attend with the previous state, then update it (bahdanau); update the
    state, then attend with it (luong); no attention (plain)."""
    cell: CellKind = "lstm"
    """Recurrent cell."""
    size: Size | None = None
    """Size of the states. Default: model.size."""
    embedding: Size | None = None
    """Size of the token embeddings. Default: the size of the states."""
    layers: Layers = 1
    """Number of layers."""
    bridge: BridgeKind = "linear"
    """First state: the encoder's last state (copy), a linear layer and tanh over it (linear), or
    zeros (zero). An encoder without a last state gives the mean of its states."""
    output: OutputKind = "tanh"
    """Layer before the logits: none (linear), Luong's tanh layer (tanh), Bahdanau's maxout layer
    (deep), or the sum of input, state and context (summed; Xu et al. 2015)."""
    feeding: FeedingKind = "none"
    """Vector that enters the next step with the wiring luong: none, the context, or the output of
    the layer before the logits (attentional)."""
    query: QueryKind = "state"
    """Attention query: the state of the last layer (state) or of the first (first_layer), the
    embedded input token (input), the last two states (last_two), the source state at the same
    position (same_position), or one learned vector (learned)."""
    key_layers: tuple[int, ...] = (-1,)
    """Encoder layers whose states are concatenated as attention keys: 0 is the embeddings, 1 the
    first layer, -1 the last."""
    value_layers: tuple[int, ...] = (-1,)
    """Encoder layers whose states are concatenated as attention values."""
    context_window: ContextWindow = 0
    """Neighbouring positions on each side that are concatenated to every key and value."""
    key_positions: bool = False
    """Add sinusoidal positions to the attention keys."""
    memory_vectors: SizeOrZero = 0
    """Number of learned vectors to attend to besides the source."""
    extra_vectors: Path | None = None
    """File of fixed vectors to attend to besides the source: .npy, or text with a vector on each
    line."""
    extra_vectors_shape: tuple[Count, Size] | None = None
    """Number and size of the extra vectors. Training sets it."""
    intra_attention: bool = False
    """Attend to the decoder's own states too, the present one included (Paulus et al. 2018: the
    earlier ones only)."""
    gate: bool = False
    """Multiply the context of the source by a number from 0 to 1, computed from the state (Xu et
    al. 2015)."""
    dropout: Share | None = None
    """Dropout of the embeddings, between layers and before the logits. Default: model.dropout."""
    attention: DecoderAttentionConfig = field(default_factory=DecoderAttentionConfig)

    max_sequence = None

    def __post_init__(self) -> None:
        check_fields("model.decoder", self)
        if self.feeding != "none" and self.wiring != "luong":
            raise UserError(
                f"model.decoder.feeding is {self.feeding}, but model.decoder.wiring is "
                f"{self.wiring}: only luong feeds a vector to the next step; set feeding to none"
            )
        if not self.attends:
            self._check_plain()
        else:
            self._check_attention()

    def _check_plain(self) -> None:
        """Raise a UserError if a decoder without attention has a field of attention."""
        names = changed(self, *OF_ATTENTION)
        attention = self.attention
        names += tuple(
            f"attention.{name}" for name in changed(attention, "sampling", "doubly_stochastic")
        )
        if names:
            raise UserError(
                f"model.decoder.{names[0]} is set, but model.decoder.wiring plain has no "
                "attention: set the wiring to bahdanau or luong, or leave the field out"
            )

    def _check_attention(self) -> None:
        """Raise a UserError for attention that needs another scope, score or normaliser."""
        place, attention = "model.decoder.attention", self.attention
        needs_all = attention.score if attention.score in ("coverage", "location") else ""
        if needs_all and attention.scope != "global":
            raise UserError(
                f"{place}.score is {needs_all}, but {place}.scope is {attention.scope}: expected "
                "the scope global, or another score"
            )
        if attention.sampling == "soft":
            return
        for name, value in (("score", needs_all), ("scope", attention.scope)):
            if value not in ("", "global"):
                raise UserError(
                    f"{place}.sampling is hard, but {place}.{name} is {value}: hard attention "
                    "samples by a score of the whole source; change either"
                )
        if attention.normaliser != "softmax":
            raise UserError(
                f"{place}.sampling is hard, but {place}.normaliser is {attention.normaliser}: "
                "hard attention samples by softmax; change either"
            )

    @property
    def attends(self) -> bool:
        """Whether the decoder attends to the source."""
        return self.wiring != "plain"

    def resolve(self, size: int, dropout: float) -> RecurrentDecoderConfig:
        """Set what is not set."""
        size = first_set(self.size, size)
        return replace(
            self,
            size=size,
            embedding=first_set(self.embedding, size),
            dropout=first_set(self.dropout, dropout),
            attention=self.attention.resolve(size) if self.attends else self.attention,
        )

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if not self.attends:
            if self.attention != DecoderAttentionConfig():
                yield "attention", "the wiring plain has no attention"
            return
        if self.layers == 1 and self.query == "first_layer":
            yield "query", "the decoder has one layer"
        yield from ((f"attention.{name}", reason) for name, reason in self.attention.unused)


@dataclass(frozen=True)
class TransformerDecoderConfig:
    """Layers of self-attention and cross-attention (Vaswani et al. 2017)."""

    kind: Literal["transformer"] = "transformer"
    """Kind of decoder."""
    size: Size | None = None
    """Size of the embeddings and of every layer's states. Default: model.size."""
    layers: Layers = 3
    """Number of layers. Fewer layers decode faster."""
    heads: Size = 4
    """Number of attention heads. They divide the size among them."""
    feed_forward: Size | None = None
    """Hidden units of the feed-forward networks. Default: four times the size."""
    activation: Activation = "relu"
    """Activation function of the feed-forward networks."""
    positions: PositionKind = "sinusoidal"
    """Positional encoding: sinusoidal or learned vectors added to the embeddings, or rotary
    (queries and keys are rotated)."""
    max_positions: Length = 512
    """Number of learned positions: the longest target, in tokens."""
    norm: NormPlacement = "pre"
    """Layer norm before each sublayer (pre, easier to train) or after its residual connection
    (post, as in the paper)."""
    dropout: Share | None = None
    """Dropout of the embeddings and of every sublayer's output. Default: model.dropout."""
    activation_dropout: Share = 0.0
    """Dropout of the hidden units of the feed-forward networks."""
    window: Size | None = None
    """Earlier positions that self-attention reaches. Default: all."""
    attention: AttentionConfig = field(default_factory=lambda: AttentionConfig(score="scaled_dot"))

    attends = True

    def __post_init__(self) -> None:
        check_fields("model.decoder", self)
        check_heads("model.decoder", self.size, self.heads, self.positions)

    def resolve(self, size: int, dropout: float) -> TransformerDecoderConfig:
        """Set what is not set."""
        size = first_set(self.size, size)
        resolved = replace(
            self,
            size=size,
            feed_forward=first_set(self.feed_forward, 4 * size),
            dropout=first_set(self.dropout, dropout),
        )
        return replace(resolved, attention=self.attention.resolve(size // self.heads))

    @property
    def max_sequence(self) -> int | None:
        """The longest target, in tokens. None if there is no limit."""
        return self.max_positions if self.positions == "learned" else None

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if self.positions != "learned" and changed(self, "max_positions"):
            yield "max_positions", f"{self.positions} positions have no limit"
        yield from ((f"attention.{name}", reason) for name, reason in self.attention.unused)


DecoderConfig = RecurrentDecoderConfig | TransformerDecoderConfig
