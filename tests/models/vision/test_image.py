"""Images as memories."""

import pytest
import torch

from regard.data.batch import Images
from regard.layers.convolution import ConvolutionStack
from regard.models.vision.image import ConvolutionalEncoder

PICTURES = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8)


@pytest.fixture
def encoder():
    torch.manual_seed(2)
    return ConvolutionalEncoder(ConvolutionStack([4, 6]), 16).eval()


def test_captions_of_one_image_share_its_cells(encoder):
    rows = torch.tensor([2, 0, 0, 1])
    alone = encoder(Images(PICTURES))
    together = encoder(Images(PICTURES, rows))
    torch.testing.assert_close(together.layers[-1], alone.layers[-1][rows])
    torch.testing.assert_close(together.summary.hidden, alone.summary.hidden[rows])
    assert together.mask.shape == (4, 16)


def test_cells_have_position_embeddings(encoder):
    """An image of one colour has equal features everywhere except at its edges."""
    plain = torch.full((1, 3, 16, 16), 90, dtype=torch.uint8)
    first, second = encoder(Images(plain)).layers[-1][0, [5, 6]]
    assert not torch.allclose(first, second)


def test_images_of_another_size_are_rejected(encoder):
    with pytest.raises(ValueError, match="expected 16 cells each, got 4"):
        encoder(Images(PICTURES[..., :8, :8]))
