"""From configuration to objects: one function a family, one match a choice, no registries."""

from __future__ import annotations

from torch import nn

from regard import attention
from regard.attention import Attention
from regard.config import AttentionConfig, RecurrentConfig
from regard.data.batch import PAD
from regard.errors import UserError
from regard.layers.recurrent import RecurrentStack
from regard.models import recurrent
from regard.models.bridge import Bridge, CopyBridge, LinearBridge, ZeroBridge
from regard.models.feeding import AttentionalFeeding, ContextFeeding, Feeding, NoFeeding
from regard.models.memory import top_layer
from regard.models.output import DeepOutput, LinearOutput, Output, TanhOutput
from regard.models.seq2seq import Seq2Seq


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
    source_embedding = nn.Embedding(num_source, config.embedding, padding_idx=PAD)
    target_embedding = nn.Embedding(num_target, config.embedding, padding_idx=PAD)
    if config.tied == "all":
        if num_source != num_target:
            raise UserError(
                f"model.tied all needs one vocabulary for both sides, but the source has "
                f"{num_source} and the target {num_target} words: set data.shared-vocabulary"
            )
        target_embedding = source_embedding
    reader = RecurrentStack(
        config.cell,
        config.embedding,
        config.hidden,
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

    def parts(beside: int) -> recurrent.DecoderParts:
        """With a stack that takes so many numbers beside the embedded token."""
        stack = RecurrentStack(
            config.cell,
            config.embedding + beside,
            config.hidden,
            config.layers,
            dropout=config.dropout,
        )
        return recurrent.DecoderParts(embedding, stack, bridge, output, dropout=config.dropout)

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
