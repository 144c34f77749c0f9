"""Masks that do not fit are rejected by name, by every encoder that reads neighbours."""

import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import Tokens
from tests import configs
from tests.contracts.choices import small
from tests.messages import raises

IDS, MASK = torch.full((2, 5), 4), torch.ones(2, 5, dtype=torch.bool)
MASKS = {
    "another type": MASK.long(),
    "another length": MASK[:, :3],
    "another number of sentences": MASK[:1],
    "another device": MASK.to("meta"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", ["gated_convolution", "dilated_convolution", "recurrent"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_mask_that_does_not_fit(kind, mask):
    config = configs.translation(kind, **small(type(configs.translation(kind).encoder)))
    encoder = build_translation(config, 13, 17).encoder
    with raises(ValueError, "mask"):
        encoder(Tokens(IDS, mask))
