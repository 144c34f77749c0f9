"""What models are made of: a record for each family."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from regard.config.checks import (
    Count,
    Layers,
    Length,
    Neighbours,
    Positive,
    Share,
    Size,
    SizeOrZero,
    Weight,
    changed,
    check_fields,
)
from regard.errors import UserError

ScoreName = Literal[
    "dot",
    "scaled_dot",
    "general",
    "additive",
    "concat",
    "shared_additive",
    "cosine",
    "coverage",
    "location",
]
SIZED = ("additive", "concat", "shared_additive", "coverage", "location")
"""Scores with units of their own."""


@dataclass(frozen=True)
class AttentionConfig:
    """How a question is scored against keys and how scores become weights."""

    score: ScoreName = "additive"
    """dot, scaled_dot, general (q W k), additive (Bahdanau), concat (Luong), shared_additive
    (one matrix for query plus key), cosine; and, for recurrent decoders, additive with what was
    taken of each key so far (coverage, Tu et al.) or with where attention was (location, Chorowski
    et al.)."""
    size: Size = 256
    """Units of the additive, concat and shared scores."""
    scope: Literal["global", "local_m", "local_p"] = "global"
    """What a recurrent decoder sees of the source: all, a window that goes along with the target,
    or one that the query places (Luong et al. 2015)."""
    window: Size = 10
    """How far a window reaches to each side."""
    normaliser: Literal["softmax", "sparsemax", "entmax15"] = "softmax"
    """How scores become weights."""
    temperature: Positive = 1.0
    """Scores are divided by this before they are normalised."""
    dropout: Share = 0.0
    """Share of the weights dropped in training."""

    def __post_init__(self) -> None:
        check_fields("model.attention", self)

    def unused(self, usual: AttentionConfig) -> tuple[str, ...]:
        """Fields that differ from the usual ones, although the score or the scope does not read
        them."""
        idle: tuple[str, ...] = () if self.scope != "global" else ("window",)
        if self.score not in SIZED and self.scope != "local_p":
            idle += ("size",)
        differ = (name for name in idle if getattr(self, name) != getattr(usual, name))
        return tuple(f"attention.{name}" for name in differ)


@dataclass(frozen=True)
class RecurrentConfig:
    """A recurrent encoder and a recurrent decoder."""

    family: Literal["recurrent"] = "recurrent"
    """Which models the fields below are of."""
    wiring: Literal["bahdanau", "luong", "plain"] = "luong"
    """Who asks: the previous state (bahdanau), the new state (luong), nobody (plain)."""
    cell: Literal["elman", "gru", "lstm"] = "lstm"
    """The recurrent cell."""
    hidden: Size = 256
    """Size of the decoder's states, and of the encoder's in each direction."""
    encoder_hidden: Size | None = None
    """Size of the encoder's states in each direction, where it is another."""
    embedding: Size = 256
    """Size of the embeddings."""
    layers: Layers = 1
    """Layers of the encoder and of the decoder."""
    bidirectional: bool = False
    """Read the source in both directions."""
    bridge: Literal["copy", "linear", "zero"] = "linear"
    """From the encoder's last states to the decoder's first: as they are, through a linear layer
    and tanh, or not at all."""
    output: Literal["linear", "tanh", "deep", "summed"] = "tanh"
    """Before the logits: nothing, Luong's tanh layer, Bahdanau's maxout layer, or the sum of input,
    state and context as captioning has it."""
    feeding: Literal["none", "context", "attentional"] = "none"
    """What of a step enters the next (luong only)."""
    query: Literal["state", "first_layer", "input", "last_two", "same_place", "learned"] = "state"
    """What asks: the highest layer's state, the lowest one's, the token that is read, the state
    beside the one before it, the source at the place where the target is, or one learned
    question."""
    keys: tuple[int, ...] = (-1,)
    """What is asked: these layers of the encoder side by side. 0 is its embeddings, 1 the lowest
    layer, -1 the highest."""
    values: tuple[int, ...] = (-1,)
    """What is mixed by the answers: layers too."""
    neighbours: Neighbours = 0
    """Every key and value has so many time steps to each side beside it."""
    key_positions: bool = False
    """Add waves to the keys that tell where each stands (Vaswani et al. 2017, section 3.5)."""
    memory_vectors: SizeOrZero = 0
    """So many learned vectors can be looked at beside the source."""
    external: Path | None = None
    """Vectors of a file can be looked at beside the source: .npy, or text with a row on a line."""
    external_shape: tuple[Count, Size] | None = None
    """How many they are, and of how many numbers; training sets it."""
    looks_at_written: bool = False
    """Look at the decoder's own earlier states too."""
    dropout: Share = 0.0
    """Dropout of embeddings, between layers and before the logits."""
    tied: Literal["none", "output", "all"] = "none"
    """Share the target embeddings with the output, or source, target and output (which needs a
    shared vocabulary)."""
    vectors: Path | None = None
    """Fixed embeddings: a text file with a token and its numbers on each line."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)

    def __post_init__(self) -> None:
        check_fields("model", self)
        self._check_picked()
        self._check_plain()

    def _check_picked(self) -> None:
        """UserError for a layer that is none of the encoder's."""
        for name in ("keys", "values"):
            picked = getattr(self, name)
            if not picked or not all(-1 <= layer <= self.layers for layer in picked):
                raise UserError(
                    f"model.{name} is {picked}, but model.layers is {self.layers}: expected layers "
                    f"from 0 (embeddings) to {self.layers}, or -1 (the highest)"
                )

    def _check_plain(self) -> None:
        """UserError where a model that looks at nothing is told how to look."""
        told = ("query", "keys", "values", "neighbours", "key_positions", "memory_vectors")
        found = changed(self, *told, "external", "looks_at_written")
        if found and not self.attends:
            raise UserError(
                f"model.{found[0]} is {getattr(self, found[0])}, but model.wiring plain looks at "
                "nothing: take bahdanau or luong, or leave it out"
            )

    @property
    def attends(self) -> bool:
        """Whether outputs look at the source."""
        return self.wiring != "plain"

    @property
    def unused(self) -> tuple[str, ...]:
        """Fields that were set, although what was chosen beside them makes no use of them."""
        if not self.attends:
            return changed(self, "attention")
        idle = () if self.layers > 1 or self.query != "first_layer" else ("query",)
        return (*idle, *self.attention.unused(AttentionConfig()))

    @property
    def longest_sequence(self) -> int | None:
        """The most tokens of a source or a target, where a model can read but so many."""
        return None


@dataclass(frozen=True)
class TransformerConfig:
    """Encoder and decoder of attention alone (Vaswani et al. 2017)."""

    family: Literal["transformer"] = "transformer"
    """Which models the fields below are of."""
    size: Size = 256
    """Numbers in an embedding and in every layer's states."""
    layers: Layers = 3
    """Layers of the encoder, and of the decoder too unless `decoder_layers` says otherwise."""
    decoder_layers: Layers | None = None
    """The decoder's layers, where they are not as many: fewer of them write faster."""
    heads: Size = 4
    """Attentions beside each other, each on its share of the size."""
    feed_forward: Size = 1024
    """Units of the network after attention."""
    activation: Literal["relu", "gelu"] = "relu"
    """Of these units."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """Waves (the paper's) or learned vectors, added to embeddings, or queries and keys turned."""
    longest: Length = 512
    """The longest sequence, in tokens, where positions are learned."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sublayer, which is easier to train, or after its sum (the paper's)."""
    dropout: Share = 0.1
    """Dropout of the embedded input and of every sublayer's output."""
    activation_dropout: Share = 0.0
    """Dropout of the units of the feed-forward network."""
    tied: Literal["none", "output", "all"] = "none"
    """Share the target embeddings with the output, or source, target and output (which needs a
    shared vocabulary)."""
    window: Size | None = None
    """How many positions to each side self-attention sees, of the target those before; without it
    all."""
    vectors: Path | None = None
    """Fixed embeddings: a text file with a token and its numbers on each line."""
    attention: AttentionConfig = field(
        default_factory=lambda: AttentionConfig(score="scaled_dot", size=64)
    )

    def __post_init__(self) -> None:
        check_fields("model", self)
        if self.size % self.heads:
            raise UserError(
                f"model.heads is {self.heads}: expected a number that divides model.size, which is "
                f"{self.size}"
            )
        if self.positions == "rotary" and self.size // self.heads % 2:
            raise UserError(
                f"model.positions rotary turns pairs of numbers, but each of the {self.heads} "
                f"heads has {self.size // self.heads}: change model.heads or model.size"
            )

    @property
    def attends(self) -> bool:
        """Whether outputs look at the source."""
        return True

    @property
    def unused(self) -> tuple[str, ...]:
        """Fields that were set, although what was chosen beside them makes no use of them."""
        idle = () if self.positions == "learned" else ("longest",)
        return (*changed(self, *idle), *self.attention.unused(TransformerConfig().attention))

    @property
    def longest_sequence(self) -> int | None:
        """The most tokens of a source or a target, where a model can read but so many."""
        return self.longest if self.positions == "learned" else None


@dataclass(frozen=True)
class ClassifierConfig:
    """One answer for a whole source: an encoder, a pool that makes one vector of it, a layer."""

    family: Literal["classifier"] = "classifier"
    """Which models the fields below are of."""
    encoder: Literal["recurrent", "transformer", "embedding"] = "recurrent"
    """Who reads: recurrent layers, a Transformer's, or nobody (a bag of words, or items)."""
    pool: Literal["attention", "last", "mean"] = "attention"
    """How one vector is made: by attention, of the last state alone, of all positions alike."""
    query: Literal["learned", "last"] = "learned"
    """Who asks: one learned question for all sources, or the last state."""
    output: Literal["linear", "none"] = "linear"
    """From the vector to the answer: a linear layer, or the vector is the answer."""
    embedding: Size = 128
    """Size of the embeddings, and of a Transformer's states."""
    cell: Literal["elman", "gru", "lstm"] = "lstm"
    """The recurrent cell."""
    hidden: Size = 128
    """Size of the recurrent states, in each direction."""
    layers: Layers = 1
    """Layers of the encoder."""
    bidirectional: bool = True
    """Read the source in both directions (recurrent only)."""
    heads: Size = 4
    """Attentions beside each other (transformer only)."""
    feed_forward: Size = 512
    """Units of the network after attention (transformer only)."""
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    """How a Transformer knows the order of a source."""
    longest: Length = 512
    """The longest source, in tokens, where positions are learned."""
    window: Size | None = None
    """How many positions to each side a Transformer's self-attention sees; without it all."""
    dropout: Share = 0.3
    """Dropout of embeddings, inside the encoder and of the pooled vector."""
    vectors: Path | None = None
    """Embeddings to begin with: a GloVe or word2vec text file. Words that it has not keep their
    own; `training.freeze encoder.embedding` keeps all as they are."""
    attention: AttentionConfig = field(default_factory=lambda: AttentionConfig(size=128))

    def __post_init__(self) -> None:
        check_fields("model", self)
        if self.encoder == "transformer" and self.embedding % self.heads:
            raise UserError(
                f"model.heads is {self.heads}: expected a number that divides model.embedding, "
                f"which is {self.embedding}"
            )

    @property
    def attends(self) -> bool:
        """Whether answers look at the source."""
        return self.pool == "attention"

    @property
    def unused(self) -> tuple[str, ...]:
        """Fields that were set, although what was chosen beside them makes no use of them."""
        of_transformers = ("heads", "feed_forward", "positions", "longest", "window")
        of_recurrent = ("cell", "hidden", "bidirectional")
        match self.encoder:
            case "recurrent":
                idle: tuple[str, ...] = of_transformers
            case "transformer":
                idle = of_recurrent
                if self.positions != "learned":
                    idle += ("longest",)
            case "embedding":
                idle = (*of_recurrent, *of_transformers, "layers")
        if not self.attends:
            return changed(self, *idle, "query", "attention")
        return (*changed(self, *idle), *self.attention.unused(ClassifierConfig().attention))

    @property
    def longest_sequence(self) -> int | None:
        """The most tokens of a source, where a model can read but so many."""
        learned = self.encoder == "transformer" and self.positions == "learned"
        return self.longest if learned else None


@dataclass(frozen=True)
class CaptionerConfig:
    """Writes captions: cells of a picture, and a decoder that looks at them (Xu et al. 2015)."""

    family: Literal["captioner"] = "captioner"
    """Which models the fields below are of."""
    channels: tuple[Size, ...] = (32, 64, 128)
    """Of each convolutional block; every block halves the picture's sides. The last is the size of
    a cell."""
    backbone: str | None = None
    """A pretrained network in the place of the convolution (extra `vision`): a folder that
    `transformers` wrote, or a name on Hugging Face's hub."""
    backbone_learns: bool = False
    """Train it along; else its cells are made once and kept on disk."""
    decoder: Literal["recurrent", "transformer"] = "recurrent"
    """Who writes: an LSTM that asks before each word, or a Transformer's decoder."""
    size: Size = 256
    """Numbers in a state, and in a Transformer's layers."""
    embedding: Size = 128
    """Size of the words' embeddings (recurrent)."""
    looks: Literal["soft", "hard"] = "soft"
    """The mean of all cells by their weights, or one cell that is drawn (recurrent)."""
    gate: bool = True
    """Multiply the context by a number that the state says (recurrent)."""
    output: Literal["summed", "deep"] = "summed"
    """Before the logits: the sum of the token read, state and context, as the paper has it, or
    Bahdanau's maxout layer of them (recurrent)."""
    doubly_stochastic: Weight = 1.0
    """Weight of the penalty for cells that are not looked at about once; 0 is none (soft)."""
    reward: Weight = 0.005
    """Weight of the reward that attention learns by (hard). With more its noise drowns what the
    words teach."""
    entropy: Weight = 0.002
    """Weight of the entropy that keeps attention from settling too soon (hard)."""
    layers: Layers = 2
    """Layers (transformer)."""
    heads: Size = 4
    """Attentions beside each other (transformer)."""
    feed_forward: Size = 512
    """Units of the network after attention (transformer)."""
    dropout: Share = 0.1
    """Dropout of cells, embeddings and before the logits."""
    attention: AttentionConfig = field(default_factory=lambda: AttentionConfig(size=128))

    def __post_init__(self) -> None:
        check_fields("model", self)
        if not self.channels:
            raise UserError(f"model.channels is {self.channels}: expected one number or more")
        if self.looks == "hard" and self.decoder != "recurrent":
            raise UserError(
                "model.looks hard draws one cell for a recurrent decoder, but model.decoder is "
                f"{self.decoder}: change either"
            )

    @property
    def attends(self) -> bool:
        """Whether captions look at the picture."""
        return True

    @property
    def unused(self) -> tuple[str, ...]:
        """Fields that were set, although what was chosen beside them makes no use of them."""
        idle: tuple[str, ...] = ("layers", "heads", "feed_forward")
        if self.decoder == "transformer":
            idle = ("embedding", "gate", "output", "doubly_stochastic")
            idle += ("reward", "entropy", "attention", *(("channels",) if self.backbone else ()))
        elif self.looks == "soft":
            idle += ("reward", "entropy")
        else:
            idle += ("doubly_stochastic",)
        names = changed(self, *idle, *(() if self.backbone else ("backbone_learns",)))
        if self.decoder == "transformer":
            return names
        return (*names, *self.attention.unused(CaptionerConfig().attention))

    @property
    def longest_sequence(self) -> int | None:
        """There is no longest caption."""
        return None


WriterConfig = RecurrentConfig | TransformerConfig
"""Models that write texts."""
ModelConfig = RecurrentConfig | TransformerConfig | ClassifierConfig | CaptionerConfig
FAMILIES: dict[str, type[ModelConfig]] = {each.family: each for each in get_args(ModelConfig)}
"""The model section that each family has; its defaults are where a recipe says nothing."""
