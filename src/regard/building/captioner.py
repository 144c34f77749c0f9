"""Models that write what a picture shows."""

from __future__ import annotations

from torch import nn

from regard.attention import AttentionFunction, HardAttention
from regard.building.attention import build_attention
from regard.building.transformer import build_decoder
from regard.config import CaptionerConfig, TransformerConfig
from regard.data.batch import PAD
from regard.errors import UserError
from regard.layers.convolution import ConvolutionStack
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.image import BackboneEncoder, ConvolutionEncoder, GridEncoder
from regard.models.memory import top_layer
from regard.models.penalties import AttentionPenalty, DoublyStochastic, HardReward
from regard.models.recurrent.attention import CrossAttention, DecoderAttention, GatedAttention
from regard.models.recurrent.bridge import LinearBridge
from regard.models.recurrent.decoders import BahdanauDecoder
from regard.models.recurrent.output import DeepOutput, Output, SummedOutput
from regard.models.recurrent.parts import DecoderParts
from regard.models.recurrent.queries import StateQuery
from regard.models.seq2seq import Seq2Seq
from regard.models.vision_backbone import Backbone


def build_captioner(
    config: CaptionerConfig, picture_size: int, num_target: int, backbone: Backbone | None = None
) -> Seq2Seq:
    """A model that looks at square pictures of so many dots a side, or at what a pretrained network
    makes of them, and writes words of a vocabulary of this size. UserError where parts do not
    fit."""
    size = config.size if config.decoder == "transformer" else config.channels[-1]
    encoder = _build_encoder(config, picture_size, size, backbone)
    if config.decoder == "transformer":
        embedding = nn.Embedding(num_target, size, padding_idx=PAD)
        decoder = build_decoder(_as_transformer(config), embedding, "image")
        return Seq2Seq(encoder, decoder, top_layer)
    return Seq2Seq(encoder, _build_decoder(config, size, num_target), top_layer, _penalties(config))


def _build_encoder(
    config: CaptionerConfig, picture_size: int, size: int, backbone: Backbone | None
) -> nn.Module:
    if backbone is None:
        stack = ConvolutionStack([*config.channels[:-1], size])
        side = picture_size // 2 ** len(config.channels)
        return ConvolutionEncoder(stack, side * side, dropout=config.dropout)
    num_cells, num_features = backbone.shape(picture_size)
    if config.backbone_learns:
        return BackboneEncoder(backbone, num_cells, num_features, size, dropout=config.dropout)
    return GridEncoder(num_cells, num_features, size, dropout=config.dropout)


def _build_decoder(config: CaptionerConfig, cell_size: int, num_target: int) -> BahdanauDecoder:
    """Show, attend and tell's: the state asks before every word."""
    look: DecoderAttention = CrossAttention(
        StateQuery(config.size), _build_attends(config, cell_size), "image"
    )
    if config.gate:
        look = GatedAttention(look, config.size)
    if config.output == "summed":
        output: Output = SummedOutput(config.size, cell_size, config.embedding)
    else:
        output = DeepOutput(config.size, cell_size, config.embedding, config.size)
    parts = DecoderParts(
        nn.Embedding(num_target, config.embedding, padding_idx=PAD),
        RecurrentStack("lstm", config.embedding + cell_size, config.size),
        LinearBridge(cell_size, 1, config.size, with_cell=True),
        output,
        dropout=config.dropout,
    )
    return BahdanauDecoder(parts, look)


def _build_attends(config: CaptionerConfig, cell_size: int) -> AttentionFunction:
    soft = build_attention(config.attention, config.size, cell_size)
    if config.looks == "soft":
        return soft
    if config.attention.normaliser != "softmax":
        raise UserError(
            "model.looks hard draws by softmax, but model.attention.normaliser is "
            f"{config.attention.normaliser}: change either"
        )
    return HardAttention(soft)


def _penalties(config: CaptionerConfig) -> list[AttentionPenalty]:
    if config.looks == "hard":
        return [HardReward(config.reward, config.entropy)]
    return [DoublyStochastic(config.doubly_stochastic)] if config.doubly_stochastic else []


def _as_transformer(config: CaptionerConfig) -> TransformerConfig:
    return TransformerConfig(
        size=config.size,
        layers=config.layers,
        heads=config.heads,
        feed_forward=config.feed_forward,
        dropout=config.dropout,
    )
