"""The Transformer (Vaswani et al. 2017): encoder, decoder, and both in C++ for inference.

The heads may use any score of `attention`. Positions are added to embeddings, or rotate queries and
keys."""

from regard.models.transformer.decoder import DecoderArguments, DecoderLayer, TransformerDecoder
from regard.models.transformer.encoder import EncoderArguments, EncoderLayer, TransformerEncoder
from regard.models.transformer.native.decoder import NativeTransformerDecoder
from regard.models.transformer.native.encoder import NativeTransformerEncoder

__all__ = [
    "DecoderArguments",
    "DecoderLayer",
    "EncoderArguments",
    "EncoderLayer",
    "NativeTransformerDecoder",
    "NativeTransformerEncoder",
    "TransformerDecoder",
    "TransformerEncoder",
]
