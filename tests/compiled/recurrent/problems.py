"""Models, memories and comparisons for the tests of recurrent decoders in C++."""

from __future__ import annotations

from functools import partial

import torch

from regard.compiled.freeze import freeze
from regard.compiled.recurrent.decoder import NativeRecurrentDecoder
from regard.models.contracts import Memory, Summary
from tests import configs
from tests.compiled import native_steps
from tests.compiled.native_steps import (
    BATCH,
    SOURCE,
    VOCABULARY,
    assert_equal_blocks,
    close,
    masked_keys,
    random_model,
)

SIZE = 14
WIRINGS = [
    dict(wiring="luong", attention=dict(score="general"), output="tanh"),
    dict(wiring="luong", feeding="attentional", output="tanh"),
    dict(wiring="bahdanau", cell="gru", output="deep"),
]

assert_reference_steps = partial(native_steps.assert_reference_steps, need_weights=True)


def model_of(**values):
    """Return a model whose biases have an effect."""
    config = configs.recurrent(
        **{"size": SIZE, "embedding": 5, "bridge": "linear", "bidirectional": True, **values}
    )
    return random_model(config, 13, VOCABULARY)


def decoders(**values):
    """Return the reference and the decoder of the frozen model."""
    model = model_of(**values)
    native = freeze(model).decoder
    assert isinstance(native, NativeRecurrentDecoder)
    return model.decoder, native


def memory(batch=BATCH, source=SOURCE, *, is_padded=True, layers=1, cell=True):
    """Return a memory with NaN at hidden positions. The last sentence has no visible position."""
    generator = torch.Generator().manual_seed(3)
    keys, mask = masked_keys(batch, source, SIZE, generator, is_padded=is_padded)
    states = torch.randn(2, batch, layers, SIZE, generator=generator)
    return (Memory(keys, keys, mask, Summary(states[0], states[1] if cell else None)),)


def assert_equal_states(ours, theirs):
    """Compare a native state with a state of the reference."""
    plain = ours.plain()
    close(plain.hidden, theirs.hidden)
    close(plain.fed, theirs.fed)
    assert (plain.cell is None) == (theirs.cell is None)
    if plain.cell is not None:
        close(plain.cell, theirs.cell)


def assert_equal_steps(
    reference, native, memories, num_steps=4, num_hypotheses=3, need_weights=False
):
    """Compare features, logits, attention and states of steps."""
    visible = memories[0].mask[:, None, None, None]

    def compare(output, expected, ours, theirs):
        assert_equal_blocks(output, expected, visible)
        assert_equal_states(ours, theirs)

    return native_steps.assert_equal_steps(
        *(reference, native, memories, num_steps, num_hypotheses),
        compare=compare,
        need_weights=need_weights,
    )
