"""Steps in C++ compared with those of `BahdanauDecoder` and `LuongDecoder`, the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch.autograd import forward_ad

from regard import kernels
from regard.attention import AdditiveKeys
from regard.models.recurrent.parts import RecurrentState
from regard.names import CellKind, FeedingKind
from tests.compiled.native_steps import (
    BATCH,
    assert_equal_blocks,
    close,
    tokens_of,
)
from tests.compiled.recurrent.problems import (
    SIZE,
    WIRINGS,
    assert_equal_states,
    assert_equal_steps,
    decoders,
    memory,
)

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

SCORES = [
    dict(score=score, temperature=temperature)
    for score in ("dot", "scaled_dot", "general", "additive", "concat", "shared_additive")
    for temperature in (1.0, 1.7)
]
OUTPUTS = ("state", "linear", "tanh", "deep", "summed")
VARIANTS = [
    *(dict(wiring=w, cell=c, decoder_layers=n) for w in ("bahdanau", "luong")
      for c in get_args(CellKind) for n in (1, 3)),
    *(dict(wiring=w, attention=a) for w in ("bahdanau", "luong") for a in SCORES),
    *(dict(wiring=w, output=o) for w in ("bahdanau", "luong") for o in OUTPUTS
      if (w, o) != ("luong", "state")),
    *(dict(wiring="luong", feeding=f, output=o) for f in get_args(FeedingKind)
      for o in ("tanh", "linear")),
    *(dict(wiring=w, query="first_layer", decoder_layers=2) for w in ("bahdanau", "luong")),
]  # fmt: skip


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("values", VARIANTS, ids=lambda x: "-".join(map(str, x.values())))
@torch.no_grad()
def test_steps_equal_those_of_the_reference(values, need_weights):
    reference, native = decoders(**values)
    for is_padded in (True, False):
        assert_equal_steps(
            reference, native, memory(is_padded=is_padded), need_weights=need_weights
        )


@pytest.mark.parametrize("num_hypotheses", [1, 2, 5, 9])
@pytest.mark.parametrize(("batch", "source"), [(1, 1), (4, 0), (2, 37)])
@pytest.mark.parametrize("values", WIRINGS)
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_steps_of_any_sizes_equal_those_of_the_reference(values, batch, source, num_hypotheses):
    reference, native = decoders(**values)
    memories = memory(batch, source, is_padded=batch == 2)
    assert_equal_steps(reference, native, memories, 3, num_hypotheses)


@pytest.mark.parametrize("values", WIRINGS)
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_thousands_of_steps_equal_those_of_the_reference(values):
    """Hypotheses are selected in every step; sentences leave now and then, in any order."""
    reference, native = decoders(**values)
    generator = torch.Generator().manual_seed(1)
    for start in range(25):
        memories = memory(7, 1 + start % 11, is_padded=start % 2 == 1)
        ours, theirs = native.start(memories), reference.start(memories)
        batch, width = 7, 1
        for step in range(40):
            tokens = tokens_of(batch, width, step)
            output, ours = native.step(tokens, ours)
            expected, theirs = reference.step(tokens, theirs)
            close(output.features, expected.features)
            parents = torch.randint(width, (batch, 1 + step % 6), generator=generator)
            ours, theirs = ours.select(parents), theirs.select(parents)
            width = parents.size(1)
            if step % 9 == 8 and batch > 1:
                rest = torch.randperm(batch, generator=generator)[: batch - 1]
                ours, theirs, batch = ours.keep(rest), theirs.keep(rest), batch - 1
        assert_equal_states(ours, theirs)


@torch.no_grad()
def test_large_keys_have_split_powers():
    reference, native = decoders(wiring="bahdanau")
    (given,) = memory(is_padded=False)
    keys = given.keys * 300
    memories = (replace(given, keys=keys, values=keys),)
    state = native.start(memories)
    assert state.powers.size(2) == 2 * state.keys.size(2)
    assert_equal_steps(reference, native, memories, need_weights=True)


@pytest.mark.parametrize("factor", [1, 20, 60])
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_keys_without_powers(factor):
    """In and beyond the range of float32 powers."""
    reference, native = decoders(wiring="bahdanau", attention=dict(size=256))
    (given,) = memory(is_padded=False)
    memories, tokens = (replace(given, keys=given.keys * factor),), tokens_of(BATCH, 1)
    state = native.start(memories)
    prepared = AdditiveKeys(state.keys)
    state = replace(state, memory=replace(state.memory, prepared=prepared))
    output, _ = native.step(tokens, state, need_weights=True)
    expected, _ = reference.step(tokens, reference.start(memories), need_weights=True)
    close(output.features, expected.features)
    assert_equal_blocks(output, expected)


@torch.no_grad()
def test_values_may_have_another_size_than_keys():
    reference, native = decoders(
        wiring="luong", key_layers=(0, -1), attention=dict(score="general")
    )
    torch.manual_seed(2)
    keys = torch.randn(2, 5, native.reference.attention.attention.score.key.in_features)
    values = torch.randn(2, 5, SIZE)
    assert keys.size(2) != SIZE
    (given,) = memory(2, 5, is_padded=False)
    assert_equal_steps(reference, native, (replace(given, keys=keys, values=values),))


@pytest.mark.parametrize("wiring", ["luong", "bahdanau"])
@torch.no_grad()
def test_the_reference_goes_on_from_a_native_state(wiring):
    """In the middle of a search, under a transform."""
    reference, native = decoders(wiring=wiring)
    ours, theirs = assert_equal_steps(reference, native, memory(), 3, 2)
    sentences = torch.tensor([1, 0])
    ours, theirs = ours.keep(sentences), theirs.keep(sentences)
    tokens = tokens_of(2, 2)
    with forward_ad.dual_level():
        output, ours = native.step(tokens, ours)
    expected, theirs = reference.step(tokens, theirs)
    assert isinstance(ours, RecurrentState)
    close(output.features, expected.features)
    close(native.step(tokens, ours)[0].features, reference.step(tokens, theirs)[0].features)
