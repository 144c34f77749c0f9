"""Options of the contract suites. The names of a closed set come from `regard.names`, and the kinds
of parts from `regard.config`, so that a new one is tested by every suite."""

from dataclasses import fields
from typing import get_args

import torch

from regard.attention import Predictive, ScaledSoftmax, Sigmoid
from regard.config import KINDS, ExpertsConfig
from regard.layers.experts import NoisyTopKGate
from regard.names import (
    Activation,
    AddedPositionKind,
    AttentionScope,
    BridgeKind,
    CellKind,
    ConnectionKind,
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


SMALL = dict(
    size=14,
    embedding=5,
    layers=2,
    heads=7,
    feed_forward=11,
    channels=(3, 6),
    dilations=(1, 2),
    sets=1,
)
"""Small sizes for the fields of all kinds of parts."""


def small(*records):
    """Return small sizes for the fields that one of these parts has."""
    names = {field.name for record in records for field in fields(record)}
    return {name: value for name, value in SMALL.items() if name in names}


def _maps_of_recurrent_decoder(part):
    names = ["cross 0"] * part.attends
    vectors = bool(part.memory_vectors) + (part.extra_vectors_shape is not None)
    names += [f"memory {number}" for number in range(vectors)]
    names += ["decoder 0"] * part.intra_attention
    return dict.fromkeys(names, (1, 1)) | _maps_of_experts("decoder", part)


def _maps_of_experts(side, part):
    num_layers = 1 if part.kind == "recurrent" else part.layers
    return {f"{side}_experts 0": (num_layers, 1)} if part.experts.number else {}


ENCODER_MAPS = {
    "recurrent": lambda part: _maps_of_experts("encoder", part),
    "transformer": lambda part: (
        {"encoder 0": (part.layers, part.heads)} | _maps_of_experts("encoder", part)
    ),
    "bag_of_words": lambda part: {},
    "gated_convolution": lambda part: {},
    "dilated_convolution": lambda part: {},
}
"""Attention of each kind of encoder: number of layers and of heads, by kind and number of block."""
DECODER_MAPS = {
    "recurrent": _maps_of_recurrent_decoder,
    "transformer": lambda part: (
        dict.fromkeys(["cross 0", "decoder 0"], (part.layers, part.heads))
        | _maps_of_experts("decoder", part)
    ),
    "gated_convolution": lambda part: {"cross 0": (part.layers, 1)},
    "dilated_convolution": lambda part: {},
}
"""Attention of each kind of decoder."""


def randomise_gates(model):
    """Draw the weights of the gates of experts, which are zeros in a new model, so that positions
    differ in their experts."""
    for module in model.modules():
        if isinstance(module, NoisyTopKGate):
            torch.nn.init.normal_(module.weight)


def attention_maps(config):
    """Return the attention of a model of text, of encoder and decoder."""
    encoder, decoder = config.encoder, config.decoder
    return ENCODER_MAPS[encoder.kind](encoder) | DECODER_MAPS[decoder.kind](decoder)


def sums_to_one(model, kind):
    """Whether the weights of a kind of attention sum to one."""
    part = model.encoder if kind == "encoder" else model.decoder
    normalisers = [getattr(module, "normaliser", None) for module in part.modules()]
    if any(isinstance(each, (Sigmoid, ScaledSoftmax)) for each in normalisers):
        return False
    is_predictive = any(isinstance(module, Predictive) for module in part.modules())
    return not is_predictive or kind not in ("cross", "image")


WIRINGS = (
    ("luong", "none"),
    ("bahdanau", "none"),
    ("gnmt", "none"),
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
    "layers": (1, 2, 4),
    "connections": members(ConnectionKind, "none"),
    "bidirectional": (False, True),
}
EXPERTS = ExpertsConfig(number=5, active=2, size=3)
TRANSFORMERS = {
    "positions": members(PositionKind, "sinusoidal"),
    "norm": members(NormPlacement, "pre"),
    "activation": members(Activation, "relu"),
    "score": ("scaled_dot", *sorted({*get_args(ScoreName)} - {"scaled_dot"})),
    "normaliser": members(NormaliserName, "softmax"),
    "temperature": (1.0, 0.7),
    "window": (None, 1),
    "decoder_layers": (2, 1),
    "experts": (ExpertsConfig(), EXPERTS),
}
CONVOLUTIONS = {
    "positions": members(AddedPositionKind, "learned"),
    "score": ("dot", *sorted({*get_args(ScoreName)} - {"dot"})),
    "normaliser": ("softmax", "sigmoid"),
    "widths": ((3,), (5, 1)),
    "channels": ((3, 6), (7,)),
}
COPY = tuple(name for name in get_args(CopyKind) if name != "none")
TIED = tuple(name for name in get_args(TiedWeights) if name != "none")
BACKBONE = (16, 7)
"""Grid cells of a pretrained network, and the size of their features."""
CAPTIONERS = {
    "soft": dict(attention=dict(size=11, doubly_stochastic=1.0), output="summed"),
    "soft, no gate": dict(gate=False, attention=dict(score="general")),
    "hard": dict(attention=dict(size=11, sampling="hard")),
    "straight through": dict(attention=dict(size=11, sampling="straight_through")),
    "luong": dict(wiring="luong", feeding="context", attention=dict(size=11)),
    "two layers": dict(layers=2, cell="gru", memory_vectors=3, intra_attention=True),
    "plain": dict(wiring="plain", gate=False),
    "residual": dict(layers=3, connections="residual"),
    "fast-forward": dict(layers=2, connections="fast_forward"),
    "experts": dict(decoder="transformer", experts=EXPERTS),
    "recurrent experts": dict(layers=2, connections="residual", experts=EXPERTS),
    **{kind: dict(decoder=kind) for kind in KINDS["caption"]["decoder"] if kind != "recurrent"},
    "gated_convolution": dict(decoder="gated_convolution", attention=dict(score="general")),
    "grid features": dict(encoder="backbone", name="vit", attention=dict(size=11)),
}
