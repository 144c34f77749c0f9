"""The Transformer (Vaswani et al. 2017): encoder, decoder, and both in C++ for inference.

The heads may use any score of `attention`. Positions are added to embeddings, or rotate queries and
keys."""

from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.compiled.transformer.encoder import NativeTransformerEncoder
from regard.models.transformer.decoder import DecoderArguments, DecoderLayer, TransformerDecoder
from regard.models.transformer.encoder import EncoderArguments, EncoderLayer, TransformerEncoder

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
