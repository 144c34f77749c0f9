"""The Transformer compared with PyTorch's layers and stacks of the same weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.attention import CAUSAL, KVCache
from regard.building.translators import build_translation
from regard.data.batch import START, pad, pair_batch
from regard.errors import UserError
from regard.layers.residual import PostNorm, PreNorm
from regard.models.transformer import DecoderArguments, EncoderArguments
from tests import configs

SIZE, HEADS, INNER = 12, 3, 11
CONFIG = configs.transformer(size=SIZE, heads=HEADS, feed_forward=INNER, layers=2, decoder_layers=3)
SOURCES = {"padded": [[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]], "full": [[4, 5, 6], [7, 8, 9]]}
VARIANTS = [(norm, activation) for norm in ("pre", "post") for activation in ("relu", "gelu")]


@pytest.fixture(params=VARIANTS, ids="-".join)
def model(request):
    norm, activation = request.param
    torch.manual_seed(5)
    model = build_translation(configs.changed(CONFIG, norm=norm, activation=activation), 13, 17)
    for weight in model.parameters():  # biases and norms that could not be left out unseen
        nn.init.normal_(weight, std=0.5)
    return model.double().eval()


@pytest.fixture(params=SOURCES)
def source(request):
    return pad(SOURCES[request.param])


def copied(theirs, ours):
    """Return PyTorch's layer with our weights, projection by projection."""

    def attention(into, projection, output):
        into.in_proj_weight.copy_(projection[0])
        into.in_proj_bias.copy_(projection[1])
        into.out_proj.load_state_dict(output.state_dict())

    norms = [ours.self_residual, ours.feed_forward_residual]
    with torch.no_grad():
        joined = ours.self_attention.projection
        attention(theirs.self_attn, (joined.weight, joined.bias), ours.self_attention.heads.output)
        if hasattr(theirs, "multihead_attn"):
            norms.insert(1, ours.cross_residual)
            apart = ours.cross_attention
            parts = (apart.query, apart.key, apart.value)
            weight = torch.cat([part.weight for part in parts])
            bias = torch.cat([part.bias for part in parts])
            attention(theirs.multihead_attn, (weight, bias), apart.heads.output)
        theirs.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
        theirs.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
        for number, around in enumerate(norms, 1):
            getattr(theirs, f"norm{number}").load_state_dict(around.norm.state_dict())
    return theirs


def settings(layer):
    return dict(
        d_model=SIZE,
        nhead=HEADS,
        dim_feedforward=INNER,
        dropout=0.0,
        activation=layer.feed_forward.activation,
        batch_first=True,
        norm_first=isinstance(layer.self_residual, PreNorm),
        dtype=torch.double,
    )


def encoder_layer(ours):
    return copied(nn.TransformerEncoderLayer(**settings(ours)), ours)


def decoder_layer(ours):
    return copied(nn.TransformerDecoderLayer(**settings(ours)), ours)


def of_torch(model):
    """Return PyTorch's stacks. With norms after sublayers our stacks have no last norm."""
    of_layer = settings(model.encoder.layers[0])
    theirs = nn.Transformer(num_encoder_layers=2, num_decoder_layers=3, **of_layer).eval()
    parts = (
        (theirs.encoder, model.encoder, encoder_layer),
        (theirs.decoder, model.decoder, decoder_layer),
    )
    for stack, ours, copy in parts:
        assert len(stack.layers) == len(ours.layers)
        stack.layers = nn.ModuleList(copy(layer) for layer in ours.layers)
        stack.norm = ours.norm if isinstance(ours.norm, nn.LayerNorm) else None
    return theirs


def same(result, expected):
    torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("need_weights", [False, True])
def test_an_encoder_layer_equals_torchs(model, source, need_weights):
    layer = model.encoder.layers[1]
    states = torch.randn(*source.ids.shape, SIZE, dtype=torch.double)
    shared = EncoderArguments(source.mask[:, None], lambda x: x, need_weights)
    output = layer(states, shared)
    result = output.states
    expected = encoder_layer(layer)(states, src_key_padding_mask=~source.mask)
    same(result[source.mask], expected[source.mask])
    if need_weights:
        read = layer.self_residual.before(states)
        _, weights = encoder_layer(layer).self_attn(
            read, read, read, key_padding_mask=~source.mask, average_attn_weights=False
        )
        same(output.attention.weights, weights)


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_decoder_layer_equals_torchs(model, source, need_weights):
    layer = model.decoder.layers[1]
    states = torch.randn(len(source.ids), 7, SIZE, dtype=torch.double)
    memory = torch.randn(*source.ids.shape, SIZE, dtype=torch.double)
    shared = DecoderArguments(CAUSAL, source.mask[:, None], lambda x: x, need_weights)
    prepared = layer.cross_attention.prepare(memory, memory)
    result = layer(states, prepared, shared, KVCache())
    expected = decoder_layer(layer)(
        states,
        memory,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.double),
        memory_key_padding_mask=~source.mask,
    )
    same(result.states, expected)
    if not need_weights:
        assert result.self_attention.weights is None
        assert result.cross_attention.weights is None
        return
    theirs, read = decoder_layer(layer), layer.self_residual.before(states)
    down = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.double)
    after, weights = theirs.self_attn(read, read, read, attn_mask=down, average_attn_weights=False)
    same(result.self_attention.weights, weights)
    read = layer.cross_residual.before(layer.self_residual.after(states, after))
    _, weights = theirs.multihead_attn(
        read, memory, memory, key_padding_mask=~source.mask, average_attn_weights=False
    )
    same(result.cross_attention.weights, weights)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_stacks_equal_torchs_with_gradients(model, source):
    inputs = torch.randint(4, 17, (len(source.ids), 6))
    encoded = model.encoder(source)
    features = model.decoder(inputs, model.build_memory(encoded)).features
    theirs = of_torch(model)
    down = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.double)
    below = model.encoder.embedder(source.ids, range(source.ids.size(1)))
    expected = theirs(
        below,
        model.decoder.embedder(inputs, range(6)),
        tgt_mask=down,
        src_key_padding_mask=~source.mask,
        memory_key_padding_mask=~source.mask,
    )
    same(features, expected)
    same(encoded.layers[0], below)
    upstream = torch.randn_like(features)
    leaves = (model.encoder.embedder.embedding.weight, model.decoder.embedder.embedding.weight)
    same(
        torch.autograd.grad(features, leaves, upstream),
        torch.autograd.grad(expected, leaves, upstream),
    )


def test_memories_have_every_layer_and_the_last_is_normalised(model, source):
    layers = model.encoder(source).layers
    assert len(layers) == 3
    states = layers[0]
    shared = EncoderArguments(source.mask[:, None], lambda x: x, need_weights=False)
    for number, layer in enumerate(model.encoder.layers, 1):
        states = layer(states, shared).states
        same(layers[number], model.encoder.norm(states) if number == 2 else states)


def test_embeddings_are_scaled_and_have_positions():
    model = build_translation(configs.changed(CONFIG, positions="rotary", dropout=0.0), 13, 17)
    result = model.decoder.embedder(torch.tensor([[4, 5]]), range(2))
    same(result[0], SIZE**0.5 * model.decoder.embedder.embedding.weight[4:6])


def test_initial_weights_have_glorots_bounds():
    """Glorot's bound holds for each stacked matrix, and scaled embeddings have a deviation of
    one."""
    model = build_translation(
        configs.transformer(size=64, heads=4, feed_forward=96, tied="all"), 997, 997
    )
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and "embedding" not in name:
            columns = 64 if "self_attention.projection" in name else weight.size(0)
            bound = (6 / (columns + weight.size(1))) ** 0.5
            assert 0.97 * bound < weight.abs().max() <= bound, name
            if "self_attention.projection" in name:
                assert all(part.abs().max() > 0.97 * bound for part in weight.chunk(3))
        elif name.endswith("bias"):
            assert not weight.any(), name
    spread = 64**0.5 * model.encoder.embedder.embedding.weight.std().item()
    assert spread == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("around", [PreNorm, PostNorm])
def test_dropout_applies_to_sublayers_before_the_residual(around):
    residual = around(5, dropout=1.0).train()
    states = torch.randn(2, 5)
    expected = states if around is PreNorm else residual.norm(states)
    assert torch.equal(residual.after(states, torch.randn(2, 5)), expected)


def test_dropout_applies_to_embeddings_with_positions():
    model = build_translation(configs.changed(CONFIG, dropout=0.9), 13, 17).train()
    torch.manual_seed(0)
    states = model.encoder.embedder(torch.tensor([[4, 5] * 50]), range(100))
    assert (states == 0).float().mean().item() == pytest.approx(0.9, abs=0.02)


def test_tied_weights_are_one_parameter():
    model = build_translation(configs.changed(CONFIG, tied="all"), 13, 13)
    assert model.decoder.projection.weight is model.encoder.embedder.embedding.weight
    model = build_translation(configs.changed(CONFIG, tied="output"), 13, 17)
    assert model.decoder.projection.weight is model.decoder.embedder.embedding.weight
    assert model.decoder.projection.weight is not model.encoder.embedder.embedding.weight
    with pytest.raises(UserError, match="one vocabulary for both sides"):
        build_translation(configs.changed(CONFIG, tied="all"), 13, 17)


def test_two_memories_are_refused():
    model = build_translation(CONFIG, 13, 17)
    with pytest.raises(ValueError, match="one memory, got 2"):
        model.decoder.start(model.encode(pad([[4, 5]])) * 2)


@torch.no_grad()
def test_a_source_that_is_all_padding_gives_no_nan():
    model = build_translation(CONFIG, 13, 17).eval()
    source = pad([[4, 5], [6, 7]])
    hidden = replace(source, mask=source.mask & torch.tensor([[True], [False]]))
    for need_weights in (False, True):
        encoded = model.encoder(hidden, need_weights=need_weights)
        inputs = torch.tensor([[START, 4], [START, 4]])
        output = model.decoder(inputs, model.build_memory(encoded), need_weights=need_weights)
        assert output.features.isfinite().all()
    for block in encoded.attention + output.attention:
        if block.kind != "decoder":
            assert not block.weights[1].any()


@pytest.mark.parametrize("score", ["scaled_dot", "additive", "general"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_every_parameter_has_a_gradient(score, positions):
    """A few updates on one batch lower its loss, and every parameter changes."""
    attention = dict(score=score, size=7)
    torch.manual_seed(2)
    model = build_translation(
        configs.changed(CONFIG, positions=positions, attention=attention), 13, 17
    ).train()
    batch = pair_batch([[4, 5, 6, 2], [7, 2]], [[5, 4, 2], [8, 9, 10, 2]])
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(12):
        output = model(batch)
        loss = nn.functional.cross_entropy(output.logits, output.targets)
        losses.append(loss.item())
        loss.backward()
        adam.step()
        adam.zero_grad()
    assert losses[-1] < 0.6 * losses[0]
    still = [name for name, w in model.named_parameters() if torch.equal(w, before[name])]
    assert still == []
