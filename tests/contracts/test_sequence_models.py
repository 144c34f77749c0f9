"""What every encoder with every decoder must hold, whatever attends inside."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from regard.build import build_recurrent
from regard.config import AttentionConfig, RecurrentConfig
from regard.data.batch import PAD, START, Tokens, pad

NUM_SOURCE, NUM_TARGET = 13, 17
SIZES = RecurrentConfig(hidden=7, embedding=5, attention=AttentionConfig(size=11))
SCORES = ("dot", "scaled_dot", "general", "additive", "concat", "shared_additive", "cosine")
NORMALISERS = ("softmax", "sparsemax", "entmax15")


def variants():
    """Every wiring, cell, feeding and output; then every score with every normaliser."""
    for cell, (wiring, feeding), output in product(
        ("elman", "gru", "lstm"),
        [
            ("bahdanau", "none"),
            ("luong", "none"),
            ("luong", "context"),
            ("luong", "attentional"),
            ("plain", "none"),
        ],
        ("linear", "tanh", "deep"),
    ):
        yield replace(
            SIZES, cell=cell, wiring=wiring, feeding=feeding, output=output, bidirectional=True
        )
    for score, normaliser, wiring in product(SCORES, NORMALISERS, ("bahdanau", "luong")):
        attention = AttentionConfig(score=score, size=11, normaliser=normaliser)
        yield replace(SIZES, wiring=wiring, attention=attention)
    for bridge, layers in product(("copy", "linear", "zero"), (1, 2)):
        yield replace(SIZES, bridge=bridge, layers=layers)


def name(config):
    parts = (config.wiring, config.cell, config.feeding, config.output, config.bridge)
    return "-".join((*parts, config.attention.score, config.attention.normaliser))


@pytest.fixture(params=list(variants()), ids=name)
def model(request):
    torch.manual_seed(3)
    return build_recurrent(request.param, NUM_SOURCE, NUM_TARGET).double().eval()


@pytest.fixture
def source():
    return pad([[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]])


@pytest.fixture
def inputs():
    return torch.tensor([[START, 4, 5, 6], [START, 7, 8, 16], [START, 9, 15, 3]])


def weights(output):
    return output.attention[0].weights if output.attention else torch.zeros(())


@torch.no_grad()
def test_stepping_equals_reading(model, source, inputs):
    memories = model.encode(source)
    whole = model.decoder(inputs, memories, need_weights=True)
    state = model.decoder.start(memories)
    for position in range(inputs.size(1)):
        token = inputs[:, position : position + 1]
        step, state = model.decoder.step(token, state, need_weights=True)
        torch.testing.assert_close(step.features[:, 0], whole.features[:, position])
        if whole.attention:
            torch.testing.assert_close(weights(step)[:, :, :, 0], weights(whole)[:, :, :, position])


@torch.no_grad()
def test_asking_for_weights_changes_nothing(model, source, inputs):
    memories = model.encode(source)
    asked = model.decoder(inputs, memories, need_weights=True)
    plain = model.decoder(inputs, memories)
    torch.testing.assert_close(asked.features, plain.features)
    assert plain.attention == ()
    for block in asked.attention:
        assert block.kind == "cross"
        assert block.weights.shape == (3, 1, 1, 4, 5)
        sums = block.weights.sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
        hidden = ~source.mask[:, None, None, None].expand_as(block.weights)
        assert block.weights[hidden].eq(0).all()


@torch.no_grad()
def test_batched_equals_one_by_one_and_padding_changes_nothing(model, source, inputs):
    together = model.decoder(inputs, model.encode(source), need_weights=True)
    for row in range(3):
        length = int(source.mask[row].sum())
        alone = Tokens(source.ids[row : row + 1, :length], source.mask[row : row + 1, :length])
        more = Tokens(
            torch.nn.functional.pad(alone.ids, (0, 4), value=PAD),
            torch.nn.functional.pad(alone.mask, (0, 4), value=False),
        )
        for given in (alone, more):
            single = model.decoder(inputs[row : row + 1], model.encode(given), need_weights=True)
            torch.testing.assert_close(single.features[0], together.features[row])
            if together.attention:
                torch.testing.assert_close(
                    weights(single)[0, ..., :length], weights(together)[row, ..., :length]
                )


@torch.no_grad()
def test_state_selects_hypotheses_and_keeps_sentences(model, source):
    decoder = model.decoder
    _, state = decoder.step(torch.full((3, 1), START), decoder.start(model.encode(source)))
    state = state.select(torch.zeros(3, 2, dtype=torch.long))
    tokens = torch.tensor([[4, 5], [6, 7], [8, 9]])
    output, state = decoder.step(tokens, state)
    swapped, _ = decoder.step(tokens, state.select(torch.tensor([[1, 0], [0, 1], [1, 1]])))
    kept, _ = decoder.step(tokens[[2, 0]], state.keep(torch.tensor([2, 0])))
    straight, _ = decoder.step(tokens, state)
    assert output.features.shape[:2] == (3, 2)
    assert not torch.equal(output.features[:, 0], output.features[:, 1])
    torch.testing.assert_close(swapped.features[1], straight.features[1])
    torch.testing.assert_close(kept.features, straight.features[[2, 0]])
    one, _ = decoder.step(tokens[:, :1], state.select(torch.tensor([[1], [1], [1]])))
    torch.testing.assert_close(swapped.features[0, 0], one.features[0, 0])


def test_two_calls_give_the_same_answer_and_leave_nothing_behind(model, source, inputs):
    before = {key: value.clone() for key, value in model.state_dict().items()}
    memories = model.encode(source)
    first = model.decoder(inputs, memories).features
    model.decoder(inputs.flip(0), model.encode(source))
    second = model.decoder(inputs, memories).features
    assert torch.equal(first, second)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not [name for name, _ in model.named_buffers()]
