"""Attention: queries, keys and values in, context and weights out.

    attention = Attention(Additive(query_size=256, key_size=512, size=128))
    attended = attention(queries, attention.prepare(keys), values, mask, need_weights=True)
    attended.context, attended.weights

Pure: it knows no recurrent layer, no text and no training.
"""

from regard.attention import scores
from regard.attention.attend import Attention, AttentionFunction, AttentionOutput, Mask
from regard.attention.hard import HardAttention, StraightThroughAttention
from regard.attention.history import Coverage, HistoryAdditive, HistoryAttention, Location
from regard.attention.kv_cache import KVCache
from regard.attention.local import Centre, LocalAttention, Monotonic, Predictive
from regard.attention.masks import CAUSAL, Causal, causal, none_if_full, padding, window
from regard.attention.multihead import (
    MultiHeadAttention,
    MultiHeadOutput,
    MultiHeadSelfAttention,
    PreparedHeads,
    Rotate,
)
from regard.attention.normalisers import (
    Entmax15,
    Normaliser,
    ScaledSoftmax,
    Sigmoid,
    Softmax,
    Sparsemax,
)
from regard.attention.prepared import AdditiveKeys
from regard.attention.scores import *  # noqa: F403 (the names in scores.__all__)
from regard.attention.span import FullSpan, SlidingWindow, Span

__all__ = [
    "CAUSAL",
    "AdditiveKeys",
    "Attention",
    "AttentionFunction",
    "AttentionOutput",
    "Causal",
    "Centre",
    "Coverage",
    "Entmax15",
    "FullSpan",
    "HardAttention",
    "HistoryAdditive",
    "HistoryAttention",
    "KVCache",
    "LocalAttention",
    "Location",
    "Mask",
    "Monotonic",
    "MultiHeadAttention",
    "MultiHeadOutput",
    "MultiHeadSelfAttention",
    "Normaliser",
    "Predictive",
    "PreparedHeads",
    "Rotate",
    "ScaledSoftmax",
    "Sigmoid",
    "SlidingWindow",
    "Softmax",
    "Span",
    "Sparsemax",
    "StraightThroughAttention",
    "causal",
    "none_if_full",
    "padding",
    "window",
]
__all__ += scores.__all__
