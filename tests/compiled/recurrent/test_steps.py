"""Steps in C++ compared with those of `BahdanauDecoder` and `LuongDecoder`, the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch

from regard import kernels
from regard.attention import AdditiveKeys
from regard.compiled.freeze import freeze
from regard.models.contracts import Memory, Summary
from regard.names import CellKind, FeedingKind
from tests.compiled.native_steps import (
    BATCH,
    assert_equal_blocks,
    assert_equal_instruction_sets,
    assert_equal_whole_target,
    assert_independent_branches,
    assert_same_bits_with_one_thread,
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
    model_of,
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
def test_without_sentences_a_step_has_no_features():
    _, native = decoders()
    output, state = native.step(tokens_of(0, 1), native.start(memory(0, is_padded=False)))
    assert output.features.shape[:2] == (0, 1)
    output, _ = native.step(tokens_of(0, 2), state.select(torch.zeros(0, 2, dtype=torch.long)))
    assert output.features.shape[:2] == (0, 2)


@pytest.mark.parametrize("values", WIRINGS)
@torch.no_grad()
def test_steps_equal_the_whole_target(values):
    assert_equal_whole_target(*decoders(**values), memory())


@pytest.mark.parametrize("values", WIRINGS)
@torch.no_grad()
def test_kept_sentences_go_on_alone(values):
    reference, native = decoders(**values)
    ours, theirs = assert_equal_steps(reference, native, memory(), 3, 2)
    for sentences in ([2, 0], [1], [0, 0, 0], []):
        index = torch.tensor(sentences, dtype=torch.long)
        tokens = tokens_of(len(sentences), 2)
        output, state = native.step(tokens, ours.keep(index))
        expected, other = reference.step(tokens, theirs.keep(index))
        close(output.features, expected.features)
        assert_equal_states(state, other)


@torch.no_grad()
def test_branches_of_a_state_are_independent():
    reference, native = decoders(wiring="luong", feeding="context")
    states = assert_equal_steps(reference, native, memory(), 2, 2)
    assert_independent_branches(reference, native, *states)


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
@pytest.mark.usefixtures("two_threads")
@torch.no_grad()
def test_threads_change_no_bit(wiring):
    """With products and attention large enough for two threads."""
    native = freeze(model_of(size=144, wiring=wiring)).decoder
    keys = torch.randn(6, 300, 144)
    summary = Summary(torch.randn(6, 1, 144), torch.randn(6, 1, 144))
    memories = (Memory(keys, keys, torch.rand(6, 300) < 0.8, summary),)
    assert_same_bits_with_one_thread(native, memories)


@torch.no_grad()
def test_the_instruction_set_may_change_between_steps():
    assert_equal_instruction_sets(*decoders(), memory())
