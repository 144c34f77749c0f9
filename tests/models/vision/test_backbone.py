"""Networks of `transformers` with random weights as backbones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.models.vision.backbone import Backbone
from tests.messages import raises

PICTURES = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
transformers = pytest.importorskip("transformers")


def resnet():
    torch.manual_seed(1)
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic"
    )
    return transformers.ResNetModel(config)


def vit():
    torch.manual_seed(1)
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=32,
        patch_size=8,
    )
    return transformers.ViTModel(config, add_pooling_layer=False)


def test_grid_cells_are_in_row_order():
    """Compared with the network itself, on images prepared with NumPy."""
    backbone = Backbone(resnet(), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)).eval()
    mean, deviation = np.float32([0.5, 0.4, 0.3]), np.float32([0.2, 0.3, 0.4])
    scaled = PICTURES.numpy().transpose(0, 2, 3, 1) / np.float32(255)
    prepared = torch.from_numpy(((scaled - mean) / deviation).transpose(0, 3, 1, 2))
    with torch.no_grad():
        cells, grid = backbone(PICTURES), backbone.network(prepared).last_hidden_state
    assert cells.shape == (2, 16, 6)
    for row in range(4):
        for column in range(4):
            torch.testing.assert_close(cells[:, 4 * row + column], grid[:, :, row, column])
    assert backbone.shape(32) == (16, 6)


def test_class_tokens_are_not_grid_cells():
    backbone = Backbone(vit()).eval()
    with torch.no_grad():
        cells, network = backbone(PICTURES), backbone.network
        prepared = (PICTURES / 255 - backbone.mean) / backbone.deviation
        tokens = network(pixel_values=prepared).last_hidden_state
    assert tokens.size(1) == 17
    torch.testing.assert_close(cells, tokens[:, 1:])


def test_saving_and_loading_preserves_a_backbone(tmp_path):
    backbone = Backbone(resnet(), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)).eval()
    backbone.save(tmp_path / "kept")
    again = Backbone.load(tmp_path / "kept").eval()
    assert again.digest() == backbone.digest()
    with torch.no_grad():
        assert torch.equal(again(PICTURES), backbone(PICTURES))
    shaped = Backbone.shaped(tmp_path / "kept").eval()
    assert shaped.digest() != backbone.digest()
    shaped.load_state_dict(backbone.state_dict())
    assert shaped.digest() == backbone.digest()


def test_unsupported_networks_are_one_line(tmp_path):
    with pytest.raises(UserError, match=r"cannot load the backbone .*nothing"):
        Backbone.load(tmp_path / "nothing")
    with raises(UserError):
        Backbone(vit()).shape(20)
