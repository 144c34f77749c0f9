"""Export of Transformers to CTranslate2: equal weights under the names of that engine.

CTranslate2 scales queries by one number, adds a table of positions or rotates queries and keys, and
stores queries, keys and values of self-attention in one matrix, as Regard does. It can express
every score that is a dot product, and no other score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec
from torch import nn

from regard.attention import Attention, FullSpan, General
from regard.attention.multihead import Heads
from regard.compiled.attention.dot.choose import dot_scale
from regard.data.special_tokens import END, PAD, SPECIAL, START, UNKNOWN
from regard.errors import UserError
from regard.exporting.parts import check_no_experts, name_of
from regard.layers.positions import Learned, Positions, Rotary
from regard.layers.residual import PreNorm, Residual
from regard.models.memory import top_layer
from regard.models.recurrent.decoders import RecurrentDecoder
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.seq2seq import Seq2Seq
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.shapes import Float, Tensor

LONGEST = 2048
"""Number of exported positions, if a formula defines them."""
ACTIVATIONS = {"relu": Activation.RELU, "gelu": Activation.GELU}


@dataclass(frozen=True)
class Vocabularies:
    """Pieces of both sides in the order of their numbers, and whether sources end with END."""

    source: Sequence[str]
    target: Sequence[str]
    ends_sources: bool


def save_transformer(model: Seq2Seq, vocabularies: Vocabularies, folder: Path) -> None:
    """Write a model for `ctranslate2.Translator`. UserError naming a part that CTranslate2
    lacks."""
    spec = transformer_spec(model, vocabularies)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def transformer_spec(model: Seq2Seq, vocabularies: Vocabularies) -> TransformerSpec:
    """Return the model with CTranslate2's names. UserError naming a part that CTranslate2 lacks."""
    check_no_experts(model, "ctranslate2")
    encoder, decoder = model.encoder, model.decoder
    if not isinstance(encoder, TransformerEncoder) or not isinstance(decoder, TransformerDecoder):
        raise UserError(
            "--to ctranslate2 writes a Transformer encoder with a Transformer decoder, but this "
            f"model has {type(encoder).__name__} and {type(decoder).__name__}: {_remedy(model)}"
        )
    if model.build_memory is not top_layer:
        raise UserError(
            "the decoder attention to encoder layers below the top layer, which --to ctranslate2 "
            "cannot express: train with the top layer"
        )
    if not isinstance(encoder.span, FullSpan) or not isinstance(decoder.span, FullSpan):
        raise UserError(
            "self-attention has a window (model.encoder.window or model.decoder.window), which "
            "--to ctranslate2 cannot express: train without it"
        )
    if any(
        isinstance(part.embedder.positions, Rotary)
        and isinstance(layer.self_attention.heads.attention.score, General)
        for part in (encoder, decoder)
        for layer in part.layers
    ):
        raise UserError(
            "keys are projected after rotation (attention.score general with positions rotary), "
            "but --to ctranslate2 rotates them last: train with another score or other positions"
        )
    spec = TransformerSpec(_encoder(encoder), _decoder(decoder))
    spec.register_source_vocabulary(list(vocabularies.source))
    spec.register_target_vocabulary(list(vocabularies.target))
    # Without <unk> no piece is unknown, so any special token can take its place.
    known = SPECIAL[UNKNOWN] in vocabularies.source
    spec.config.unk_token = SPECIAL[UNKNOWN] if known else SPECIAL[PAD]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL[START]
    spec.config.eos_token = SPECIAL[END]
    spec.config.add_source_eos = vocabularies.ends_sources
    spec.config.layer_norm_epsilon = encoder.layers[0].self_residual.norm.eps
    return spec


def _remedy(model: Seq2Seq) -> str:
    """Name the export format that supports this model, if any."""
    if isinstance(model.encoder, RecurrentEncoder) and isinstance(model.decoder, RecurrentDecoder):
        return "use --to onnx"
    return "no export format supports this combination; use `regard translate`"


def _encoder(encoder: TransformerEncoder) -> TransformerEncoderSpec:
    layers = encoder.layers
    spec = TransformerEncoderSpec(
        len(layers),
        layers[0].self_attention.heads.num_heads,
        **_common(layers[0].self_residual, layers[0].feed_forward, encoder.embedder.positions),
    )
    _positions(spec, encoder.embedder.positions, encoder.embedder.embedding.weight.size(1))
    spec.embeddings[0].weight = _array(encoder.embedder.embedding.weight)
    for target, layer in zip(spec.layer, layers, strict=True):
        _self_attention(target.self_attention, layer.self_attention, layer.self_residual)
        _feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_residual)
    _last_norm(spec, encoder.norm)
    return spec


def _decoder(decoder: TransformerDecoder) -> TransformerDecoderSpec:
    layers = decoder.layers
    spec = TransformerDecoderSpec(
        len(layers),
        layers[0].self_attention.heads.num_heads,
        **_common(layers[0].self_residual, layers[0].feed_forward, decoder.embedder.positions),
    )
    _positions(spec, decoder.embedder.positions, decoder.embedder.embedding.weight.size(1))
    spec.embeddings.weight = _array(decoder.embedder.embedding.weight)
    for target, layer in zip(spec.layer, layers, strict=True):
        _self_attention(target.self_attention, layer.self_attention, layer.self_residual)
        _cross_attention(target.attention, layer.cross_attention, layer.cross_residual)
        _feed_forward(target.ffn, layer.feed_forward, layer.feed_forward_residual)
    _last_norm(spec, decoder.norm)
    _linear(spec.projection, decoder.projection)
    return spec


def _common(residual: Residual, network: Any, positions: Positions) -> dict[str, Any]:
    rotary = {"rotary_dim": 0, "rotary_interleave": True} if isinstance(positions, Rotary) else {}
    return {
        "pre_norm": isinstance(residual, PreNorm),
        "activation": ACTIVATIONS[network.activation],
        **rotary,
    }


def _positions(spec: Any, positions: Positions, size: int) -> None:
    """Export the positions that are added to embeddings, as a table."""
    if isinstance(positions, Rotary):
        return
    longest = len(positions.table) if isinstance(positions, Learned) else LONGEST
    with torch.no_grad():
        table = positions.add(torch.zeros(1, longest, size), range(longest))
    spec.position_encodings.encodings = _array(table[0])


def _self_attention(spec: Any, module: Any, residual: Residual) -> None:
    weight, bias = module.projection.weight, module.projection.bias
    queries, (key, key_bias), values = zip(weight.chunk(3), bias.chunk(3), strict=True)
    keys = _keys(module.heads, key, key_bias)
    joined = [torch.cat(parts) for parts in zip(queries, keys, values, strict=True)]
    spec.linear[0].weight, spec.linear[0].bias = map(_array, joined)
    _linear(spec.linear[1], module.heads.output)
    _scale_and_norm(spec, module.heads, residual)


def _cross_attention(spec: Any, module: Any, residual: Residual) -> None:
    _linear(spec.linear[0], module.query)
    keys = _keys(module.heads, module.key.weight, module.key.bias)
    values = (module.value.weight, module.value.bias)
    joined = [torch.cat(parts) for parts in zip(keys, values, strict=True)]
    spec.linear[1].weight, spec.linear[1].bias = map(_array, joined)
    _linear(spec.linear[2], module.heads.output)
    _scale_and_norm(spec, module.heads, residual)


def _keys(
    heads: Heads, weight: Float[Tensor, "size input"], bias: Float[Tensor, "size"]
) -> tuple[Tensor, Tensor]:
    """Return the projection to keys, multiplied by the matrix of a general score."""
    score = heads.attention.score
    if not isinstance(score, General):
        return weight, bias
    parts = weight.unflatten(0, (heads.num_heads, -1)), bias.unflatten(0, (heads.num_heads, -1))
    return (score.key.weight @ parts[0]).flatten(0, 1), (parts[1] @ score.key.weight.mT).flatten()


def _scale_and_norm(spec: Any, heads: Heads, residual: Residual) -> None:
    spec.queries_scale = np.float32(_scale(heads.attention, heads))
    _norm(spec.layer_norm, residual.norm)


def _scale(attention: Attention, heads: Heads) -> float:
    scale = dot_scale(
        attention.score, attention.normaliser, heads.output.in_features // heads.num_heads
    )
    if scale is None:
        raise UserError(
            "--to ctranslate2 exports softmax attention with dot products, but this model has "
            f"{name_of(attention.normaliser)} of {type(attention.score).__name__}"
        )
    return scale


def _feed_forward(spec: Any, module: Any, residual: Residual) -> None:
    _linear(spec.linear_0, module.inner)
    _linear(spec.linear_1, module.outer)
    _norm(spec.layer_norm, residual.norm)


def _last_norm(spec: Any, norm: nn.Module) -> None:
    if isinstance(norm, nn.LayerNorm):
        _norm(spec.layer_norm, norm)


def _norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().contiguous().numpy()
