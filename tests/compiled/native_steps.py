"""Comparisons of decoders in C++ with their references, for recurrent decoders and Transformers."""

from __future__ import annotations

import copy
import io
import math
import pickle

import torch
from torch import nn

from regard.building.translators import build_translation
from regard.compiled.recurrent.state import NativeState as NativeRecurrentState
from regard.compiled.transformer.state import NativeState as NativeTransformerState
from regard.data.batch import START
from regard.models.recurrent.parts import RecurrentState
from regard.models.transformer.decoder import TransformerState

VOCABULARY, BATCH, SOURCE = 17, 3, 7
NATIVE = NativeRecurrentState | NativeTransformerState
"""States of steps in C++."""
REFERENCE = RecurrentState | TransformerState
"""States of steps in PyTorch."""


def random_model(config, num_source, num_target):
    """Return a model whose biases and norms have an effect."""
    torch.manual_seed(5)
    model = build_translation(config, num_source, num_target).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model


def masked_keys(batch, source, size, generator, *, is_padded):
    """Return keys with NaN at hidden positions, and the mask. The last sentence is all hidden."""
    keys = torch.randn(batch, source, size, generator=generator)
    mask = torch.ones(batch, source, dtype=torch.bool)
    if is_padded:
        for row in range(batch):
            mask[row, source - row :] = False
        mask[-1] = False
        keys[~mask] = math.nan
    return keys, mask


def tokens_of(batch, hypotheses, step=0):
    """Return random tokens without special symbols."""
    generator = torch.Generator().manual_seed(step)
    return torch.randint(4, VOCABULARY, (batch, hypotheses), generator=generator)


def features_of(native, memories, num_hypotheses=2, num_steps=3):
    """Return the features of all steps, and the state after them."""
    state, batch = native.start(memories), len(memories[0].keys)
    tokens, features = torch.full((batch, 1), START), []
    for step in range(num_steps):
        output, state = native.step(tokens, state)
        features.append(output.features)
        parents = torch.arange(num_hypotheses).expand(batch, -1) % tokens.size(1)
        state = state.select(parents)
        tokens = tokens_of(1, num_hypotheses, step).expand(batch, -1)
    return features, state


def copies_of(module):
    """Return a deep copy, an unpickled copy and a loaded copy of a module."""
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    return [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded]


def close(result, expected, tolerance=2e-5):
    """Compare two tensors of numbers in float32."""
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


def assert_equal_blocks(output, expected, visible=None):
    """Compare attention. `visible` excludes the scores of hidden keys, which must be finite."""
    for ours, theirs in zip(output.attention, expected.attention, strict=True):
        assert ours.kind == theirs.kind
        close(ours.weights, theirs.weights)
        if visible is None:
            close(ours.scores, theirs.scores)
        else:  # kernels replace NaN in hidden keys
            close(ours.scores * visible, theirs.scores * visible)
            assert ours.scores.isfinite().all()


def assert_equal_steps(
    reference, native, memories, num_steps, num_hypotheses, *, compare, need_weights=False
):
    """Compare steps of hypotheses that are selected after each step, some of them twice."""
    ours, theirs = native.start(memories), reference.start(memories)
    assert isinstance(ours, NATIVE)
    batch = len(memories[0].keys)
    tokens = torch.full((batch, 1), START)
    for step in range(num_steps):
        output, ours = native.step(tokens, ours, need_weights=need_weights)
        expected, theirs = reference.step(tokens, theirs, need_weights=need_weights)
        assert isinstance(ours, NATIVE)
        close(output.features, expected.features)
        close(native.project(output.features), reference.project(expected.features))
        compare(output, expected, ours, theirs)
        generator = torch.Generator().manual_seed(step)
        parents = torch.randint(tokens.size(1), (batch, num_hypotheses), generator=generator)
        ours, theirs = ours.select(parents), theirs.select(parents)
        tokens = tokens_of(batch, num_hypotheses, step)
    return ours, theirs


def assert_reference_steps(
    reference, native, memories, state=None, tolerance=2e-5, *, need_weights=False
):
    """Check that steps run in PyTorch, with the results of the reference. Return the features."""
    tokens = torch.full((len(memories[0].keys), 1), START)
    ours = native.start(memories) if state is None else state
    output, ours = native.step(tokens, ours, need_weights=need_weights)
    assert isinstance(ours, REFERENCE)
    expected, _ = reference.step(tokens, reference.start(memories), need_weights=need_weights)
    assert output.features.dtype == expected.features.dtype
    close(output.features, expected.features, tolerance)
    return output.features
