"""The Transformer's encoder in C++ (`regard/kernels/models/encoder.cpp`), for inference on a CPU in
float32. All layers are one call, which computes real positions only: the states of padding are
zeros.

`TransformerEncoder` remains the reference: it computes attention weights, and every model with a
part that has no kernel.
"""

from __future__ import annotations

import ctypes
from typing import cast

import torch

from regard import kernels
from regard.attention.masks import none_if_full
from regard.compiled.exact import is_exactly
from regard.compiled.native import NativeModule
from regard.compiled.transformer.support import is_supported
from regard.compiled.transformer.weights import EncoderWeights, Norm
from regard.data.batch import Numbers, Tokens
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import Rotary
from regard.layers.residual import PreNorm
from regard.models.contracts import Encoded
from regard.models.transformer.encoder import TransformerEncoder
from regard.numerics.linear import has_integers, is_packed
from regard.numerics.panels import ACTIVATIONS, check_array
from regard.shapes import Bool, Float, Tensor


@kernels.structure("EncoderPass")
class _Pass(ctypes.Structure):
    """`EncoderPass` of regard/kernels/models/encoder.hpp."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("sentences", "source", "layers", "heads", "size")),
        *((name, ctypes.c_int64) for name in ("inner", "norm_first", "activation", "threads")),
        *((name, ctypes.c_void_p) for name in ("layer", "embedded", "mask", "cosines", "sines")),
        ("states", ctypes.c_void_p),
        ("last", Norm),
        ("scale", ctypes.c_float),
        ("bytes", ctypes.c_int64 * 6),
    ]


class NativeTransformerEncoder(NativeModule[TransformerEncoder, EncoderWeights]):
    """Frozen encoder of a Transformer whose layers are computed in C++. With int8 weights they are
    too if attention weights are requested, so that the states are the same.

    The states are those of the encoder itself if attention weights are requested, with gradients,
    autocast or hooks, in training, and for other types and devices."""

    is_supported = staticmethod(is_supported)

    def forward(self, source: Tokens | Numbers, *, need_weights: bool = False) -> Encoded:
        """Return the embeddings and the states of every layer, the last after the norm."""
        encoder = self.reference
        plain = (weight for weight in encoder.parameters() if not is_packed(weight))
        like, weights = next(plain, None), None
        is_native = not need_weights or any(map(has_integers, encoder.parameters()))
        if like is not None and is_native:
            weights = self._checked_weights(like)
        if weights is None:
            encoded: Encoded = encoder(source, need_weights=need_weights)
            return encoded
        embedded = kernels.dense(encoder.embedder(source.inputs, range(source.inputs.size(1))))
        states = self._states(weights, embedded, source.mask)
        attention = encoder(source, need_weights=True).attention if need_weights else ()
        return Encoded((embedded, *states.unbind()), source.mask, attention=attention)

    def _states(
        self,
        weights: EncoderWeights,
        embedded: Float[Tensor, "batch source size"],
        mask: Bool[Tensor, "batch source"],
    ) -> Float[Tensor, "layer batch source size"]:
        """Return the states of every layer, the last after the norm."""
        encoder, layer = self.reference, self.reference.layers[0]
        size, num_heads = layer.self_attention.projection.in_features, weights.num_heads
        batch, source = embedded.shape[:2]
        check_array("embeddings", embedded, (batch, source, size))
        check_array("mask", mask, (batch, source), torch.bool)
        cosines, sines = None, None
        if isinstance(encoder.embedder.positions, Rotary):
            like = embedded.new_empty(1, size // num_heads)
            cosines, sines = encoder.embedder.positions.cosines_and_sines(range(source), like)
        states = embedded.new_empty(len(encoder.layers), batch, source, size)
        visible = none_if_full(kernels.dense(mask))
        addresses, sizes = kernels.places(embedded, visible, cosines, sines, states)
        problem = _Pass(
            *(batch, source, len(encoder.layers), num_heads, size, weights.inner),
            is_exactly(layer.self_residual, PreNorm),
            ACTIVATIONS.index(cast(FeedForward, layer.feed_forward).activation),
            torch.get_num_threads(),
            ctypes.addressof(weights.layers),
            *addresses,
            weights.last,
            weights.scale,
            (ctypes.sizeof(weights.layers), *sizes),
        )
        kernels.call("encode", problem)
        return states

    def _structures(self) -> EncoderWeights:
        return EncoderWeights.of(self.reference)


REPLACEMENTS = {
    TransformerEncoder: NativeTransformerEncoder.replacing,
    NativeTransformerEncoder: NativeTransformerEncoder.renewed,
}
