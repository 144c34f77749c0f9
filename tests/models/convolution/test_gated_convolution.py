"""ConvS2S (Gehring et al. 2017), against loops of its equations and its printed numbers."""

import math

import pytest
import torch
from torch import nn

from regard.building.classifiers import build_classifier
from regard.building.translators import build_translation
from regard.data.batch import START, pad
from regard.errors import UserError
from regard.layers.windows import causal, centred
from regard.models.convolution.gated_convolution import GatedConvolution
from regard.models.memory import OutputPlusEmbeddings
from tests import configs
from tests.messages import raises
from tests.oracles import convolution as oracle

KINDS = ("gated_convolution", "gated_convolution")


def build(**values):
    """Build a model in float64 with random gains and biases."""
    values = dict(size=5, layers=2, channels=(3, 7), widths=(3, 5)) | values
    torch.manual_seed(3)
    model = build_translation(configs.translation(*KINDS, **values), 13, 17).double().eval()
    for name, weight in model.named_parameters():
        if name.endswith(("bias", "gain")):
            nn.init.uniform_(weight, -1, 1)
    return model


def plain(layer, width=None):
    """Return weight and bias of a normalised layer, for windows by their places."""
    direction, gain, bias = (
        getattr(layer, name).detach().numpy() for name in ("direction", "gain", "bias")
    )
    weight = oracle.normalised(direction, gain)
    if width is not None:
        weight = weight.reshape(len(weight), width, -1)
    return weight, bias


def convolution(layer):
    shortcut = None if isinstance(layer.shortcut, nn.Identity) else plain(layer.shortcut)
    return *plain(layer.linear, layer.width), shortcut


def embedded(part, tokens):
    """Return word plus position (section 3.1)."""
    words, places = part.embedder.embedding.weight, part.embedder.positions.table
    rows = [words[token] + places[place] for place, token in enumerate(tokens)]
    return torch.stack(rows).detach().numpy()


def test_the_model_is_that_of_the_paper():
    model, source, target = build(), [4, 5, 6, 7, 8, 11], [START, 4, 5, 6, 16]
    embeddings = embedded(model.encoder, source)
    layers = [convolution(layer) for layer in model.encoder.layers]
    z = oracle.encode(embeddings, plain(model.encoder.first), layers, plain(model.encoder.last))
    encoded = model.encoder(pad([source]))
    torch.testing.assert_close(encoded.layers[-1][0], torch.from_numpy(z))
    decoder = model.decoder
    layers = [
        (*convolution(layer), plain(attention.query), plain(attention.context))
        for layer, attention in zip(decoder.layers, decoder.attentions, strict=True)
    ]
    features, maps = oracle.decode(
        embedded(decoder, target),
        (z, embeddings),
        plain(decoder.first),
        layers,
        plain(decoder.last),
    )
    output = decoder(torch.tensor([target]), model.encode(pad([source])), need_weights=True)
    torch.testing.assert_close(output.features[0], torch.from_numpy(features))
    (block,) = output.attention
    for number, weights in enumerate(maps):
        torch.testing.assert_close(block.weights[0, number, 0], torch.from_numpy(weights))


def test_six_layers_of_width_five_read_25_inputs():
    """Section 3.2."""
    layers = [GatedConvolution(2, 2, 5, 0.0).double() for _ in range(6)]
    inputs = torch.randn(1, 41, 2, dtype=torch.float64, requires_grad=True)
    for windows, first in ((centred, 8), (causal, 16 - 12)):
        states = inputs * 1
        for layer in layers:
            states = layer.add(layer(windows(states, 5)), states)
        (gradient,) = torch.autograd.grad(states[0, 20 if windows is centred else 28].sum(), inputs)
        read = gradient[0].abs().sum(dim=1).nonzero()[:, 0].tolist()
        assert read == list(range(first, first + 25))


def test_states_keep_their_variance():
    """Appendix A: the GLU halves standard deviations, weights double them, and sqrt(1/2) divides
    the variance of the residual sum by two."""
    torch.manual_seed(3)
    layers = [GatedConvolution(256, 256, 3, 0.0) for _ in range(8)]
    with torch.no_grad():
        states = 0.1 * torch.randn(1, 300, 256)
        first = states.var()
        for layer in layers:
            change = layer(centred(states, 3))
            summed = (change + states).var()
            states = layer.add(change, states)
            torch.testing.assert_close(states.var(), summed / 2)
    assert 0.9 < float(states.var() / first) < 1.1


def test_a_smaller_weight_makes_up_for_dropout():
    torch.manual_seed(3)
    weights = [GatedConvolution(64, 64, 3, dropout).linear.weight for dropout in (0.0, 0.5)]
    torch.testing.assert_close(
        weights[1].var() / weights[0].var(), torch.tensor(0.5), rtol=0.03, atol=0
    )
    torch.testing.assert_close(
        weights[0].std(), torch.tensor(math.sqrt(4 / 192)), rtol=0.03, atol=0
    )


def test_the_encoders_gradient_is_divided_by_the_number_of_attentions():
    """Section 3.4, in training; the embeddings in the values are excluded."""
    model, source = build(layers=3, channels=(3,), widths=(3,)).train(), pad([[4, 5, 6], [7, 8]])
    inputs = torch.tensor([[START, 4, 5], [START, 6, 7]])

    def gradients(build_memory):
        encoded = model.encoder(source)
        features = model.decoder(inputs, build_memory(encoded)).features
        z, e = encoded.layers[-1], encoded.layers[0]
        both = torch.autograd.grad(features.square().sum(), (z, e), retain_graph=True)
        (through_encoder,) = torch.autograd.grad(z, e, both[0])
        return both[0], both[1] - through_encoder

    plain_memory = OutputPlusEmbeddings(1, adds_embeddings=True)
    assert model.build_memory.num_attentions == 3
    scaled, unscaled = gradients(model.build_memory), gradients(plain_memory)
    torch.testing.assert_close(scaled[0], unscaled[0] / 3)
    torch.testing.assert_close(scaled[1], unscaled[1])
    assert unscaled[1].abs().sum() > 0
    torch.testing.assert_close(gradients(model.eval().build_memory)[0], unscaled[0])


def test_later_targets_have_no_influence():
    model, source = build(), pad([[4, 5, 6]])
    inputs = torch.tensor([[START, 4, 5, 6]])
    changed = torch.tensor([[START, 4, 9, 11]])
    memories = model.encode(source)
    first, second = (model.decoder(each, memories).features for each in (inputs, changed))
    assert torch.equal(first[:, :2], second[:, :2])
    assert not torch.equal(first[:, 2:], second[:, 2:])


def test_channels_widths_and_output_may_differ():
    model = build(channels=(3,), widths=(3,), output_size=11, tied="none")
    assert model.decoder.projection.in_features == 11
    assert [layer.width for layer in model.decoder.layers] == [3, 3]


@pytest.mark.parametrize(
    "values",
    [
        dict(layers=3),
        dict(encoder_widths=(4,)),
        dict(output_size=3, tied="output"),
        dict(encoder_size=11),
    ],
)
def test_settings_that_do_not_fit(values):
    with raises(UserError):
        build(**values)


def test_a_longer_sequence_than_the_positions_is_refused():
    with pytest.raises(UserError, match="longer than the 4 learned positions"):
        build(max_positions=4).encode(pad([[4, 5, 6, 7, 8]]))
    build(max_positions=4, positions="sinusoidal").encode(pad([[4, 5, 6, 7, 8]]))


def test_the_encoder_serves_classifiers():
    config = configs.classifier("gated_convolution", size=6, layers=2, channels=(3, 7))
    assert build_classifier(config, 13, 0, 4)(pad([[4, 5, 6]])).predictions.shape == (1, 4)


def test_biases_are_zero_at_first():
    """Section 3.5, for sources of numbers too."""
    config = configs.classifier("gated_convolution", size=5, layers=2, channels=(3,))
    encoder = build_classifier(config, 0, 2, 3).encoder
    biases = [each for name, each in encoder.named_parameters() if name.endswith("bias")]
    assert len(biases) == 5
    assert not any(each.any() for each in biases)
