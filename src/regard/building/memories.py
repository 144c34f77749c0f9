"""Memories of recurrent decoders: encoder layers as keys and values, and extra vectors."""

from __future__ import annotations

import torch

from regard.building.built_encoder import BuiltEncoder
from regard.config import RecurrentDecoderConfig
from regard.config.checks import require_resolved
from regard.errors import UserError
from regard.models.memory import (
    BuildMemory,
    KeysAndValues,
    SelectedLayers,
    Selector,
    WithExtraVectors,
    WithNeighbours,
    WithPositions,
    WithSummary,
    mean_state,
    top_layer,
)


def build_memories(config: RecurrentDecoderConfig, encoder: BuiltEncoder) -> BuildMemory:
    """Build the function from encoded sources to memories: the last layer, unless the configuration
    names others. UserError for a layer that the encoder does not have."""
    keys, values = config.key_layers, config.value_layers
    if keys == values == (-1,) and not (config.context_window or config.key_positions):
        build_memory: BuildMemory = top_layer
    else:
        selector = _build_selector(keys, config.context_window)
        build_memory = KeysAndValues(
            WithPositions(selector) if config.key_positions else selector,
            _build_selector(values, config.context_window),
        )
    if encoder.num_summary_layers is None:
        build_memory = WithSummary(build_memory, mean_state)
    if config.memory_vectors:
        size = value_size(config, encoder)
        vectors = torch.empty(config.memory_vectors, size).normal_(std=size**-0.5)
        build_memory = WithExtraVectors(build_memory, vectors, learned=True)
    if config.extra_vectors_shape is not None:
        vectors = torch.zeros(config.extra_vectors_shape)
        build_memory = WithExtraVectors(build_memory, vectors, learned=False)
    return build_memory


def key_size(config: RecurrentDecoderConfig, encoder: BuiltEncoder) -> int:
    """Size of an attention key."""
    return _size("key_layers", config.key_layers, config, encoder)


def value_size(config: RecurrentDecoderConfig, encoder: BuiltEncoder) -> int:
    """Size of an attention value."""
    return _size("value_layers", config.value_layers, config, encoder)


def context_size(config: RecurrentDecoderConfig, encoder: BuiltEncoder) -> int:
    """Size of the concatenated contexts of a step."""
    if not config.attends:
        return 0
    value = value_size(config, encoder)
    size = value + (value if config.memory_vectors else 0)
    if config.extra_vectors_shape is not None:
        size += config.extra_vectors_shape[1]
    return size + (require_resolved(config.size) if config.intra_attention else 0)


def _size(
    field: str, layers: tuple[int, ...], config: RecurrentDecoderConfig, encoder: BuiltEncoder
) -> int:
    num_layers = len(encoder.layer_sizes) - 1
    if not layers or not all(-1 <= layer <= num_layers for layer in layers):
        raise UserError(
            f"model.decoder.{field} is {layers}, but the encoder has {num_layers} layers: expected "
            f"layers from 0 (embeddings) to {num_layers}, or -1 (the last)"
        )
    return (2 * config.context_window + 1) * sum(encoder.layer_sizes[layer] for layer in layers)


def _build_selector(layers: tuple[int, ...], context_window: int) -> Selector:
    selector = SelectedLayers(*layers)
    return WithNeighbours(selector, context_window) if context_window else selector
