"""Models, sources and comparisons for the tests of the encoder in C++."""

from __future__ import annotations

import torch

from regard.compiled.freeze import freeze
from regard.compiled.transformer.encoder import NativeTransformerEncoder
from regard.data.batch import Tokens
from tests import configs
from tests.compiled.native_steps import VOCABULARY, close, random_model
from tests.compiled.transformer import problems

CONFIG = configs.changed(problems.CONFIG, layers=2, decoder_layers=1)


def model_of(config=CONFIG, **values):
    """Return a model whose biases and norms have an effect."""
    return random_model(configs.changed(config, **values), VOCABULARY, 13)


def encoders(config=CONFIG, **values):
    """Return the reference and the encoder of the frozen model."""
    model = model_of(config, **values)
    native = freeze(model).encoder
    assert isinstance(native, NativeTransformerEncoder)
    return model.encoder, native


def source_of(*lengths, seed=3):
    """Return sentences of these lengths."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, VOCABULARY, (length,), generator=generator) for length in lengths]
    batch = torch.zeros(len(lengths), max(lengths, default=0), dtype=torch.long)
    mask = torch.zeros(batch.shape, dtype=torch.bool)
    for row, tokens in enumerate(rows):
        batch[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = True
    return Tokens(batch, mask)


SOURCE = source_of(5, 1, 7, 0, 3)


def assert_equal(result, expected, tolerance=2e-5):
    """Compare the states of real positions. States of padding are zeros."""
    mask = expected.mask
    assert torch.equal(result.mask, mask)
    assert len(result.layers) == len(expected.layers)
    assert torch.equal(result.layers[0], expected.layers[0])
    for ours, theirs in zip(result.layers[1:], expected.layers[1:], strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        close(ours[mask], theirs[mask], tolerance)
        assert not ours[~mask].any()
    assert result.attention == result.penalties == result.measures == ()
    assert result.summary is result.unfolded is None


def assert_is_reference(result, expected, tolerance=2e-5):
    """Check that PyTorch computed the states: states of padding are not zeros."""
    for ours, theirs in zip(result.layers, expected.layers, strict=True):
        assert ours.dtype == theirs.dtype
        close(ours, theirs, tolerance)
    assert result.layers[-1][~expected.mask].any()
