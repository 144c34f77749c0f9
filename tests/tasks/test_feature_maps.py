"""Feature maps against the layers of the encoder, computed one by one."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.building.translators import build_translation
from regard.data.batch import GridFeatures, Images, pad
from regard.layers.convolution import ConvolutionStack
from regard.models.vision.image import ConvolutionalEncoder, FrozenBackboneEncoder
from regard.tasks.feature_maps import image_feature_maps, text_feature_maps
from regard.trace import TokenSequence
from tests import configs

SOURCE = [4, 5, 6, 7, 2]
SEQUENCE = TokenSequence("a b c d", ("a", "b", "c", "d", "<eos>"), (0, 1, 2, 3, 4), "en")
MODELS = {
    "gated_convolution": configs.translation("gated_convolution", "recurrent", size=6, layers=2),
    "recurrent": configs.recurrent(size=6, embedding=5, layers=2),
}
NAMES = {
    "gated_convolution": ["embeddings", "layer 1", "layer 2", "output"],
    "recurrent": ["embeddings", "layer 1", "layer 2"],
}


@pytest.mark.parametrize("name", MODELS)
def test_a_text_has_embeddings_and_every_layer(name):
    torch.manual_seed(3)
    encoder = build_translation(MODELS[name], 13, 11).eval().encoder
    maps = text_feature_maps(encoder, pad([SOURCE]), SEQUENCE)
    assert [layer.name for layer in maps.layers] == NAMES[name]
    assert (maps.labels, maps.language, maps.filters) == (SEQUENCE.pieces, "en", None)
    layers = encoder(pad([SOURCE])).layers
    for layer, states in zip(maps.layers, layers, strict=True):
        for position in range(len(SOURCE)):
            np.testing.assert_array_equal(
                layer.values[:, position], states[0, position].detach().numpy()
            )


def test_the_output_of_a_convolution_depends_on_its_window():
    """If two sources differ at one position, layer l of width 3 differs at 2 l + 1 positions."""
    torch.manual_seed(3)
    encoder = build_translation(MODELS["gated_convolution"], 13, 11).eval().encoder
    pieces = TokenSequence("", ("a",) * 7, tuple(range(7)))
    first, second = (
        text_feature_maps(encoder, pad([source]), pieces).layers
        for source in ([4, 5, 6, 7, 8, 9, 2], [4, 5, 6, 3, 8, 9, 2])
    )
    differs = [
        (left.values != right.values).any(axis=0).sum()
        for left, right in zip(first, second, strict=True)
    ]
    assert differs == [1, 3, 5, 5]


def test_an_image_has_the_outputs_of_every_block_and_the_first_filters():
    torch.manual_seed(3)
    encoder = ConvolutionalEncoder(ConvolutionStack([5, 7]), 12).eval()
    image = torch.randint(0, 256, (1, 3, 12, 16), dtype=torch.uint8)
    maps = image_feature_maps(encoder, Images(image))
    assert [layer.name for layer in maps.layers] == ["block 1", "block 2"]
    states = image.float() / 127.5 - 1
    for layer, block in zip(maps.layers, encoder.stack.blocks, strict=True):
        for number, stride in ((0, 2), (3, 1)):
            states = F.conv2d(states, block.layers[number].weight, stride=stride, padding=1)
            states = F.relu(states / (1 + block.layers[number + 1].eps) ** 0.5)
        np.testing.assert_allclose(layer.values, states[0].detach(), atol=1e-5)
    assert maps.filters is not None
    np.testing.assert_array_equal(maps.filters, encoder.stack.blocks[0].layers[0].weight.detach())


def test_cells_of_other_image_encoders_are_a_grid():
    torch.manual_seed(3)
    encoder = FrozenBackboneEncoder(4, 5, 3).eval()
    source = GridFeatures(torch.randn(1, 4, 5))
    maps = image_feature_maps(encoder, source)
    (cells,) = encoder(source).layers
    assert (maps.layers[0].name, maps.filters) == ("cells", None)
    np.testing.assert_array_equal(maps.layers[0].values[:, 1, 0], cells[0, 2].detach())
