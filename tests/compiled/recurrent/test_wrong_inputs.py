"""Wrong tokens, states, masks, summaries and weights, which recurrent decoders in C++ reject."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from regard import kernels
from regard.models.contracts import Summary
from tests.compiled.native_steps import (
    BATCH,
    SOURCE,
    VOCABULARY,
    assert_equal_blocks,
    close,
    tokens_of,
)
from tests.compiled.recurrent.problems import SIZE, assert_equal_states, decoders, memory

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_wrong_tokens_and_states_are_rejected():
    _, native = decoders()
    state = native.start(memory())
    for tokens in (tokens_of(BATCH, 2), tokens_of(BATCH, 1)[:, 0], tokens_of(BATCH, 1).double()):
        with pytest.raises(ValueError, match="tokens: expected"):
            native.step(tokens, state)
    for token in (-1, VOCABULARY, 1 << 40):
        with pytest.raises(ValueError, match="recurrent step"):
            native.step(torch.full((BATCH, 1), token), state)
    tokens = tokens_of(BATCH, 1)
    for number in (-1, BATCH, 1 << 40):
        for name in ("entries", "parents"):
            wrong = torch.full_like(getattr(state, name), number)
            with pytest.raises(ValueError, match="recurrent step"):
                native.step(tokens, replace(state, **{name: wrong}))
    fields = ["entries", "hidden", "cell", "fed", "parents"]
    for name, change in itertools.product(fields, [lambda x: x.half(), lambda x: x[:, None]]):
        wrong = replace(state, **{name: change(getattr(state, name))})
        with pytest.raises(ValueError, match="state: expected"):
            native.step(tokens, wrong)
    _, other = decoders(decoder_layers=2)
    with pytest.raises(ValueError, match="hidden of the state"):
        other.step(tokens, state)


@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_masks_are_checked():
    """Also if every number is true, because such a mask is dropped."""
    reference, native = decoders()
    (given,) = memory(is_padded=False)
    whole = torch.ones(BATCH, SOURCE, dtype=torch.bool)
    more = torch.ones(BATCH + 1, SOURCE + 2, dtype=torch.bool)
    wrong = [
        *(whole.float(), whole.long(), whole[0], whole[:-1], whole[:, :-2], whole.to("meta")),
        *(more[:-1], more[:, :-2]),
    ]
    for mask in wrong:
        with pytest.raises(ValueError, match=r"^mask: expected \(3, 7\) of bool on cpu, got"):
            native.start((replace(given, mask=mask),))
    mask = torch.arange(SOURCE) < 4
    for right in (whole[:1], whole[:, :1], mask[None], torch.tensor([[True], [False], [True]])):
        memories = (replace(given, mask=right),)
        state = native.start(memories)
        assert (state.mask is None) == bool(right.all())
        output, _ = native.step(tokens_of(BATCH, 1), state, need_weights=True)
        expected, _ = reference.step(
            tokens_of(BATCH, 1), reference.start(memories), need_weights=True
        )
        close(output.features, expected.features)
        assert_equal_blocks(output, expected)
        assert_equal_states(
            native.step(tokens_of(BATCH, 1), state)[1],
            reference.step(tokens_of(BATCH, 1), reference.start(memories))[1],
        )


@pytest.mark.parametrize("count", [1, 2, BATCH + 1])
@torch.no_grad()
def test_summaries_of_another_number_of_sentences_are_rejected(count):
    _, native = decoders()
    states = torch.randn(2, count, 1, SIZE)
    memories = (replace(memory()[0], summary=Summary(*states)),)
    with pytest.raises(ValueError, match=rf"^summary: expected .* 3 sentences .*, got {count}$"):
        native.start(memories)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("embeddings", "parts.embedding.weight"),
        ("vector of the score", "attention.attention.score.vector"),
        ("bias of a linear layer", "parts.stack.layers.0.bias_ih_l0"),
    ],
)
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_weights_of_another_type_are_rejected(name, path):
    _, native = decoders(wiring="bahdanau")
    parameter = native.reference.get_parameter(path)
    parameter.data = parameter.data.double()
    with pytest.raises(ValueError, match=rf"^{name}: expected .* of float32 on cpu, got"):
        native.start(memory())
