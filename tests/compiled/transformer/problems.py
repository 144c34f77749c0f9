"""Models, memories and comparisons for the tests of Transformers in C++."""

from __future__ import annotations

from operator import attrgetter

import torch
from torch import nn

from regard.compiled.freeze import freeze
from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.models.contracts import Memory
from tests import configs
from tests.compiled import native_steps
from tests.compiled.native_steps import BATCH, SOURCE, VOCABULARY, masked_keys, random_model

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


def hooked(path):
    """Return a change that adds a hook."""
    return lambda model: model.get_submodule(path).register_forward_hook(lambda *_: None)


def replaced(path, value):
    """Return a change that replaces a module or another attribute."""
    parent, _, name = path.rpartition(".")
    return lambda model: setattr(attrgetter(parent)(model) if parent else model, name, value)


CHANGES = {
    "norm": replaced("layers.1.self_residual.norm", Doubled(SIZE)),
    "last norm": replaced("norm", Doubled(SIZE)),
    "norm without weights": replaced(
        "layers.0.feed_forward_residual.norm", nn.LayerNorm(SIZE, elementwise_affine=False)
    ),
    "norm without bias": replaced("layers.0.self_residual.norm", nn.LayerNorm(SIZE, bias=False)),
    "last norm without weights": replaced("norm", nn.LayerNorm(SIZE, elementwise_affine=False)),
    "norm of two axes": replaced("norm", nn.LayerNorm((1, SIZE))),
    "torch's linear": replaced("layers.1.feed_forward.inner", nn.Linear(SIZE, INNER)),
    "dropout": replaced("layers.0.self_residual.dropout", nn.AlphaDropout(0.5)),
    "dropout of weights": replaced(
        "layers.0.self_attention.heads.attention.dropout", nn.Identity()
    ),
    "dropout of embeddings": replaced("embedder.dropout", nn.Identity()),
    "hook of a layer": hooked("layers.1"),
    "hook of the embedding": hooked("embedder.embedding"),
    "forward": replaced("layers.0.feed_forward.forward", lambda *_: None),
    "no layers": replaced("layers", nn.ModuleList()),
    "other activation": replaced("layers.1.feed_forward.activation", "gelu"),
    "other temperature": replaced(
        "layers.1.self_attention.heads.attention.normaliser.temperature", 2.0
    ),
}
"""Changes of an encoder or decoder that no kernel computes."""
OTHER_MODELS = {
    "additive": dict(attention=dict(score="additive", size=7)),
    "general": dict(attention=dict(score="general")),
    "sparsemax": dict(attention=dict(normaliser="sparsemax")),
    "experts": dict(experts=dict(number=3, size=7)),
}
"""Models whose encoder and decoder no kernel computes."""
