"""Models, memories and comparisons for the tests of Transformers in C++."""

from __future__ import annotations

import torch
from torch import nn

from regard.linear import freeze
from regard.models.contracts import Memory
from regard.models.transformer import NativeTransformerDecoder
from tests import configs
from tests.models import native_steps
from tests.models.native_steps import BATCH, SOURCE, VOCABULARY, masked_keys, random_model

SIZE, HEADS, INNER = 18, 3, 11
CONFIG = configs.transformer(
    size=SIZE, heads=HEADS, feed_forward=INNER, layers=1, decoder_layers=2, max_positions=97
)


def model_of(config=CONFIG, **values):
    """Return a model whose biases and norms have an effect."""
    return random_model(configs.changed(config, **values), 13, VOCABULARY)


def decoders(**values):
    """Return the reference and the decoder of the frozen model."""
    model = model_of(**values)
    native = freeze(model).decoder
    assert isinstance(native, NativeTransformerDecoder)
    return model.decoder, native


def memory(batch=BATCH, source=SOURCE, *, is_padded=True):
    """Return a memory with NaN at hidden positions. The last sentence has no visible position."""
    generator = torch.Generator().manual_seed(3)
    keys, mask = masked_keys(batch, source, SIZE, generator, is_padded=is_padded)
    return (Memory(keys, keys, mask),)


def assert_equal_steps(reference, native, memories, num_steps=4, num_hypotheses=3):
    """Compare features and logits of steps, which return no attention."""

    def compare(output, *_):
        assert output.attention == ()

    return native_steps.assert_equal_steps(
        reference, native, memories, num_steps, num_hypotheses, compare=compare
    )


class Doubled(nn.LayerNorm):
    """Layer norm with another formula."""

    def forward(self, inputs):
        return 2 * super().forward(inputs)


def replaced(path, module):
    """Return a change that replaces a module."""
    parent, _, name = path.rpartition(".")
    return lambda model: setattr(model.get_submodule(parent), name, module)
