"""The Transformer (Vaswani et al. 2017): encoder and decoder.

The heads may use any score of `attention`. Positions are added to embeddings, or rotate queries and
keys."""

from regard.models.transformer.decoder import DecoderArguments, DecoderLayer, TransformerDecoder
from regard.models.transformer.encoder import EncoderArguments, EncoderLayer, TransformerEncoder

__all__ = [
    "DecoderArguments",
    "DecoderLayer",
    "EncoderArguments",
    "EncoderLayer",
    "TransformerDecoder",
    "TransformerEncoder",
]
