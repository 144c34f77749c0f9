"""Equations of the recurrent decoders, compared with plain loops."""

from dataclasses import replace
from typing import get_args

import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import START, pad
from regard.errors import UserError
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.contracts import Summary
from regard.models.recurrent.bridge import CopyBridge, LinearBridge, ZeroBridge
from regard.models.recurrent.output import DeepOutput, SummedOutput, TanhOutput
from regard.names import FeedingKind
from tests import configs


def elman(layer, inputs, state):
    weights = [getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh")]
    biases = layer.bias_ih_l0 + layer.bias_hh_l0
    return torch.tanh(inputs @ weights[0].T + state @ weights[1].T + biases)


def additive(attention, query, keys):
    """Return the softmax over j of v . tanh(W1 k_j + W2 q), and its mixture of the keys."""
    scores = attention.score(query[None], attention.score.prepare(keys))[0]
    weights = torch.softmax(scores, dim=0)
    return weights @ keys, weights


class Raised(RecurrentStack):
    """Stack whose outputs are its states plus a number, as skip connections add their inputs."""

    above = 0.5

    def forward(self, inputs, hidden, cell=None):
        output = super().forward(inputs, hidden, cell)
        return replace(output, outputs=tuple(layer + self.above for layer in output.outputs))


def models(wiring, **changes):
    config = configs.recurrent(
        wiring=wiring,
        cell="elman",
        size=7,
        embedding=5,
        bridge="copy",
        attention=dict(size=11),
        **changes,
    )
    torch.manual_seed(1)
    return build_translation(config, 13, 17).double()


def with_outputs_above_states(decoder, above):
    """Return the decoder, with a stack whose outputs are above its states by this number."""
    if above:
        plain = decoder.parts.stack
        decoder.parts.stack = Raised("elman", plain.input_size, 7).double()
        decoder.parts.stack.load_state_dict(plain.state_dict())
    return decoder


@pytest.mark.parametrize("above", [0, Raised.above])
@torch.no_grad()
def test_bahdanau_attends_then_updates(above):
    model = models("bahdanau", output="linear")
    (memory,) = model.encode(pad([[4, 5, 6]]))
    decoder = with_outputs_above_states(model.decoder, above)
    inputs = torch.tensor([[START, 4, 5]])
    output = decoder(inputs, (memory,), need_weights=True)
    state = memory.summary.hidden[0, 0]
    for position, token in enumerate(inputs[0]):
        context, weights = additive(decoder.attention.attention, state, memory.keys[0])
        embedded = decoder.parts.embedding.weight[token]
        state = elman(decoder.parts.stack.layers[0], torch.cat([embedded, context]), state)
        features = torch.cat([context, state + above])
        torch.testing.assert_close(output.features[0, position], features)
        torch.testing.assert_close(output.attention[0].weights[0, 0, 0, position], weights)


@pytest.mark.parametrize("above", [0, Raised.above])
@pytest.mark.parametrize("feeding", get_args(FeedingKind))
@torch.no_grad()
def test_luong_updates_then_attends(feeding, above):
    model = models("luong", output="tanh", feeding=feeding)
    (memory,) = model.encode(pad([[4, 5, 6]]))
    decoder = with_outputs_above_states(model.decoder, above)
    inputs = torch.tensor([[START, 4, 5]])
    output = decoder(inputs, (memory,), need_weights=True)
    state = memory.summary.hidden[0, 0]
    fed = {"none": state[:0], "context": torch.zeros_like(memory.keys[0, 0])}.get(
        feeding, torch.zeros_like(state)
    )
    for position, token in enumerate(inputs[0]):
        inputs_now = torch.cat([decoder.parts.embedding.weight[token], fed])
        state = elman(decoder.parts.stack.layers[0], inputs_now, state)
        top = state + above
        context, weights = additive(decoder.attention.attention, top, memory.keys[0])
        attentional = torch.tanh(decoder.parts.output.projection.weight @ torch.cat([context, top]))
        torch.testing.assert_close(output.features[0, position], attentional)
        torch.testing.assert_close(output.attention[0].weights[0, 0, 0, position], weights)
        fed = {"none": fed, "context": context, "attentional": attentional}[feeding]


@torch.no_grad()
def test_plain_decoder_sees_only_the_summary():
    model = models("plain", output="linear")
    (memory,) = model.encode(pad([[4, 5, 6]]))
    inputs = torch.tensor([[START, 4, 5]])
    changed = type(memory)(memory.keys + 1, memory.values - 1, memory.mask, memory.summary)
    assert torch.equal(
        model.decoder(inputs, (memory,)).features, model.decoder(inputs, (changed,)).features
    )
    summary = Summary(memory.summary.hidden + 0.1)
    moved = type(memory)(memory.keys, memory.values, memory.mask, summary)
    assert not torch.allclose(
        model.decoder(inputs, (memory,)).features, model.decoder(inputs, (moved,)).features
    )


def test_two_memories_are_refused():
    model = models("luong")
    memories = model.encode(pad([[4, 5]]))
    with pytest.raises(ValueError, match="one memory, got 2"):
        model.decoder.start(memories * 2)


def test_outputs_equal_the_papers_formulas():
    state, context, embedded = torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 7)
    tanh = TanhOutput(3, 5, 11)
    expected = torch.tanh(torch.cat([context, state], dim=1) @ tanh.projection.weight.T)
    torch.testing.assert_close(tanh(state, context, embedded), expected)
    deep = DeepOutput(3, 5, 7, 11)
    flat = deep.projection(torch.cat([state, embedded, context], dim=1))
    expected = torch.stack([flat[:, 0::2], flat[:, 1::2]]).max(dim=0).values
    torch.testing.assert_close(deep(state, context, embedded), expected)
    summed = SummedOutput(3, 5, 7)
    of_state, of_context = summed.projection.weight.split([3, 5], dim=1)
    expected = embedded + state @ of_state.T + context @ of_context.T + summed.projection.bias
    torch.testing.assert_close(summed(state, context, embedded), expected)


def test_decoders_start_from_every_bridge():
    summary = Summary(torch.randn(2, 3, 5))
    assert torch.equal(CopyBridge(with_cell=True)(summary).hidden, summary.hidden)
    assert CopyBridge(with_cell=True)(summary).cell.eq(0).all()
    linear = LinearBridge(15, 1, 7, with_cell=True)(summary)
    assert linear.hidden.shape == linear.cell.shape == (2, 1, 7)
    assert linear.hidden.abs().max() < 1
    assert ZeroBridge(1, 7, with_cell=True)(summary).hidden.eq(0).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(encoder_size=14, bridge="copy"), "model.decoder.bridge is copy"),
        (dict(encoder_size=14, attention=dict(score="dot")), "queries have 7"),
        (dict(tied="all"), "one vocabulary for both sides"),
        (dict(tied="output", output="linear"), "of the size of the embeddings"),
    ],
)
def test_inconsistent_sizes_name_both_parts(changes, words):
    with pytest.raises(UserError, match=words):
        build_translation(configs.recurrent(size=7, embedding=5, **changes), 13, 17)


def test_an_encoder_may_have_a_size_of_its_own():
    """Each direction has half of the decoder's size, so the last state has the size of the first
    one."""
    sizes = dict(size=14, embedding=5, bidirectional=True)
    model = build_translation(configs.recurrent(bridge="copy", **sizes), 13, 17)
    (memory,) = model.encode(pad([[4, 5, 6]]))
    assert memory.keys.shape == (1, 3, 14)
    assert model.decoder.start((memory,)).hidden.shape == (1, 1, 1, 14)


def test_tied_weights_are_one():
    config = configs.recurrent(size=7, embedding=7, tied="all", output="tanh")
    model = build_translation(config, 13, 13)
    assert model.decoder.parts.projection.weight is model.encoder.embedding.weight
    assert model.encoder.embedding.weight.std() < 0.6
