"""Attention: queries, keys and values in, context and weights out.

    attention = Attention(Additive(query_size=256, key_size=512, size=128))
    attended = attention(queries, attention.prepare(keys), values, mask, need_weights=True)
    attended.context, attended.weights

Pure: it knows no recurrent layer, no text and no training.
"""

from regard.attention.attend import Attended, Attends, Attention, Mask
from regard.attention.fused_additive import AdditiveKeys, additive_attention, additive_scores
from regard.attention.hard import HardAttention
from regard.attention.history import AdditiveWithPast, Coverage, Location, RememberingAttention
from regard.attention.kv_cache import GrowingHeads
from regard.attention.local import Centre, LocalAttention, Monotonic, Predictive
from regard.attention.masks import CAUSAL, Causal, causal, hiding, padding, window
from regard.attention.multihead import (
    AttendedHeads,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    PreparedHeads,
    Turn,
)
from regard.attention.normalisers import Entmax15, Normaliser, Softmax, Sparsemax
from regard.attention.scores import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    Prepared,
    ScaledDot,
    Score,
    SharedAdditive,
)
from regard.attention.span import Everything, Reach, Window

__all__ = [
    "CAUSAL",
    "Additive",
    "AdditiveKeys",
    "AdditiveWithPast",
    "Attended",
    "AttendedHeads",
    "Attends",
    "Attention",
    "Causal",
    "Centre",
    "Concat",
    "Cosine",
    "Coverage",
    "Dot",
    "Entmax15",
    "Everything",
    "General",
    "GrowingHeads",
    "HardAttention",
    "LocalAttention",
    "Location",
    "Mask",
    "Monotonic",
    "MultiHeadAttention",
    "MultiHeadSelfAttention",
    "Normaliser",
    "Predictive",
    "Prepared",
    "PreparedHeads",
    "Reach",
    "RememberingAttention",
    "ScaledDot",
    "Score",
    "SharedAdditive",
    "Softmax",
    "Sparsemax",
    "Turn",
    "Window",
    "additive_attention",
    "additive_scores",
    "causal",
    "hiding",
    "padding",
    "window",
]
