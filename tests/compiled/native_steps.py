"""Comparisons of decoders in C++ with their references, for recurrent decoders and Transformers."""

from __future__ import annotations

import copy
import io
import math
import pickle

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from regard import kernels
from regard.building import build_translation
from regard.compiled.freeze import freeze
from regard.compiled.recurrent.state import NativeState as NativeRecurrentState
from regard.compiled.transformer.state import NativeState as NativeTransformerState
from regard.data.batch import PAD, START
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


def assert_equal_whole_target(reference, native, memories):
    """Compare steps, and the call for a whole target, with that call of the reference."""
    batch = len(memories[0].keys)
    inputs = torch.cat([torch.full((batch, 1), START), tokens_of(batch, 5)], dim=1)
    assert PAD not in inputs
    expected, state = reference(inputs, memories).features, native.start(memories)
    close(native(inputs, memories).features, expected)
    for position in range(6):
        output, state = native.step(inputs[:, position : position + 1], state)
        close(output.features[:, 0], expected[:, position])


def assert_independent_branches(reference, native, ours, theirs):
    """Check that steps from a state do not change the results of other steps from this state."""
    branches = [(ours, theirs)] * 3
    for step in range(3):
        for number, (mine, right) in enumerate(branches):
            tokens = tokens_of(BATCH, 2, 10 * step + number)
            output, mine = native.step(tokens, mine)
            expected, right = reference.step(tokens, right)
            close(output.features, expected.features)
            branches[number] = mine, right


def assert_same_bits_with_one_thread(native, memories):
    """Compare the features with the current number of threads and with one thread."""
    together, _ = features_of(native, memories, num_hypotheses=5)
    torch.set_num_threads(1)
    alone, _ = features_of(native, memories, num_hypotheses=5)
    for ours, theirs in zip(alone, together, strict=True):
        assert torch.equal(ours, theirs)


def assert_equal_instruction_sets(reference, native, memories):
    """Compare steps whose instruction set changes after each step."""
    best = kernels.lanes()
    ours, theirs = native.start(memories), reference.start(memories)
    try:
        for step, lanes in enumerate((4, best, 4, 8)):
            kernels.lanes(lanes)
            output, ours = native.step(tokens_of(BATCH, 1, step), ours)
            assert isinstance(ours, NATIVE)
            expected, theirs = reference.step(tokens_of(BATCH, 1, step), theirs)
            close(output.features, expected.features)
            close(native.project(output.features), reference.project(expected.features))
    finally:
        kernels.lanes(best)


def assert_hook_from_the_next_start(native, memories, module):
    """Check that a new hook, of a module or of all modules, is called for this module from the next
    start on, but not before."""
    called = []
    for register in (module.register_forward_hook, register_module_forward_hook):
        state = native.start(memories)
        assert not isinstance(state, REFERENCE)
        with register(lambda part, *_: called.append(part)):
            native.step(tokens_of(BATCH, 1), state)
            assert module not in called
            native.step(tokens_of(BATCH, 1), native.start(memories))
            assert module in called
        called.clear()


def assert_dropout_in_training(native, memories):
    """Check that dropout has an effect if the reference, or its dropout alone, is in training
    mode."""
    tokens, state = tokens_of(BATCH, 1), native.start(memories)
    native.reference.train()
    for start in (state, native.start(memories)):
        results = [native.step(tokens, start)[0].features for _ in range(2)]
        assert not torch.equal(*results)
    assert isinstance(native.start(memories), REFERENCE)
    native.reference.eval()
    assert not isinstance(native.start(memories), REFERENCE)
    for module in native.reference.modules():
        module.train(isinstance(module, nn.Dropout))
    assert isinstance(native.start(memories), REFERENCE)


def assert_one_reference(frozen, kind, compare):
    """Check decoders that are frozen but not folded again, because they have a hook or are the
    whole model that is frozen. The reference is of this kind, and `compare` compares such a decoder
    with it."""
    assert type(frozen.decoder.reference) is kind
    compare(freeze(frozen.decoder))
    frozen.decoder.register_forward_hook(lambda *_: None)
    again = freeze(frozen).decoder
    assert type(again.reference) is kind
    compare(again)
