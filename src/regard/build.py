"""From configuration to objects: one function a family, one match a choice, no registries."""

from __future__ import annotations

from torch import nn

from regard import attention
from regard.attention import Attention
from regard.config import AttentionConfig, ModelConfig, RecurrentConfig, TransformerConfig
from regard.data.batch import PAD
from regard.errors import UserError
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import Learned, Positions, Rotary, Sinusoidal
from regard.layers.recurrent import RecurrentStack
from regard.layers.residual import PostNorm, PreNorm, Residual
from regard.models import recurrent, transformer
from regard.models.bridge import Bridge, CopyBridge, LinearBridge, ZeroBridge
from regard.models.feeding import AttentionalFeeding, ContextFeeding, Feeding, NoFeeding
from regard.models.memory import top_layer
from regard.models.output import DeepOutput, LinearOutput, Output, TanhOutput
from regard.models.recurrent_parts import DecoderParts
from regard.models.seq2seq import Seq2Seq


def build_model(config: ModelConfig, num_source: int, num_target: int) -> Seq2Seq:
    """The model of a recipe for vocabularies of these sizes; UserError where parts do not fit."""
    match config:
        case RecurrentConfig():
            return build_recurrent(config, num_source, num_target)
        case TransformerConfig():
            return build_transformer(config, num_source, num_target)


def build_attention(config: AttentionConfig, query_size: int, key_size: int) -> Attention:
    """A score of these sizes with its normaliser."""
    match config.score:
        case "dot":
            score: attention.Score = attention.Dot()
        case "scaled_dot":
            score = attention.ScaledDot()
        case "general":
            score = attention.General(query_size, key_size)
        case "additive":
            score = attention.Additive(query_size, key_size, config.size)
        case "concat":
            score = attention.Concat(query_size, key_size, config.size)
        case "shared_additive":
            _need_equal(config.score, query_size, key_size)
            score = attention.SharedAdditive(key_size, config.size)
        case "cosine":
            score = attention.Cosine()
    if config.score in ("dot", "scaled_dot", "cosine"):
        _need_equal(config.score, query_size, key_size)
    return Attention(score, _build_normaliser(config), config.dropout)


def _build_normaliser(config: AttentionConfig) -> attention.Normaliser:
    match config.normaliser:
        case "softmax":
            return attention.Softmax(config.temperature)
        case "sparsemax":
            return attention.Sparsemax(config.temperature)
        case "entmax15":
            return attention.Entmax15(config.temperature)


def _need_equal(score: str, query_size: int, key_size: int) -> None:
    if query_size != key_size:
        raise UserError(
            f"model.attention.score {score} needs queries and keys of one size, but the decoder's "
            f"queries have {query_size} and the encoder's keys {key_size} numbers: choose general, "
            "additive or concat, or change model.hidden or model.bidirectional"
        )


def build_recurrent(config: RecurrentConfig, num_source: int, num_target: int) -> Seq2Seq:
    """A recurrent encoder and decoder for vocabularies of these sizes."""
    source_embedding, target_embedding = _build_embeddings(
        num_source, num_target, config.embedding, are_one=config.tied == "all"
    )
    reader = RecurrentStack(
        config.cell,
        config.embedding,
        config.encoder_hidden or config.hidden,
        config.layers,
        dropout=config.dropout,
        bidirectional=config.bidirectional,
    )
    encoder = recurrent.RecurrentEncoder(source_embedding, reader, dropout=config.dropout)
    decoder = _build_recurrent_decoder(config, target_embedding, reader.size)
    if config.tied != "none":
        feature_size = decoder.parts.output.feature_size
        if feature_size != config.embedding:
            raise UserError(
                f"model.tied {config.tied} needs output features as large as the embeddings, but "
                f"they have {feature_size} and {config.embedding} numbers: use "
                "model.output tanh or deep, with model.hidden equal to model.embedding"
            )
        # as an output, embeddings of size one would make logits of the size of their dimension
        nn.init.normal_(target_embedding.weight, std=config.embedding**-0.5)
        decoder.parts.projection.weight = target_embedding.weight
    return Seq2Seq(encoder, decoder, top_layer)


def _build_embeddings(
    num_source: int, num_target: int, size: int, *, are_one: bool
) -> tuple[nn.Embedding, nn.Embedding]:
    source = nn.Embedding(num_source, size, padding_idx=PAD)
    if not are_one:
        return source, nn.Embedding(num_target, size, padding_idx=PAD)
    if num_source != num_target:
        raise UserError(
            f"model.tied all needs one vocabulary for both sides, but the source has "
            f"{num_source} and the target {num_target} words: set data.shared-vocabulary"
        )
    return source, source


def _build_recurrent_decoder(
    config: RecurrentConfig, embedding: nn.Embedding, memory_size: int
) -> recurrent.RecurrentDecoder:
    bridge = _build_bridge(config, memory_size)
    output = _build_output(config, 0 if config.wiring == "plain" else memory_size)
    if config.feeding != "none" and config.wiring != "luong":
        raise UserError(
            f"model.feeding {config.feeding} is a choice of model.wiring luong, but the wiring is "
            f"{config.wiring}: set model.feeding none"
        )

    def parts(beside: int) -> DecoderParts:
        """With a stack that takes so many numbers beside the embedded token."""
        stack = RecurrentStack(
            config.cell,
            config.embedding + beside,
            config.hidden,
            config.layers,
            dropout=config.dropout,
        )
        return DecoderParts(embedding, stack, bridge, output, dropout=config.dropout)

    if config.wiring == "plain":
        return recurrent.PlainDecoder(parts(0))
    attends = build_attention(config.attention, config.hidden, memory_size)
    if config.wiring == "bahdanau":
        return recurrent.BahdanauDecoder(parts(memory_size), attends)
    feeding = _build_feeding(config, memory_size, output.feature_size)
    return recurrent.LuongDecoder(parts(feeding.size), attends, feeding)


def _build_bridge(config: RecurrentConfig, memory_size: int) -> Bridge:
    match config.bridge:
        case "copy":
            if memory_size != config.hidden:
                raise UserError(
                    f"model.bridge copy needs an encoder and a decoder of one size, but they have "
                    f"{memory_size} and {config.hidden} numbers: use model.bridge linear"
                )
            return CopyBridge()
        case "linear":
            return LinearBridge(
                config.layers * memory_size,
                config.layers,
                config.hidden,
                with_cell=config.cell == "lstm",
            )
        case "zero":
            return ZeroBridge(config.layers, config.hidden)


def _build_output(config: RecurrentConfig, context_size: int) -> Output:
    match config.output:
        case "linear":
            return LinearOutput(config.hidden, context_size)
        case "tanh":
            return TanhOutput(config.hidden, context_size, config.hidden)
        case "deep":
            return DeepOutput(config.hidden, context_size, config.embedding, config.hidden)


def _build_feeding(config: RecurrentConfig, context_size: int, feature_size: int) -> Feeding:
    match config.feeding:
        case "none":
            return NoFeeding()
        case "context":
            return ContextFeeding(context_size)
        case "attentional":
            return AttentionalFeeding(feature_size)


def build_transformer(config: TransformerConfig, num_source: int, num_target: int) -> Seq2Seq:
    """A Transformer for vocabularies of these sizes."""
    embeddings = _build_embeddings(
        num_source, num_target, config.size, are_one=config.tied == "all"
    )
    for embedding in embeddings:
        nn.init.normal_(embedding.weight, std=config.size**-0.5)
    reader, writer = (
        transformer.Embedder(embedding, _build_positions(config), config.dropout)
        for embedding in embeddings
    )
    encoder = transformer.TransformerEncoder(
        reader,
        [_build_encoder_layer(config) for _ in range(config.layers)],
        _build_last_norm(config),
    )
    decoder = transformer.TransformerDecoder(
        writer,
        [_build_decoder_layer(config) for _ in range(config.decoder_layers or config.layers)],
        _build_last_norm(config),
    )
    if config.tied != "none":
        decoder.projection.weight = embeddings[1].weight
    return Seq2Seq(encoder, decoder, top_layer)


def _build_encoder_layer(config: TransformerConfig) -> transformer.EncoderLayer:
    return transformer.EncoderLayer(
        _build_self_attention(config),
        _build_feed_forward(config),
        (_build_residual(config), _build_residual(config)),
    )


def _build_decoder_layer(config: TransformerConfig) -> transformer.DecoderLayer:
    size, part = config.size, config.size // config.heads
    attends = build_attention(config.attention, part, part)
    return transformer.DecoderLayer(
        _build_self_attention(config),
        attention.MultiHeadAttention(size, size, size, size, config.heads, attends),
        _build_feed_forward(config),
        (_build_residual(config), _build_residual(config), _build_residual(config)),
    )


def _build_self_attention(config: TransformerConfig) -> attention.MultiHeadSelfAttention:
    part = config.size // config.heads
    attends = build_attention(config.attention, part, part)
    return attention.MultiHeadSelfAttention(config.size, config.heads, attends)


def _build_feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        config.size, config.feed_forward, config.activation, dropout=config.activation_dropout
    )


def _build_residual(config: TransformerConfig) -> Residual:
    match config.norm:
        case "pre":
            return PreNorm(config.size, config.dropout)
        case "post":
            return PostNorm(config.size, config.dropout)


def _build_last_norm(config: TransformerConfig) -> nn.Module:
    """Where norms come before sublayers, nothing else would end the stack with one."""
    return nn.LayerNorm(config.size) if config.norm == "pre" else nn.Identity()


def _build_positions(config: TransformerConfig) -> Positions:
    match config.positions:
        case "sinusoidal":
            return Sinusoidal()
        case "learned":
            return Learned(config.longest, config.size)
        case "rotary":
            return Rotary()
