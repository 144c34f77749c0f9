"""Decoders: one record for each kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Literal

from regard.config.checks import (
    ContextWindow,
    Count,
    Dropout,
    Layers,
    Size,
    SizeOrZero,
    changed_fields,
    inherit,
    option_of,
    require_resolved,
)
from regard.config.parts.attention import DecoderAttentionConfig
from regard.config.parts.convolution import (
    DilatedConvolutionDecoderConfig,
    GatedConvolutionDecoderConfig,
)
from regard.config.parts.experts import ExpertsConfig, check_between_layers
from regard.config.parts.part import DecoderPart
from regard.config.parts.transformer import TransformerDecoderConfig
from regard.errors import UserError
from regard.names import (
    BridgeKind,
    CellKind,
    ConnectionKind,
    FeedingKind,
    OutputKind,
    QueryKind,
    Wiring,
)

__all__ = [
    "DecoderConfig",
    "RecurrentDecoderConfig",
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
class RecurrentDecoderConfig(DecoderPart):
    """Recurrent layers that attend to the source (Bahdanau et al. 2015; Luong et al. 2015)."""

    kind: Literal["recurrent"] = "recurrent"
    """Kind of decoder."""
    wiring: Wiring = "luong"
    """Order of a step: attend with the previous state, then update it (bahdanau); update the
    state, then attend with it (luong); as bahdanau, with the context as an input of every layer
    (gnmt; Wu et al. 2016); no attention (plain)."""
    cell: CellKind = "lstm"
    """Recurrent cell."""
    size: Size | None = None
    """Size of the states. Default: model.size."""
    embedding: Size | None = None
    """Size of the token embeddings. Default: the size of the states."""
    layers: Layers = 1
    """Number of layers."""
    connections: ConnectionKind = "none"
    """Skip connections of the layers: none, residual from the third layer on (Wu et al. 2016), or
    fast_forward from gates to gates (Zhou et al. 2016)."""
    bridge: BridgeKind = "linear"
    """First state: the encoder's last state (copy), a linear layer and tanh over it (linear), or
    zeros (zero). An encoder without a last state gives the mean of its states."""
    output: OutputKind = "tanh"
    """Layer before the logits: none, over state and context (linear) or over the state alone
    (state); Luong's tanh layer (tanh), Bahdanau's maxout layer (deep), or the sum of input, state
    and context (summed; Xu et al. 2015)."""
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
    dropout: Dropout | None = None
    """Dropout of the embeddings, between layers and before the logits. Default: model.dropout."""
    attention: DecoderAttentionConfig = field(default_factory=DecoderAttentionConfig)
    experts: ExpertsConfig = field(default_factory=ExpertsConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_between_layers("model.decoder", self.experts, self.layers, self.connections)
        if self.feeding != "none" and self.wiring != "luong":
            raise UserError(
                f"model.decoder.feeding is {self.feeding}, but model.decoder.wiring is "
                f"{self.wiring}: only luong feeds a vector to the next step; set feeding to none"
            )
        if self.output == "state" and self.wiring == "luong":
            raise UserError(
                "model.decoder.output is state, but model.decoder.wiring is luong, whose state has "
                "no part of the present context: set output to tanh, or the wiring to bahdanau or "
                "gnmt"
            )
        if not self.attends:
            self._check_plain()
        else:
            self._check_attention()

    def _check_plain(self) -> None:
        """Raise a UserError if a decoder without attention has fields of attention."""
        names = [
            *changed_fields(self, *OF_ATTENTION),
            *(
                f"attention.{name}"
                for name in changed_fields(self.attention, "sampling", "doubly_stochastic")
            ),
        ]
        if names:
            place, default = "model.decoder", RecurrentDecoderConfig()
            fields = " and ".join(f"{place}.{name}" for name in names)
            usual = (option_of(f"{place}.{name}", attrgetter(name)(default)) for name in names)
            raise UserError(
                f"{fields} {'is' if len(names) == 1 else 'are'} set, but {place}.wiring plain has "
                "no attention: set the wiring to bahdanau, luong or gnmt, or unset the "
                f"{'field' if len(names) == 1 else 'fields'}: {' '.join(usual)}"
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
        sampling = attention.sampling
        if sampling == "soft":
            return
        for name, value in (("score", needs_all), ("scope", attention.scope)):
            if value not in ("", "global"):
                raise UserError(
                    f"{place}.sampling is {sampling}, but {place}.{name} is {value}: attention to "
                    "one position needs a score of the whole source; change either"
                )
        if attention.normaliser != "softmax":
            raise UserError(
                f"{place}.sampling is {sampling}, but {place}.normaliser is "
                f"{attention.normaliser}: attention to one position needs softmax; change either"
            )

    @property
    def attends(self) -> bool:
        """Whether the decoder attends to the source."""
        return self.wiring != "plain"

    def resolve(self, size: int, dropout: float) -> RecurrentDecoderConfig:
        """Return the record with inherited fields set."""
        part = inherit(self, size=size, dropout=dropout)
        part = inherit(part, embedding=part.size)
        part = replace(part, experts=part.experts.resolve(4 * require_resolved(part.size)))
        if not part.attends:
            return part
        return replace(part, attention=part.attention.resolve(require_resolved(part.size)))

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        if self.connections == "fast_forward" and self.layers == 1:
            yield "connections", "the decoder has one layer"
        if self.connections == "residual" and self.layers < 3 and not self.experts.number:
            yield "connections", "residual connections begin with the third layer"
        yield from ((f"experts.{name}", reason) for name, reason in self.experts.unused)
        if not self.attends:
            if self.attention != DecoderAttentionConfig():
                yield "attention", "the wiring plain has no attention"
            return
        if self.layers == 1 and self.query == "first_layer":
            yield "query", "the decoder has one layer"
        yield from ((f"attention.{name}", reason) for name, reason in self.attention.unused)


DecoderConfig = (
    RecurrentDecoderConfig
    | TransformerDecoderConfig
    | GatedConvolutionDecoderConfig
    | DilatedConvolutionDecoderConfig
)
