"""Options of the contract suites. The names of a closed set come from `regard.names`, so that a new
name is tested by every suite."""

from typing import get_args

from regard.names import (
    Activation,
    AttentionScope,
    BridgeKind,
    CellKind,
    CopyKind,
    HistoryScoreName,
    NormaliserName,
    NormPlacement,
    OutputKind,
    PositionKind,
    QueryKind,
    ScoreName,
    TiedWeights,
)


def members(names, default):
    """Return the names of a closed set, the default first."""
    return (default, *(name for name in get_args(names) if name != default))


WIRINGS = (
    ("luong", "none"),
    ("bahdanau", "none"),
    ("luong", "context"),
    ("luong", "attentional"),
    ("plain", "none"),
)
"""Wirings of a recurrent decoder with the kinds of input feeding that they have."""
RECURRENT = {
    "wiring, feeding": WIRINGS,
    "cell": members(CellKind, "gru"),
    "output": members(OutputKind, "linear"),
    "score": (
        "additive",
        *sorted({*get_args(ScoreName), *get_args(HistoryScoreName)} - {"additive"}),
    ),
    "normaliser": members(NormaliserName, "softmax"),
    "scope": members(AttentionScope, "global"),
    "query": members(QueryKind, "state"),
    "key_layers, value_layers": (((-1,), (-1,)), ((0,), (-1,)), ((0, 1), (0,))),
    "context_window": (0, 1),
    "key_positions": (False, True),
    "memory_vectors": (0, 3),
    "extra_vectors_shape": (None, (4, 6)),
    "intra_attention": (False, True),
    "gate": (False, True),
    "bridge": members(BridgeKind, "linear"),
    "layers": (1, 2),
    "bidirectional": (False, True),
}
TRANSFORMERS = {
    "positions": members(PositionKind, "sinusoidal"),
    "norm": members(NormPlacement, "pre"),
    "activation": members(Activation, "relu"),
    "score": ("scaled_dot", *sorted({*get_args(ScoreName)} - {"scaled_dot"})),
    "normaliser": members(NormaliserName, "softmax"),
    "temperature": (1.0, 0.7),
    "window": (None, 1),
    "decoder_layers": (2, 1),
}
COPY = tuple(name for name in get_args(CopyKind) if name != "none")
TIED = tuple(name for name in get_args(TiedWeights) if name != "none")
BACKBONE = (16, 7)
"""Grid cells of a pretrained network, and the size of their features."""
CAPTIONERS = {
    "soft": dict(attention=dict(size=11, doubly_stochastic=1.0), output="summed"),
    "soft, no gate": dict(gate=False, attention=dict(score="general")),
    "hard": dict(attention=dict(size=11, sampling="hard")),
    "luong": dict(wiring="luong", feeding="context", attention=dict(size=11)),
    "two layers": dict(layers=2, cell="gru", memory_vectors=3, intra_attention=True),
    "transformer": dict(decoder="transformer"),
    "grid features": dict(encoder="backbone", name="vit", attention=dict(size=11)),
}
