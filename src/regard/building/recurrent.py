"""Recurrent encoders and decoders."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.building.attention import build_attention, build_source_attention
from regard.building.embeddings import build_embeddings
from regard.config import RecurrentConfig
from regard.errors import UserError
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.memory import (
    BuildMemory,
    KeysAndValues,
    SelectedLayers,
    Selector,
    WithExtraVectors,
    WithNeighbours,
    WithPositions,
    top_layer,
)
from regard.models.recurrent import decoders
from regard.models.recurrent.attention import (
    CrossAttention,
    DecoderAttention,
    IntraDecoderAttention,
    ParallelAttention,
)
from regard.models.recurrent.bridge import Bridge, CopyBridge, LinearBridge, ZeroBridge
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.recurrent.feeding import AttentionalFeeding, ContextFeeding, Feeding, NoFeeding
from regard.models.recurrent.output import (
    DeepOutput,
    LinearOutput,
    Output,
    SummedOutput,
    TanhOutput,
)
from regard.models.recurrent.parts import DecoderParts
from regard.models.recurrent.queries import (
    InputQuery,
    LastTwoQuery,
    Query,
    SamePlaceQuery,
    StateQuery,
    StepQuery,
)
from regard.models.seq2seq import Seq2Seq


def build_recurrent(config: RecurrentConfig, num_source: int, num_target: int) -> Seq2Seq:
    """A recurrent encoder and decoder for vocabularies of these sizes."""
    source_embedding, target_embedding = build_embeddings(
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
    encoder = RecurrentEncoder(source_embedding, reader, dropout=config.dropout)
    sizes = _Sizes.of(config, reader.size)
    decoder = _build_recurrent_decoder(config, target_embedding, sizes)
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
    return Seq2Seq(encoder, decoder, _build_memory(config, sizes))


@dataclass(frozen=True)
class _Sizes:
    """Numbers in an encoder's state, in a key, a value, a context."""

    state: int
    key: int
    value: int
    context: int

    @classmethod
    def of(cls, config: RecurrentConfig, state: int) -> _Sizes:
        steps = 2 * config.neighbours + 1
        key, value = (
            steps * sum(config.embedding if layer == 0 else state for layer in picked)
            for picked in (config.keys, config.values)
        )
        context = 0 if config.wiring == "plain" else value
        if config.memory_vectors:
            context += value
        if config.external_shape is not None:
            context += config.external_shape[1]
        if config.looks_at_written:
            context += config.hidden
        return cls(state, key, value, context)


def _build_memory(config: RecurrentConfig, sizes: _Sizes) -> BuildMemory:
    """What is looked at: the highest layer, unless a recipe says more."""
    if config.keys == config.values == (-1,) and not (config.neighbours or config.key_positions):
        remember: BuildMemory = top_layer
    else:
        keys = _build_selector(config.keys, config.neighbours)
        values = _build_selector(config.values, config.neighbours)
        remember = KeysAndValues(WithPositions(keys) if config.key_positions else keys, values)
    if config.memory_vectors:
        vectors = torch.empty(config.memory_vectors, sizes.value).normal_(std=sizes.value**-0.5)
        remember = WithExtraVectors(remember, vectors, learned=True)
    if config.external_shape is not None:
        remember = WithExtraVectors(remember, torch.zeros(config.external_shape), learned=False)
    return remember


def _build_selector(layers: tuple[int, ...], reach: int) -> Selector:
    pick = SelectedLayers(*layers)
    return WithNeighbours(pick, reach) if reach else pick


def _build_attention(config: RecurrentConfig, sizes: _Sizes) -> DecoderAttention:
    """One look at the source, and one at each thing beside it."""
    query = _build_query(config, sizes)
    looks: list[DecoderAttention] = [
        CrossAttention(query, build_source_attention(config.attention, query.size, sizes.key))
    ]
    usual = replace(config.attention, scope="global")
    if config.attention.score in ("coverage", "location"):
        usual = replace(usual, score="additive")
    beside = [sizes.value] if config.memory_vectors else []
    beside += [config.external_shape[1]] if config.external_shape is not None else []
    for size in beside:
        asks = StateQuery(config.hidden)
        looks.append(CrossAttention(asks, build_attention(usual, config.hidden, size), "memory"))
    if config.looks_at_written:
        attends = build_attention(usual, config.hidden, config.hidden)
        looks.append(IntraDecoderAttention(attends, config.hidden))
    return looks[0] if len(looks) == 1 else ParallelAttention(looks)


def _build_query(config: RecurrentConfig, sizes: _Sizes) -> Query:
    match config.query:
        case "state":
            return StateQuery(config.hidden)
        case "first_layer":
            return StateQuery(config.hidden, layer=0)
        case "input":
            return InputQuery(config.embedding)
        case "last_two":
            return LastTwoQuery(config.hidden)
        case "same_place":
            return SamePlaceQuery(sizes.value)
        case "learned":
            return StepQuery(config.hidden)


def _build_recurrent_decoder(
    config: RecurrentConfig, embedding: nn.Embedding, sizes: _Sizes
) -> decoders.RecurrentDecoder:
    bridge = _build_bridge(config, sizes.state)
    output = _build_output(config, sizes.context)
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
        return decoders.PlainDecoder(parts(0))
    look = _build_attention(config, sizes)
    if config.wiring == "bahdanau":
        return decoders.BahdanauDecoder(parts(sizes.context), look)
    feeding = _build_feeding(config, sizes.context, output.feature_size)
    return decoders.LuongDecoder(parts(feeding.size), look, feeding)


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
        case "summed":
            return SummedOutput(config.hidden, context_size, config.embedding)


def _build_feeding(config: RecurrentConfig, context_size: int, feature_size: int) -> Feeding:
    match config.feeding:
        case "none":
            return NoFeeding()
        case "context":
            return ContextFeeding(context_size)
        case "attentional":
            return AttentionalFeeding(feature_size)
