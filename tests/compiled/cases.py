"""The native classes, with models and comparisons for the tests that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from regard.attention import SlidingWindow
from regard.compiled.freeze import freeze
from regard.compiled.native import NativeModule
from regard.compiled.recurrent.decoder import NativeRecurrentDecoder
from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.compiled.transformer.encoder import NativeTransformerEncoder
from regard.layers.positions import Rotary
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.contracts import Summary
from regard.models.recurrent.decoders import LuongDecoder
from regard.models.recurrent.output import TanhOutput
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.models.transformer.decoder import DecoderLayer
from regard.models.transformer.encoder import EncoderLayer
from tests.compiled import native_steps
from tests.compiled.native_steps import BATCH, VOCABULARY, features_of, tokens_of
from tests.compiled.recurrent import problems as recurrent
from tests.compiled.transformer import encoder_problems, problems
from tests.compiled.transformer.encoder_problems import SOURCE
from tests.compiled.transformer.problems import SIZE, hooked, replaced

Changes = dict[str, Callable[[Any], object]]


@dataclass(frozen=True)
class Case:
    """A native class."""

    part: str
    native: type[NativeModule]
    reference: type[nn.Module]
    problems: Any
    hooked: str
    """Submodule of the reference that gets hooks."""
    changes: Changes
    """Changes of the reference that no kernel computes."""
    other_models: dict[str, dict[str, Any]]
    """Models that no kernel computes."""

    def of(self, model):
        """Return the part of a model that the class replaces."""
        return getattr(model, self.part)

    def pair(self, dtype=torch.float32, **values):
        """Return the reference, and the part of the frozen model."""
        model = self.problems.model_of(**values)
        frozen = freeze(model, dtype)
        assert isinstance(self.of(frozen), self.native)
        return self.of(model.to(dtype)), self.of(frozen)


class DecoderCase(Case):
    """Steps of a decoder."""

    def memories(self, dtype=torch.float32):
        (memory,) = self.problems.memory()
        keys, summary = memory.keys.to(dtype), memory.summary
        if summary is not None:
            summary = Summary(summary.hidden.to(dtype), summary.cell.to(dtype))
        return (replace(memory, keys=keys, values=keys, summary=summary),)

    def start(self, native):
        """Return a native state."""
        state = native.start(self.memories())
        assert isinstance(state, native_steps.NATIVE)
        return state

    def results(self, native):
        """Return the numbers of some steps in C++."""
        features, state = features_of(native, self.memories())
        assert isinstance(state, native_steps.NATIVE)
        return features

    def call(self, native, state=None):
        """Return the numbers of one step."""
        state = native.start(self.memories()) if state is None else state
        return native.step(tokens_of(BATCH, 1), state)[0].features

    def assert_native(self, reference, native):
        """Check that steps run in C++, with the results of the reference."""
        self.problems.assert_equal_steps(reference, native, self.memories(), 2, 2)

    def assert_reference(self, reference, native, state=None, tolerance=2e-5, dtype=torch.float32):
        """Check that steps run in PyTorch, with the results of the reference."""
        for need_weights in (False, True):
            native_steps.assert_reference_steps(
                *(reference, native, self.memories(dtype), state, tolerance),
                need_weights=need_weights,
            )


class EncoderCase(Case):
    """Encoders, which have no state."""

    def start(self, native):
        return None

    def results(self, native):
        layers = native(SOURCE).layers
        assert not layers[-1][~SOURCE.mask].any()
        return layers

    def call(self, native, state=None):
        return native(SOURCE).layers[-1]

    def assert_native(self, reference, native):
        encoder_problems.assert_equal(native(SOURCE), reference(SOURCE))

    def assert_reference(self, reference, native, state=None, tolerance=2e-5, dtype=torch.float32):
        result, expected = native(SOURCE), reference(SOURCE)
        assert result.layers[-1].dtype == expected.layers[-1].dtype
        encoder_problems.assert_is_reference(result, expected, tolerance)


class DoubledOutput(TanhOutput):
    """Output layer with another formula."""

    def forward(self, state, context, embedded):
        return 2 * super().forward(state, context, embedded)


def of_class(*bases: type, path: str = "") -> Callable[[nn.Module], None]:
    """Return a change of the class of a part to a subclass."""
    subclass = type("Subclass", bases, {})
    return lambda model: setattr(model.get_submodule(path), "__class__", subclass)


CASES = {
    "recurrent decoder": DecoderCase(
        "decoder",
        NativeRecurrentDecoder,
        LuongDecoder,
        recurrent,
        "parts.output",
        {
            "output": replaced("parts.output.__class__", DoubledOutput),
            "stack": of_class(RecurrentStack, path="parts.stack"),
            "hook": hooked("parts"),
        },
        {
            "-".join(map(str, values)): values
            for values in (
                dict(gate=True),
                dict(query="input"),
                dict(query="learned"),
                dict(attention=dict(normaliser="sparsemax")),
                dict(attention=dict(score="cosine")),
                dict(attention=dict(score="coverage")),
                dict(attention=dict(score="location")),
                dict(attention=dict(sampling="hard")),
                dict(attention=dict(scope="local_m")),
                dict(wiring="plain"),
                dict(wiring="gnmt", decoder_layers=2),
            )
        },
    ),
    "Transformer decoder": DecoderCase(
        "decoder",
        NativeTransformerDecoder,
        TransformerDecoder,
        problems,
        "layers.1.feed_forward",
        {
            **problems.CHANGES,
            "norm of cross-attention": replaced(
                "layers.0.cross_residual.norm", nn.LayerNorm(SIZE, bias=False)
            ),
            "projection": replaced("projection", nn.Linear(SIZE, VOCABULARY)),
            "largest norm of embeddings": replaced("embedder.embedding.max_norm", 1.0),
            "hook of cross-attention": hooked("layers.1.cross_attention.heads"),
            "temperature of cross-attention": replaced(
                "layers.1.cross_attention.heads.attention.normaliser.temperature", 2.0
            ),
            "class": of_class(TransformerDecoder),
            "class of a layer": of_class(DecoderLayer, path="layers.1"),
        },
        problems.OTHER_MODELS,
    ),
    "Transformer encoder": EncoderCase(
        "encoder",
        NativeTransformerEncoder,
        TransformerEncoder,
        encoder_problems,
        "layers.1.feed_forward",
        {
            **problems.CHANGES,
            "window": replaced("span", SlidingWindow(3)),
            "class": of_class(TransformerEncoder),
            "class of a layer": of_class(EncoderLayer, path="layers.1"),
            "other number of heads": replaced("layers.1.self_attention.heads.num_heads", 2),
            "rotation of odd sizes": lambda encoder: (
                setattr(encoder.embedder, "positions", Rotary()),
                [setattr(layer.self_attention.heads, "num_heads", 2) for layer in encoder.layers],
            ),
        },
        {**problems.OTHER_MODELS, "window": dict(window=2)},
    ),
}
