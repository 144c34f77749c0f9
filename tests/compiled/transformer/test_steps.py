"""Steps in C++ compared with those of `TransformerDecoder`, the reference."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard import kernels
from regard.attention.kv_cache import MIN_CAPACITY
from regard.compiled.freeze import freeze
from regard.compiled.transformer.state import NativeState
from regard.data.batch import START
from regard.errors import UserError
from regard.models.contracts import Memory
from tests.compiled.native_steps import (
    BATCH,
    SOURCE,
    assert_equal_blocks,
    close,
    features_of,
    tokens_of,
)
from tests.compiled.transformer.problems import (
    SIZE,
    assert_equal_steps,
    decoders,
    memory,
    model_of,
)

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

VARIANTS = [
    dict(norm=norm, activation=activation, positions=positions, window=window)
    for norm in ("pre", "post")
    for activation, positions, window in [
        ("relu", "sinusoidal", None), ("gelu", "rotary", 2), ("gelu", "learned", None),
        ("relu", "rotary", None), ("relu", "sinusoidal", 1),
    ]
] + [
    dict(heads=1), dict(heads=9), dict(attention=dict(score="dot")), dict(decoder_layers=1),
    dict(attention=dict(temperature=1.7)), dict(attention=dict(score="dot", temperature=0.6)),
    dict(attention=dict(dropout=0.3)),
]  # fmt: skip


@pytest.mark.parametrize("values", VARIANTS, ids=lambda x: "-".join(map(str, x.values())))
@torch.no_grad()
def test_steps_equal_those_of_the_reference(values):
    reference, native = decoders(**values)
    for memories in (memory(), memory(is_padded=False)):
        assert_equal_steps(reference, native, memories)


@pytest.mark.parametrize("num_hypotheses", [1, 2, 5])
@pytest.mark.parametrize(("batch", "source"), [(1, 1), (4, 0), (2, 37)])
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_steps_of_any_sizes_equal_those_of_the_reference(batch, source, num_hypotheses):
    reference, native = decoders(positions="rotary")
    memories = memory(batch, source, is_padded=batch == 2)
    assert_equal_steps(reference, native, memories, 3, num_hypotheses)


@torch.no_grad()
def test_a_cache_grows_beyond_its_first_capacity():
    reference, native = decoders()
    num_steps = MIN_CAPACITY // 3 + 5
    assert_equal_steps(reference, native, memory(), num_steps, 3)


@torch.no_grad()
def test_learned_positions_have_an_end():
    """A step that fails changes no state."""
    reference, native = decoders(positions="learned", max_positions=2)
    ours, theirs = assert_equal_steps(reference, native, memory(), 2, 1)
    for _ in range(2):
        with pytest.raises(UserError, match="longer than the 2 learned positions"):
            native.step(tokens_of(BATCH, 1), ours)
    assert ours.cache.storage.filled == ours.cache.length
    with pytest.raises(UserError, match="longer than the 2 learned positions"):
        reference.step(tokens_of(BATCH, 1), theirs)


@pytest.mark.parametrize(
    "values",
    [
        {},
        dict(positions="rotary"),
        dict(attention=dict(score="dot", temperature=1.7)),
        dict(heads=1),
    ],
)
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_requested_weights_equal_those_of_the_reference(values):
    """From the first step and from a later one; the features have the same bits as without."""
    reference, native = decoders(**values)
    start = native.start(memory()), reference.start(memory())
    for ours, theirs in (start, assert_equal_steps(reference, native, memory(), 3, 2)):
        tokens = tokens_of(*ours.slots.shape[:2])
        for _ in range(2):
            without, _ = native.step(tokens, ours)
            output, ours = native.step(tokens, ours, need_weights=True)
            expected, theirs = reference.step(tokens, theirs, need_weights=True)
            assert isinstance(ours, NativeState)
            assert torch.equal(output.features, without.features)
            assert without.attention == ()
            assert_equal_blocks(output, expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_a_sentence_has_the_same_bits_in_any_batch(norm):
    """Alone, among others, with more padding, and with other hypotheses beside its own."""
    _, native = decoders(norm=norm, positions="rotary", activation="gelu")
    (whole,) = memory(5, 13, is_padded=False)
    mask = whole.mask.clone()
    mask[1, 9:] = mask[2, 3:] = False
    together, _ = features_of(native, (replace(whole, mask=mask),))
    for row in range(5):
        length = int(mask[row].sum())
        keys = whole.keys[row : row + 1, :length].clone()
        alone, _ = features_of(native, (Memory(keys, keys, mask[row : row + 1, :length]),))
        for ours, theirs in zip(alone, together, strict=True):
            assert torch.equal(ours[0], theirs[row])
    fewer, _ = features_of(native, (replace(whole, mask=mask),), num_hypotheses=1)
    for ours, theirs in zip(fewer, together, strict=True):
        assert torch.equal(ours[:, 0], theirs[:, 0])


@torch.inference_mode()
def state_of_inference(native):
    return native.step(torch.full((BATCH, 1), START), native.start(memory()))[1]


@torch.no_grad()
def test_a_state_of_inference_mode_goes_on_outside_it():
    reference, native = decoders()
    _, theirs = reference.step(torch.full((BATCH, 1), START), reference.start(memory()))
    tokens, ours = tokens_of(BATCH, 1), state_of_inference(native)
    expected = reference.step(tokens, theirs)[0].features
    close(native.step(tokens, ours)[0].features, expected)
    close(native.step(tokens, ours, need_weights=True)[0].features, expected)


@torch.no_grad()
def test_masks_and_keys_may_have_any_memory_layout():
    reference, native = decoders()
    for source in (BATCH, SOURCE):
        (given,) = memory(source=source)
        keys = given.keys.transpose(0, 1).contiguous().transpose(0, 1)
        memories = (Memory(keys, keys, given.mask.T.contiguous().T),)
        assert_equal_steps(reference, native, memories, 2, 2)
        keys, row = given.keys.nan_to_num(), torch.arange(source) < 2
        memories = (Memory(keys, keys, row.expand(BATCH, -1)),)
        assert_equal_steps(reference, native, memories, 2, 2)


@torch.no_grad()
def test_replaced_parameters_leave_no_dangling_address():
    """The structures keep the numbers that they refer to; a conversion makes new structures."""
    reference, native = decoders(norm="pre")
    state = native.start(memory())
    weights = native._weights
    for module in native.reference.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight = nn.Parameter(module.weight.clone(), requires_grad=False)
            module.bias.data = module.bias.data.clone()
    filler = [torch.full((SIZE,), math.nan) for _ in range(100)]
    output, _ = native.step(torch.full((BATCH, 1), START), state)
    assert native._weights is weights
    expected, _ = reference.step(torch.full((BATCH, 1), START), reference.start(memory()))
    close(output.features, expected.features)
    assert len(filler) == 100
    native.reference.norm.weight.mul_(2)
    native.float()
    assert native._weights is None
    output, _ = native.step(torch.full((BATCH, 1), START), native.start(memory()))
    reference.norm.weight.mul_(2)
    expected, _ = reference.step(torch.full((BATCH, 1), START), reference.start(memory()))
    close(output.features, expected.features)


@torch.no_grad()
def test_linear_layers_may_have_no_bias():
    model = model_of()
    for layer in model.decoder.layers:
        layer.cross_attention.key.bias = None
        layer.feed_forward.inner.bias = layer.self_attention.projection.bias = None
    assert_equal_steps(model.decoder, freeze(model).decoder, memory())


@torch.no_grad()
def test_only_known_sentences_are_kept():
    """Sentences that are done leave no slot to others."""
    reference, native = decoders(window=2)
    states = assert_equal_steps(reference, native, memory(), 3, 2)
    for state in states:
        with pytest.raises(IndexError):
            state.keep(torch.tensor([-1, 2]))
    ours = states[0].keep(torch.tensor([2, 0]))
    assert native.step(tokens_of(2, 2), ours)[1].cache.length == ours.cache.length + 2
