"""Steps in C++ of both families of decoders: what does not depend on the parts of a decoder."""

from __future__ import annotations

import pytest
import torch

from regard import kernels
from regard.compiled.freeze import freeze
from regard.data.batch import PAD, START
from regard.models.contracts import Memory, Summary
from tests import configs
from tests.compiled.native_steps import BATCH, NATIVE, close, features_of, tokens_of
from tests.compiled.recurrent import problems as recurrent
from tests.compiled.transformer import problems as transformer

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

every_decoder = pytest.mark.parametrize(
    ("problems", "values"),
    [
        *((recurrent, values) for values in recurrent.WIRINGS),
        (transformer, dict(positions="rotary")),
        (transformer, dict(window=2)),
    ],
)


@every_decoder
@torch.no_grad()
def test_without_sentences_a_step_has_no_features(problems, values):
    _, native = problems.decoders(**values)
    output, state = native.step(tokens_of(0, 1), native.start(problems.memory(0, is_padded=False)))
    assert output.features.shape[:2] == (0, 1)
    output, _ = native.step(tokens_of(0, 2), state.select(torch.zeros(0, 2, dtype=torch.long)))
    assert output.features.shape[:2] == (0, 2)


@every_decoder
@torch.no_grad()
def test_steps_equal_the_whole_target(problems, values):
    """And the call for a whole target equals that of the reference."""
    reference, native = problems.decoders(**values)
    memories = problems.memory()
    inputs = torch.cat([torch.full((BATCH, 1), START), tokens_of(BATCH, 5)], dim=1)
    assert PAD not in inputs
    expected, state = reference(inputs, memories).features, native.start(memories)
    close(native(inputs, memories).features, expected)
    for position in range(6):
        output, state = native.step(inputs[:, position : position + 1], state)
        close(output.features[:, 0], expected[:, position])


@every_decoder
@torch.no_grad()
def test_kept_sentences_go_on_alone(problems, values):
    reference, native = problems.decoders(**values)
    ours, theirs = problems.assert_equal_steps(reference, native, problems.memory(), 3, 2)
    for sentences in ([2, 0], [1], [0, 0, 0], []):
        index = torch.tensor(sentences, dtype=torch.long)
        states = ours.keep(index), theirs.keep(index)
        for step in range(2):
            tokens = tokens_of(len(sentences), 2, step)
            output, mine = native.step(tokens, states[0])
            expected, right = reference.step(tokens, states[1])
            close(output.features, expected.features)
            states = mine, right


@every_decoder
@torch.no_grad()
def test_branches_of_a_state_are_independent(problems, values):
    """Steps from a state do not change the results of other steps from this state."""
    reference, native = problems.decoders(**values)
    branches = [problems.assert_equal_steps(reference, native, problems.memory(), 2, 2)] * 3
    for step in range(3):
        for number, (mine, right) in enumerate(branches):
            tokens = tokens_of(BATCH, 2, 10 * step + number)
            output, mine = native.step(tokens, mine)
            expected, right = reference.step(tokens, right)
            close(output.features, expected.features)
            branches[number] = mine, right


@pytest.mark.parametrize(
    "model",
    [
        *(
            lambda wiring=wiring: recurrent.model_of(size=144, wiring=wiring)
            for wiring in ("luong", "bahdanau")
        ),
        lambda: transformer.model_of(
            configs.changed(transformer.CONFIG, size=144, feed_forward=300)
        ),
    ],
    ids=["Luong", "Bahdanau", "Transformer"],
)
@pytest.mark.usefixtures("two_threads")
@torch.no_grad()
def test_threads_change_no_bit(model):
    """With products and attention large enough for two threads."""
    native = freeze(model()).decoder
    keys, summary = torch.randn(6, 300, 144), Summary(*torch.randn(2, 6, 1, 144))
    memories = (Memory(keys, keys, torch.rand(6, 300) < 0.8, summary),)
    together, _ = features_of(native, memories, num_hypotheses=5)
    torch.set_num_threads(1)
    alone, _ = features_of(native, memories, num_hypotheses=5)
    for ours, theirs in zip(alone, together, strict=True):
        assert torch.equal(ours, theirs)


@every_decoder
@torch.no_grad()
def test_the_instruction_set_may_change_between_steps(problems, values):
    reference, native = problems.decoders(**values)
    best, memories = kernels.lanes(), problems.memory()
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
