"""Export of recurrent models to two ONNX graphs: the encoder with all computations that are done
once for a source, and one step of the decoder.

    encoder    source, lengths                -> hidden, (cell), (fed), (keys, values)
    decoder    token, hidden, (cell), (fed),  -> logits, next_hidden, (next_cell), (next_fed),
               (keys, values, lengths)           (weights)

Tensors in brackets exist if the model has them. The graphs are built operator by operator from the
equations of `models/recurrent/decoders.py`. They are not traced, so batches and lengths may have
any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import onnx
import torch
from onnx import TensorProto
from torch import nn

from regard import attention
from regard.attention import Attention, Softmax
from regard.attention.scores import AdditiveScore
from regard.errors import UserError
from regard.exporting.graph import Axes, Graph
from regard.exporting.parts import check_no_experts, name_of
from regard.layers.recurrent.stack import RecurrentStack, Stack
from regard.models.memory import top_layer
from regard.models.recurrent.attention import CrossAttention
from regard.models.recurrent.bridge import Bridge, CopyBridge, LinearBridge, ZeroBridge
from regard.models.recurrent.decoders import (
    BahdanauDecoder,
    LuongDecoder,
    PlainDecoder,
)
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.recurrent.feeding import ContextFeeding, Feeding
from regard.models.recurrent.gnmt import GNMTDecoder
from regard.models.recurrent.output import (
    DeepOutput,
    LinearOutput,
    Output,
    StateOutput,
    SummedOutput,
    TanhOutput,
)
from regard.models.recurrent.queries import StateQuery
from regard.models.seq2seq import Seq2Seq
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.names import CellKind
from regard.shapes import Float, Tensor

OPERATORS: dict[CellKind, str] = {"elman": "RNN", "gru": "GRU", "lstm": "LSTM"}
GATES: dict[CellKind, tuple[int, ...]] = {"elman": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
"""Position of each of ONNX's gates in torch's weights. ONNX has update, reset, new for the GRU;
input, output, forget, cell for the LSTM."""
BATCH, SOURCE = "batch", "source"
RecurrentDecoder = BahdanauDecoder | LuongDecoder | PlainDecoder
"""Decoders that can be exported."""
MIN_NORM = 1e-12
"""Least norm that torch divides a vector by."""


@dataclass(frozen=True)
class OnnxModels:
    """Graphs of a model."""

    encoder: onnx.ModelProto
    decoder: onnx.ModelProto


def export_recurrent(model: Seq2Seq) -> OnnxModels:
    """Return both graphs. UserError naming a part that cannot be exported."""
    check_no_experts(model, "onnx")
    encoder, decoder = model.encoder, model.decoder
    if isinstance(decoder, GNMTDecoder):
        raise UserError(
            "--to onnx exports the wirings bahdanau, luong and plain, but model.decoder.wiring of "
            "this model is gnmt: train with one of these wirings"
        )
    if not isinstance(encoder, RecurrentEncoder) or not isinstance(decoder, RecurrentDecoder):
        raise UserError(
            "--to onnx writes a recurrent encoder with a recurrent decoder, but this model has "
            f"{type(encoder).__name__} and {type(decoder).__name__}: {_remedy(model)}"
        )
    if model.build_memory is not top_layer:
        raise UserError(
            "the decoder attends to encoder layers below the top layer, which --to onnx cannot "
            "express: train with the top layer"
        )
    if not isinstance(decoder, PlainDecoder):
        _attention(decoder)
    return OnnxModels(_write_encoder(encoder, decoder), _write_step(encoder, decoder))


def _remedy(model: Seq2Seq) -> str:
    """Name the export format that supports this model, if any."""
    if isinstance(model.encoder, TransformerEncoder) and isinstance(
        model.decoder, TransformerDecoder
    ):
        return "use --to ctranslate2"
    return "no export format supports this combination; use `regard translate`"


def _attention(decoder: BahdanauDecoder | LuongDecoder) -> Attention:
    """Return softmax attention with the top state as query and one memory. UserError for other
    attention."""
    cross = decoder.attention
    if not isinstance(cross, CrossAttention) or not isinstance(cross.attention, Attention):
        other = cross.attention if isinstance(cross, CrossAttention) else cross
        raise UserError(
            "--to onnx exports global attention to one memory, but this model has "
            f"{type(other).__name__}"
        )
    if not isinstance(cross.query, StateQuery) or cross.query.layer != -1:
        raise UserError(
            "--to onnx exports the decoder's top state as query, but this model has another "
            "model.decoder.query: train with model.decoder.query state"
        )
    attends = cross.attention
    if not isinstance(attends.normaliser, Softmax):
        raise UserError(
            "--to onnx exports softmax attention, but model.decoder.attention.normaliser of this "
            f"model is {name_of(attends.normaliser)}: train with softmax"
        )
    return attends


def _write_encoder(encoder: RecurrentEncoder, decoder: RecurrentDecoder) -> onnx.ModelProto:
    graph = Graph("encoder")
    embedded = graph("Gather", graph.weight(encoder.embedding.weight), "source")
    stack = _plain(encoder.stack)
    states, hidden, cell = _read(graph, stack, embedded)
    outputs = _bridge(graph, decoder, hidden, cell)
    if not isinstance(decoder, PlainDecoder):
        size, score = stack.size, _attention(decoder).score
        keys = _prepare(graph, score, states)
        outputs["keys"] = (keys, (BATCH, SOURCE, _key_size(score, size)))
        outputs["values"] = (states, (BATCH, SOURCE, size))
    if isinstance(decoder, LuongDecoder) and decoder.feeding.size:
        outputs["fed"] = (_zeros(graph, decoder.feeding.size), (BATCH, decoder.feeding.size))
    inputs = {
        "source": (TensorProto.INT64, (BATCH, SOURCE)),
        "lengths": (TensorProto.INT64, (BATCH,)),
    }
    return graph.model(inputs, outputs)


def _plain(stack: Stack) -> RecurrentStack:
    """Return a plain stack of layers. UserError for another one."""
    if not isinstance(stack, RecurrentStack):
        raise UserError(
            "--to onnx exports recurrent layers without skip connections, but this model has "
            f"{type(stack).__name__}: train with model.encoder.connections and "
            "model.decoder.connections none"
        )
    return stack


def _read(graph: Graph, stack: RecurrentStack, embedded: str) -> tuple[str, str, str | None]:
    """Return the states of the top layer, and the last states of every layer: "batch layer
    hidden"."""
    below = graph("Transpose", embedded, perm=[1, 0, 2])
    lengths = graph("Cast", "lengths", to=TensorProto.INT32)
    hidden: list[str] = []
    cell: list[str] = []
    for layer in _layers(stack):
        states, *ends = _recur(graph, stack.kind, layer, [below, lengths])
        # position direction batch hidden -> position batch (direction hidden)
        joined_directions = graph("Transpose", states, perm=[0, 2, 1, 3])
        below = graph("Reshape", joined_directions, graph.constant([0, 0, -1]))
        for end, collected in zip(ends, (hidden, cell), strict=False):
            flat = graph("Transpose", end, perm=[1, 0, 2])
            collected.append(graph("Reshape", flat, graph.constant([0, 1, -1])))
    top = graph("Transpose", below, perm=[1, 0, 2])
    joined = graph("Concat", *cell, axis=1) if cell else None
    return top, graph("Concat", *hidden, axis=1), joined


def _layers(stack: RecurrentStack) -> list[nn.RNNBase]:
    return [cast(nn.RNNBase, layer) for layer in stack.layers]


def _recur(graph: Graph, kind: CellKind, layer: nn.RNNBase, inputs: list[str]) -> list[str]:
    """Return the states of one layer, its last hidden state and, for an LSTM, its last cell state.
    `inputs` are the sequence, its lengths and, unless they are zero, the initial states."""
    sequence, *rest = inputs
    weights = [graph.weight(_stacked(kind, layer, name)) for name in ("weight_ih", "weight_hh")]
    biases = [_stacked(kind, layer, name) for name in ("bias_ih", "bias_hh")]
    reset = (
        {"linear_before_reset": 1} if kind == "gru" else {}
    )  # torch multiplies the reset gate with U h + b
    return graph.several(
        OPERATORS[kind],
        [sequence, *weights, graph.weight(torch.cat(biases, dim=1)), *rest],
        3 if kind == "lstm" else 2,
        hidden_size=layer.hidden_size,
        direction="bidirectional" if layer.bidirectional else "forward",
        **reset,
    )


def _stacked(
    kind: CellKind, layer: nn.RNNBase, name: str
) -> Float[Tensor, "direction gates *size"]:
    """Return the weights of this name in ONNX's order of gates, stacked over directions."""
    directions = []
    for direction in ("", "_reverse") if layer.bidirectional else ("",):
        parts = getattr(layer, f"{name}_l0{direction}").detach().chunk(len(GATES[kind]))
        directions.append(torch.cat([parts[gate] for gate in GATES[kind]]))
    return torch.stack(directions)


def _bridge(
    graph: Graph, decoder: RecurrentDecoder, hidden: str, cell: str | None
) -> dict[str, tuple[str, Axes]]:
    """Return the initial state of the decoder. A decoder has a cell state if its encoder has
    one."""
    bridge, last = decoder.parts.bridge, {"hidden": hidden, "cell": cell}
    return {
        name: (_first(graph, bridge, name, ends), _state_axes(decoder))
        for name, ends in last.items()
        if ends is not None
    }


def _first(graph: Graph, bridge: Bridge, name: str, ends: str) -> str:
    match bridge:
        case CopyBridge():
            return ends
        case LinearBridge():
            linear = bridge.cell if name == "cell" and bridge.cell else bridge.hidden
            first = graph("Tanh", graph.flat_linear(graph("Flatten", ends), linear))
            return graph("Reshape", first, graph.constant([0, *bridge.shape]))
        case ZeroBridge():
            return _zeros(graph, *bridge.shape)


def _zeros(graph: Graph, *sizes: int) -> str:
    """Return zeros of these sizes for each source."""
    shape = graph("Concat", graph("Shape", "lengths"), graph.constant(sizes), axis=0)
    return graph("ConstantOfShape", shape)


def _prepare(graph: Graph, score: object, states: str) -> str:
    """Return the keys of a score, which are computed once for a source."""
    match score:
        case attention.General():
            return graph.product(states, score.key.weight)
        case attention.Additive():
            return graph.linear(states, score.key)
        case attention.SharedAdditive():
            return graph.linear(states, score.shared)
        case attention.Concat():
            keys = graph.product(states, score.projection.weight[:, score.query_size :])
            return graph("Add", keys, graph.weight(score.projection.bias))
        case attention.Cosine():
            return _normalised(graph, states)
        case attention.Dot() | attention.ScaledDot():
            return states
    raise UserError(f"--to onnx does not support the score {type(score).__name__}")


def _key_size(score: object, memory_size: int) -> int:
    """Return the size of a prepared key."""
    match score:
        case attention.General():
            return score.key.out_features
        case attention.Additive() | attention.SharedAdditive() | attention.Concat():
            return score.vector.numel()
    return memory_size


def _normalised(graph: Graph, vectors: str) -> str:
    squares = graph("ReduceSum", graph("Mul", vectors, vectors), graph.constant([-1]))
    norm = graph("Max", graph("Sqrt", squares), graph.constant(MIN_NORM, np.float32))
    return graph("Div", vectors, norm)


def _write_step(encoder: RecurrentEncoder, decoder: RecurrentDecoder) -> onnx.ModelProto:
    graph, parts = Graph("decoder"), decoder.parts
    inputs: dict[str, tuple[int, Axes]] = {"token": (TensorProto.INT64, (BATCH,))}
    inputs["hidden"] = (TensorProto.FLOAT, _state_axes(decoder))
    if _plain(parts.stack).kind == "lstm":
        inputs["cell"] = (TensorProto.FLOAT, _state_axes(decoder))
    embedded = graph("Gather", graph.weight(parts.embedding.weight), "token")
    context = weights = None
    match decoder:
        case BahdanauDecoder():
            query = graph("Gather", "hidden", graph.constant(-1), axis=1)
            context, weights = _attend(graph, _attention(decoder), query)
            entered = graph("Concat", embedded, context, axis=1)
            hidden, outputs = _advance(graph, decoder, entered)
        case LuongDecoder():
            entered = graph("Concat", embedded, "fed", axis=1) if decoder.feeding.size else embedded
            hidden, outputs = _advance(graph, decoder, entered)
            context, weights = _attend(graph, _attention(decoder), hidden)
        case PlainDecoder():
            hidden, outputs = _advance(graph, decoder, embedded)
    features = _features(graph, parts.output, hidden, context, embedded)
    logits = graph.flat_linear(features, parts.projection)
    outputs = {"logits": (logits, (BATCH, parts.projection.out_features)), **outputs}
    if isinstance(decoder, LuongDecoder) and decoder.feeding.size:
        inputs["fed"] = (TensorProto.FLOAT, (BATCH, decoder.feeding.size))
        outputs["next_fed"] = (_fed(decoder.feeding, context, features), inputs["fed"][1])
    if not isinstance(decoder, PlainDecoder) and weights is not None:
        size = _plain(encoder.stack).size
        keys = _key_size(_attention(decoder).score, size)
        inputs["keys"] = (TensorProto.FLOAT, (BATCH, SOURCE, keys))
        inputs["values"] = (TensorProto.FLOAT, (BATCH, SOURCE, size))
        inputs["lengths"] = (TensorProto.INT64, (BATCH,))
        outputs["weights"] = (weights, (BATCH, SOURCE))
    return graph.model(inputs, outputs)


def _state_axes(decoder: RecurrentDecoder) -> Axes:
    stack = _plain(decoder.parts.stack)
    return (BATCH, stack.num_layers, stack.size)


def _advance(
    graph: Graph, decoder: RecurrentDecoder, entered: str
) -> tuple[str, dict[str, tuple[str, Axes]]]:
    """Return the new state of the top layer, and the new states of every layer."""
    stack = _plain(decoder.parts.stack)
    below, names = entered, ["hidden", "cell"][: 2 if stack.kind == "lstm" else 1]
    ends: dict[str, list[str]] = {name: [] for name in names}
    for number, layer in enumerate(_layers(stack)):
        place = graph.constant([number])
        starts = [
            graph("Transpose", graph("Gather", name, place, axis=1), perm=[1, 0, 2])
            for name in names
        ]
        step = [graph.unsqueeze(below, 0), "", *starts]  # "" for the lengths, which are all one
        _, *last = _recur(graph, stack.kind, layer, step)
        for name, end in zip(names, last, strict=True):
            ends[name].append(graph("Transpose", end, perm=[1, 0, 2]))
        below = graph.squeeze(last[0], 0)
    outputs = {
        f"next_{name}": (graph("Concat", *ends[name], axis=1), _state_axes(decoder))
        for name in names
    }
    return below, outputs


def _attend(graph: Graph, attends: Attention, queries: str) -> tuple[str, str]:
    """Return the context of one query for each source, and its attention weights."""
    scores = _score(graph, attends.score, queries)
    temperature = getattr(attends.normaliser, "temperature", 1.0)
    scores = graph("Div", scores, graph.constant(temperature, np.float32))
    num_positions = graph("Gather", graph("Shape", "keys"), graph.constant(1))
    positions = graph("Range", graph.constant(0), num_positions, graph.constant(1))
    visible = graph("Less", graph.unsqueeze(positions, 0), graph.unsqueeze("lengths", 1))
    hidden = graph.constant(np.finfo(np.float32).min, np.float32)
    weights = graph("Softmax", graph("Where", visible, scores, hidden), axis=1)
    context = graph("MatMul", graph.unsqueeze(weights, 1), "values")
    return graph.squeeze(context, 1), weights


def _score(graph: Graph, score: object, queries: str) -> str:
    """Return the score of every source position: "batch source"."""
    if isinstance(score, AdditiveScore):
        query = graph.unsqueeze(graph.product(queries, score.query_weight), 1)
        summed = graph("Tanh", graph("Add", query, "keys"))
        return graph("MatMul", summed, graph.weight(score.vector))
    if isinstance(score, attention.Cosine):
        queries = _normalised(graph, queries)
    dots = graph.squeeze(graph("MatMul", "keys", graph.unsqueeze(queries, 2)), 2)
    if isinstance(score, attention.ScaledDot):
        size = graph("Cast", graph("Gather", graph("Shape", queries), graph.constant(1)), to=1)
        return graph("Div", dots, graph("Sqrt", size))
    return dots


def _features(graph: Graph, output: Output, hidden: str, context: str | None, embedded: str) -> str:
    contexts = [] if context is None else [context]
    match output:
        case DeepOutput():
            joined = graph("Concat", hidden, embedded, *contexts, axis=1)
            pairs = graph.flat_linear(joined, output.projection)
            shape = graph.constant([0, output.feature_size, 2])
            return graph("ReduceMax", graph("Reshape", pairs, shape), axes=[2], keepdims=0)
        case SummedOutput():
            joined = graph("Concat", hidden, *contexts, axis=1)
            return graph("Add", embedded, graph.flat_linear(joined, output.projection))
        case TanhOutput():
            joined = graph("Concat", *contexts, hidden, axis=1)
            return graph("Tanh", graph.flat_linear(joined, output.projection))
        case LinearOutput():
            return graph("Concat", *contexts, hidden, axis=1)
        case StateOutput():
            return hidden


def _fed(feeding: Feeding, context: str | None, features: str) -> str:
    match feeding:
        case ContextFeeding() if context is not None:
            return context
        case _:
            return features
