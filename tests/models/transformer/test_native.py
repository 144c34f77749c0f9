"""Steps in C++ compared with those of `TransformerDecoder`, the reference."""

from __future__ import annotations

import copy
import io
import math
import pickle
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from regard import kernels
from regard.attention.kv_cache import MIN_CAPACITY
from regard.building import build_translation
from regard.data.batch import PAD, START, pad
from regard.errors import UserError
from regard.linear import freeze
from regard.models.contracts import Memory
from regard.models.ensemble import Ensemble
from regard.models.transformer import NativeTransformerDecoder, TransformerDecoder
from regard.models.transformer.decoder import DecoderLayer, TransformerState
from regard.models.transformer.native.state import NativeState
from regard.models.transformer.native.suitable import has_kernels
from regard.search import BeamSettings, Limits, beam, greedy
from tests import configs

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

SIZE, HEADS, INNER, VOCABULARY, BATCH, SOURCE = 18, 3, 11, 17, 3, 7
CONFIG = configs.transformer(
    size=SIZE, heads=HEADS, feed_forward=INNER, layers=1, decoder_layers=2, max_positions=97
)


def model_of(config=CONFIG, **values):
    """Return a model whose biases and norms have an effect."""
    torch.manual_seed(5)
    model = build_translation(configs.changed(config, **values), 13, VOCABULARY).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model


def decoders(**values):
    """Return the reference and the decoder of the frozen model."""
    model = model_of(**values)
    native = freeze(model).decoder
    assert isinstance(native, NativeTransformerDecoder)
    return model.decoder, native


def memory(batch=BATCH, source=SOURCE, *, is_padded=True):
    """Return a memory with NaN at hidden positions. The last sentence has no visible position."""
    keys = torch.randn(batch, source, SIZE, generator=torch.Generator().manual_seed(3))
    mask = torch.ones(batch, source, dtype=torch.bool)
    if is_padded:
        for row in range(batch):
            mask[row, source - row :] = False
        mask[-1] = False
        keys[~mask] = math.nan
    return (Memory(keys, keys, mask),)


def tokens_of(batch, hypotheses, step=0):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(4, VOCABULARY, (batch, hypotheses), generator=generator)


def close(result, expected):
    torch.testing.assert_close(result, expected, rtol=2e-5, atol=2e-5)


def assert_equal_steps(reference, native, memories, num_steps=4, num_hypotheses=3):
    """Compare steps of hypotheses that are selected after each step, some of them twice."""
    ours, theirs = native.start(memories), reference.start(memories)
    assert isinstance(ours, NativeState)
    batch = len(memories[0].keys)
    tokens = torch.full((batch, 1), START)
    for step in range(num_steps):
        output, ours = native.step(tokens, ours)
        expected, theirs = reference.step(tokens, theirs)
        assert isinstance(ours, NativeState)
        assert output.attention == ()
        close(output.features, expected.features)
        close(native.project(output.features), reference.project(expected.features))
        generator = torch.Generator().manual_seed(step)
        parents = torch.randint(tokens.size(1), (batch, num_hypotheses), generator=generator)
        ours, theirs = ours.select(parents), theirs.select(parents)
        tokens = tokens_of(batch, num_hypotheses, step)
    return ours, theirs


VARIANTS = [
    dict(norm=norm, activation=activation, positions=positions, window=window)
    for norm in ("pre", "post")
    for activation, positions, window in [
        ("relu", "sinusoidal", None), ("gelu", "rotary", 2), ("gelu", "learned", None),
        ("relu", "rotary", None), ("relu", "sinusoidal", 1),
    ]
] + [
    dict(heads=1), dict(heads=9), dict(attention=dict(score="dot")), dict(decoder_layers=1),
    dict(attention=dict(temperature=1.7)), dict(attention=dict(score="dot", temperature=0.6)),
]  # fmt: skip


@pytest.mark.parametrize("values", VARIANTS, ids=lambda x: "-".join(map(str, x.values())))
@torch.no_grad()
def test_steps_equal_those_of_the_reference(values):
    reference, native = decoders(**values)
    for memories in (memory(), memory(is_padded=False)):
        assert_equal_steps(reference, native, memories)


@pytest.mark.parametrize("num_hypotheses", [1, 2, 5])
@pytest.mark.parametrize(("batch", "source"), [(1, 1), (4, 0), (2, 37)])
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_steps_of_any_sizes_equal_those_of_the_reference(batch, source, num_hypotheses):
    reference, native = decoders(positions="rotary")
    memories = memory(batch, source, is_padded=batch == 2)
    assert_equal_steps(reference, native, memories, 3, num_hypotheses)


@torch.no_grad()
def test_without_sentences_a_step_has_no_features():
    _, native = decoders()
    output, state = native.step(tokens_of(0, 1), native.start(memory(0, is_padded=False)))
    assert output.features.shape == (0, 1, SIZE)
    output, _ = native.step(tokens_of(0, 2), state.select(torch.zeros(0, 2, dtype=torch.long)))
    assert output.features.shape == (0, 2, SIZE)


@torch.no_grad()
def test_steps_equal_the_whole_target():
    """Attention in one call, with PyTorch's kernels."""
    reference, native = decoders(positions="rotary")
    inputs = torch.cat([torch.full((BATCH, 1), START), tokens_of(BATCH, 5)], dim=1)
    assert PAD not in inputs
    expected, state = reference(inputs, memory()).features, native.start(memory())
    close(native(inputs, memory()).features, expected)
    for position in range(6):
        output, state = native.step(inputs[:, position : position + 1], state)
        close(output.features[:, 0], expected[:, position])


@torch.no_grad()
def test_a_cache_grows_beyond_its_first_capacity():
    reference, native = decoders()
    num_steps = MIN_CAPACITY // 3 + 5
    assert_equal_steps(reference, native, memory(), num_steps, 3)


@torch.no_grad()
def test_learned_positions_have_an_end():
    """A step that fails changes no state."""
    reference, native = decoders(positions="learned", max_positions=2)
    ours, theirs = assert_equal_steps(reference, native, memory(), 2, 1)
    for _ in range(2):
        with pytest.raises(UserError, match="longer than the 2 learned positions"):
            native.step(tokens_of(BATCH, 1), ours)
    assert ours.cache.storage.filled == ours.cache.length
    with pytest.raises(UserError, match="longer than the 2 learned positions"):
        reference.step(tokens_of(BATCH, 1), theirs)


@torch.no_grad()
def test_kept_sentences_go_on_alone():
    reference, native = decoders(window=2)
    ours, theirs = assert_equal_steps(reference, native, memory(), 3, 2)
    for sentences in ([2, 0], [1], [0, 0, 0], []):
        index = torch.tensor(sentences, dtype=torch.long)
        tokens = tokens_of(len(sentences), 2)
        output, kept = native.step(tokens, ours.keep(index))
        expected, _ = reference.step(tokens, theirs.keep(index))
        close(output.features, expected.features)
        assert kept.cache.length == ours.cache.length + 2


@torch.no_grad()
def test_branches_of_a_state_are_independent():
    reference, native = decoders()
    ours, theirs = assert_equal_steps(reference, native, memory(), 2, 2)
    branches = [(ours, theirs)] * 3
    for step in range(3):
        for number, (mine, other) in enumerate(branches):
            tokens = tokens_of(BATCH, 2, 10 * step + number)
            output, mine = native.step(tokens, mine)
            expected, other = reference.step(tokens, other)
            close(output.features, expected.features)
            branches[number] = mine, other


@pytest.mark.parametrize(
    "values",
    [
        {},
        dict(positions="rotary"),
        dict(attention=dict(score="dot", temperature=1.7)),
        dict(heads=1),
    ],
)
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_requested_weights_equal_those_of_the_reference(values):
    """From the first step and from a later one; the features have the same bits as without."""
    reference, native = decoders(**values)
    start = native.start(memory()), reference.start(memory())
    for ours, theirs in (start, assert_equal_steps(reference, native, memory(), 3, 2)):
        tokens = tokens_of(*ours.slots.shape[:2])
        for _ in range(2):
            without, _ = native.step(tokens, ours)
            output, ours = native.step(tokens, ours, need_weights=True)
            expected, theirs = reference.step(tokens, theirs, need_weights=True)
            assert isinstance(ours, NativeState)
            assert torch.equal(output.features, without.features)
            assert without.attention == ()
            assert_equal_blocks(output, expected)


def assert_equal_blocks(output, expected):
    for block, other in zip(output.attention, expected.attention, strict=True):
        assert block.kind == other.kind
        close(block.weights, other.weights)
        close(block.scores, other.scores)


@torch.no_grad()
def test_weights_of_the_reference_go_on_from_a_native_state():
    """In the middle of a search: under a transform, or with a window."""
    for window in (None, 1):
        reference, native = decoders(window=window)
        start = native.start(memory()), reference.start(memory())
        for ours, theirs in (start, assert_equal_steps(reference, native, memory(), 3, 2)):
            branch, tokens = ours, tokens_of(*ours.slots.shape[:2])
            for _ in range(2):
                with nullcontext() if window else forward_ad.dual_level():
                    output, ours = native.step(tokens, ours, need_weights=True)
                expected, theirs = reference.step(tokens, theirs, need_weights=True)
                assert isinstance(ours, TransformerState)
                close(output.features, expected.features)
                assert_equal_blocks(output, expected)
            output, _ = native.step(tokens, ours)
            close(output.features, reference.step(tokens, theirs)[0].features)
            assert isinstance(native.step(tokens, branch)[1], NativeState)


def features_of(native, memories, num_hypotheses=2, num_steps=3):
    """Return the features of all steps, and the state after them."""
    state, batch = native.start(memories), len(memories[0].keys)
    tokens, features = torch.full((batch, 1), START), []
    for step in range(num_steps):
        output, state = native.step(tokens, state)
        features.append(output.features)
        parents = torch.arange(num_hypotheses).expand(batch, -1) % tokens.size(1)
        state = state.select(parents)
        tokens = tokens_of(1, num_hypotheses, step).expand(batch, -1)
    return features, state


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_a_sentence_has_the_same_bits_in_any_batch(norm):
    """Alone, among others, with more padding, and with other hypotheses beside its own."""
    _, native = decoders(norm=norm, positions="rotary", activation="gelu")
    (whole,) = memory(5, 13, is_padded=False)
    mask = whole.mask.clone()
    mask[1, 9:] = mask[2, 3:] = False
    together, _ = features_of(native, (replace(whole, mask=mask),))
    for row in range(5):
        length = int(mask[row].sum())
        keys = whole.keys[row : row + 1, :length].clone()
        alone, _ = features_of(native, (Memory(keys, keys, mask[row : row + 1, :length]),))
        for ours, theirs in zip(alone, together, strict=True):
            assert torch.equal(ours[0], theirs[row])
    fewer, _ = features_of(native, (replace(whole, mask=mask),), num_hypotheses=1)
    for ours, theirs in zip(fewer, together, strict=True):
        assert torch.equal(ours[:, 0], theirs[:, 0])


@pytest.fixture
def two_threads():
    at_first = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(at_first)


@pytest.mark.usefixtures("two_threads")
@torch.no_grad()
def test_threads_change_no_bit():
    """With products and attention large enough for two threads."""
    config = configs.changed(CONFIG, size=144, feed_forward=300)
    native = freeze(model_of(config)).decoder
    keys = torch.randn(6, 300, 144)
    memories = (Memory(keys, keys, torch.rand(6, 300) < 0.8),)
    together, _ = features_of(native, memories, num_hypotheses=5)
    torch.set_num_threads(1)
    alone, _ = features_of(native, memories, num_hypotheses=5)
    for ours, theirs in zip(alone, together, strict=True):
        assert torch.equal(ours, theirs)


@torch.no_grad()
def test_the_instruction_set_may_change_between_steps():
    best = kernels.lanes()
    reference, native = decoders()
    ours, theirs = native.start(memory()), reference.start(memory())
    try:
        for step, lanes in enumerate((4, best, 4, 8)):
            kernels.lanes(lanes)
            output, ours = native.step(tokens_of(BATCH, 1, step), ours)
            assert isinstance(ours, NativeState)
            expected, theirs = reference.step(tokens_of(BATCH, 1, step), theirs)
            close(output.features, expected.features)
            close(native.project(output.features), reference.project(expected.features))
    finally:
        kernels.lanes(best)


def assert_reference_steps(reference, native, memories, state=None, tolerance=2e-5):
    """Check that steps run in PyTorch, with the results of the reference."""
    tokens = torch.full((len(memories[0].keys), 1), START)
    ours = native.start(memories) if state is None else state
    output, ours = native.step(tokens, ours)
    assert isinstance(ours, TransformerState)
    expected, _ = reference.step(tokens, reference.start(memories))
    assert output.features.dtype == expected.features.dtype
    torch.testing.assert_close(output.features, expected.features, rtol=tolerance, atol=tolerance)
    return output.features


def test_with_gradients_steps_are_those_of_the_reference():
    reference, native = decoders()
    with torch.no_grad():
        state = native.start(memory())
    assert isinstance(state, NativeState)
    assert_reference_steps(reference, native, memory(), state)
    (clean,) = memory(is_padded=False)
    keys = clean.keys.requires_grad_()
    memories = (Memory(keys, keys, clean.mask),)
    features = assert_reference_steps(reference, native, memories)
    expected, _ = reference.step(torch.full((BATCH, 1), START), reference.start(memories))
    (ours,) = torch.autograd.grad(features.sin().sum(), keys)
    (theirs,) = torch.autograd.grad(expected.features.sin().sum(), keys)
    close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_other_types_use_the_reference(dtype):
    model = model_of()
    reference, native = model.to(dtype).decoder, freeze(model, dtype).decoder
    (given,) = memory()
    keys = given.keys.to(dtype)
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-9
    assert_reference_steps(
        reference, native, (Memory(keys, keys, given.mask),), tolerance=tolerance
    )


@torch.no_grad()
def test_autocast_uses_the_reference():
    reference, native = decoders()
    state = native.start(memory())
    with torch.autocast("cpu", torch.bfloat16):
        assert_reference_steps(reference, native, memory(), tolerance=0.1)
        assert_reference_steps(reference, native, memory(), state, tolerance=0.1)
        logits = native.project(torch.ones(2, SIZE))
        assert logits.dtype == reference.project(torch.ones(2, SIZE)).dtype


@torch.no_grad()
def test_keys_that_are_not_the_values_use_the_reference():
    reference, native = decoders()
    (given,) = memory(is_padded=False)
    assert_reference_steps(reference, native, (replace(given, values=given.keys.flip(1)),))


@torch.no_grad()
def test_transforms_and_compilers_use_the_reference(monkeypatch):
    reference, native = decoders()
    state = native.start(memory())
    with forward_ad.dual_level():
        assert_reference_steps(reference, native, memory())
        assert_reference_steps(reference, native, memory(), state)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert_reference_steps(reference, native, memory(), state)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_a_trace_has_operations_of_pytorch_only():
    """Its results depend on its inputs, which a kernel would hide."""
    reference, native = decoders()

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.native = native

        def forward(self, keys, mask, tokens):
            state = self.native.start((Memory(keys, keys, mask),))
            _, state = self.native.step(tokens, state)
            features = self.native.step(tokens, state)[0].features
            return self.native.project(features)

    (first,), (second,) = memory(is_padded=False), memory()
    second = replace(second, keys=second.keys.nan_to_num())
    tokens = torch.full((BATCH, 1), START)
    traced = torch.jit.trace(Two(), (first.keys, second.mask, tokens))
    memories = (Memory(second.keys, second.keys, second.mask),)
    _, state = reference.step(tokens, reference.start(memories))
    expected = reference.project(reference.step(tokens, state)[0].features)
    close(traced(second.keys, second.mask, tokens), expected)


@torch.no_grad()
def test_on_the_meta_device_steps_have_shapes():
    native = NativeTransformerDecoder(model_of().decoder).eval().to("meta")
    (given,) = memory()
    keys = given.keys.to("meta")
    state = native.start((Memory(keys, keys, given.mask.to("meta")),))
    output, _ = native.step(torch.full((BATCH, 1), START, device="meta"), state)
    assert output.features.shape == (BATCH, 1, SIZE)
    assert output.features.is_meta


@torch.no_grad()
def test_without_the_library_steps_are_those_of_the_reference(monkeypatch):
    model = model_of()
    monkeypatch.setattr(kernels, "_LIBRARY", None)
    assert_reference_steps(model.decoder, freeze(model).decoder, memory())


@torch.no_grad()
def test_in_training_steps_are_those_of_the_reference():
    reference, native = decoders(dropout=0.0)
    assert_reference_steps(reference, native.train(), memory())
    assert isinstance(native.eval().start(memory()), NativeState)


@torch.inference_mode()
def state_of_inference(native):
    return native.step(torch.full((BATCH, 1), START), native.start(memory()))[1]


@torch.no_grad()
def test_a_state_of_inference_mode_goes_on_outside_it():
    reference, native = decoders()
    _, theirs = reference.step(torch.full((BATCH, 1), START), reference.start(memory()))
    tokens, ours = tokens_of(BATCH, 1), state_of_inference(native)
    expected = reference.step(tokens, theirs)[0].features
    close(native.step(tokens, ours)[0].features, expected)
    close(native.step(tokens, ours, need_weights=True)[0].features, expected)


@torch.no_grad()
def test_masks_and_keys_may_have_any_memory_layout():
    reference, native = decoders()
    for source in (BATCH, SOURCE):
        (given,) = memory(source=source)
        keys = given.keys.transpose(0, 1).contiguous().transpose(0, 1)
        memories = (Memory(keys, keys, given.mask.T.contiguous().T),)
        assert_equal_steps(reference, native, memories, 2, 2)
        keys, row = given.keys.nan_to_num(), torch.arange(source) < 2
        memories = (Memory(keys, keys, row.expand(BATCH, -1)),)
        assert_equal_steps(reference, native, memories, 2, 2)


def test_a_frozen_model_is_copied_and_pickled():
    model = model_of()
    frozen = freeze(model)
    with torch.no_grad():
        expected, _ = features_of(frozen.decoder, memory())
    stored = io.BytesIO()
    torch.save(frozen, stored)
    stored.seek(0)
    copies = [
        copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen)), freeze(frozen),
        torch.load(stored, weights_only=False),
    ]  # fmt: skip
    del frozen, model
    for each in copies:
        assert each.decoder._weights is None
        assert type(each.decoder.decoder) is TransformerDecoder
        with torch.no_grad():
            features, state = features_of(each.decoder, memory())
        assert isinstance(state, NativeState)
        for ours, theirs in zip(features, expected, strict=True):
            assert torch.equal(ours, theirs)


@torch.no_grad()
def test_replaced_parameters_leave_no_dangling_address():
    """The structures keep the numbers that they refer to; a conversion makes new structures."""
    reference, native = decoders(norm="pre")
    state = native.start(memory())
    weights = native._weights
    for module in native.decoder.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight = nn.Parameter(module.weight.clone(), requires_grad=False)
            module.bias.data = module.bias.data.clone()
    filler = [torch.full((SIZE,), math.nan) for _ in range(100)]
    output, _ = native.step(torch.full((BATCH, 1), START), state)
    assert native._weights is weights
    expected, _ = reference.step(torch.full((BATCH, 1), START), reference.start(memory()))
    close(output.features, expected.features)
    assert len(filler) == 100
    native.decoder.norm.weight.mul_(2)
    native.float()
    assert native._weights is None
    output, _ = native.step(torch.full((BATCH, 1), START), native.start(memory()))
    reference.norm.weight.mul_(2)
    expected, _ = reference.step(torch.full((BATCH, 1), START), reference.start(memory()))
    close(output.features, expected.features)


class Doubled(nn.LayerNorm):
    """Layer norm with another formula."""

    def forward(self, inputs):
        return 2 * super().forward(inputs)


class Reversed(DecoderLayer):
    """Decoder layer with another formula."""


def changed(change):
    """Return a decoder after a change."""
    decoder = model_of().decoder
    change(decoder)
    return decoder


def replaced(path, module):
    """Return a change that replaces a module."""
    parent, _, name = path.rpartition(".")
    return lambda decoder: setattr(decoder.get_submodule(parent), name, module)


def hook(path):
    return lambda decoder: decoder.get_submodule(path).register_forward_hook(lambda *_: None)


class OtherDecoder(TransformerDecoder):
    """Decoder with another step."""


CHANGES = {
    "norm": replaced("layers.1.self_residual.norm", Doubled(SIZE)),
    "last norm": replaced("norm", Doubled(SIZE)),
    "norm without weights": replaced(
        "layers.0.cross_residual.norm", nn.LayerNorm(SIZE, elementwise_affine=False)
    ),
    "norm without bias": replaced("layers.0.cross_residual.norm", nn.LayerNorm(SIZE, bias=False)),
    "last norm without weights": replaced("norm", nn.LayerNorm(SIZE, elementwise_affine=False)),
    "norm of two axes": replaced("norm", nn.LayerNorm((1, SIZE))),
    "torch's linear": replaced("layers.1.feed_forward.inner", nn.Linear(SIZE, INNER)),
    "projection": replaced("projection", nn.Linear(SIZE, VOCABULARY)),
    "dropout": replaced("layers.0.self_residual.dropout", nn.AlphaDropout(0.5)),
    "dropout of weights": replaced(
        "layers.0.self_attention.heads.attention.dropout", nn.Identity()
    ),
    "dropout of embeddings": replaced("embedder.dropout", nn.Identity()),
    "hook": hook("layers.1.cross_attention.heads"),
    "hook of the embedding": hook("embedder.embedding"),
    "class": lambda decoder: setattr(decoder, "__class__", OtherDecoder),
    "class of a layer": lambda decoder: setattr(decoder.layers[1], "__class__", Reversed),
    "forward": lambda decoder: setattr(decoder.layers[0].feed_forward, "forward", lambda *_: None),
    "no layers": lambda decoder: setattr(decoder, "layers", nn.ModuleList()),
    "other activation": lambda decoder: setattr(
        decoder.layers[1].feed_forward, "activation", "gelu"
    ),
    "other temperature": lambda decoder: setattr(
        decoder.layers[1].cross_attention.heads.attention.normaliser, "temperature", 2.0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_decoders_with_other_parts_are_not_folded(name):
    decoder = changed(CHANGES[name])
    assert not has_kernels(decoder)
    assert decoder.folded() is decoder
    with pytest.raises(ValueError, match="decoder: a part has no kernel"):
        NativeTransformerDecoder(decoder)


@pytest.mark.parametrize(
    "values",
    [
        dict(attention=dict(score="additive", size=7)),
        dict(attention=dict(score="general")),
        dict(attention=dict(normaliser="sparsemax")),
        dict(experts=dict(number=3, size=7)),
    ],
    ids=["additive", "general", "sparsemax", "experts"],
)
def test_other_models_are_not_folded(values):
    model = model_of(**values)
    assert not has_kernels(model.decoder)
    assert type(freeze(model).decoder) is TransformerDecoder


def test_dropout_of_attention_has_no_effect_on_folding():
    model = build_translation(configs.changed(CONFIG, attention=dict(dropout=0.3)), 13, VOCABULARY)
    assert isinstance(freeze(model).decoder, NativeTransformerDecoder)
    assert isinstance(model.decoder, TransformerDecoder)


@torch.no_grad()
def test_linear_layers_may_have_no_bias():
    model = model_of()
    for layer in model.decoder.layers:
        layer.cross_attention.key.bias = None
        layer.feed_forward.inner.bias = layer.self_attention.projection.bias = None
    assert_equal_steps(model.decoder, freeze(model).decoder, memory())


@torch.no_grad()
def test_a_hook_on_a_frozen_decoder_is_called():
    reference, native = decoders()
    native.start(memory())
    handle = native.decoder.layers[1].feed_forward.register_forward_hook(
        lambda module, inputs, output: replace(output, states=0 * output.states)
    )
    reference.layers[1].feed_forward.outer.weight.zero_()
    reference.layers[1].feed_forward.outer.bias.zero_()
    assert_reference_steps(reference, native, memory())
    handle.remove()
    assert isinstance(native.start(memory()), NativeState)


@torch.no_grad()
def test_a_hook_after_the_start_is_called_from_the_next_start_on():
    """`start` reads the hooks."""
    _, native = decoders()
    state, called = native.start(memory()), []
    native.decoder.layers[1].feed_forward.register_forward_hook(lambda *_: called.append(1))
    native.step(tokens_of(BATCH, 1), state)
    assert not called
    native.step(tokens_of(BATCH, 1), native.start(memory()))
    assert called


@torch.no_grad()
def test_a_decoder_in_training_uses_the_reference():
    """Also if the frozen decoder around it is not in training, from the start and between steps."""
    native = freeze(model_of(dropout=0.5)).decoder
    tokens, state = tokens_of(BATCH, 1), native.start(memory())
    native.decoder.train()
    for start in (state, native.start(memory())):
        results = [native.step(tokens, start)[0].features for _ in range(2)]
        assert not torch.equal(*results)
    assert isinstance(native.start(memory()), TransformerState)


@torch.no_grad()
def test_parts_without_a_kernel_use_the_reference():
    """Parts that are replaced before the first call, or before the model is frozen again."""
    for name in ("norm", "last norm", "torch's linear", "other temperature"):
        frozen = freeze(model_of())
        native = frozen.decoder
        CHANGES[name](native.decoder)
        assert_reference_steps(native.decoder, native, memory())
        assert type(freeze(frozen).decoder) is TransformerDecoder


@torch.no_grad()
def test_a_frozen_decoder_that_is_not_folded_again_has_one_reference():
    """Because it has a hook, or is the whole model that is frozen."""
    reference, native = decoders()
    assert_equal_steps(reference, freeze(native), memory(), 2, 2)
    frozen = freeze(model_of())
    frozen.decoder.register_forward_hook(lambda *_: None)
    again = freeze(frozen).decoder
    assert type(again.decoder) is TransformerDecoder
    assert_equal_steps(reference, again, memory(), 2, 2)


SENTENCES = [[4, 5, 6, 7, 8], [9, 10], [11, 12, 4], [5, 5, 5, 5, 5, 5]]
LIMITS = Limits(start=START, end=2, maximum=11, forbidden=(PAD, START))


def found(model, size, *, need_weights=False):
    with torch.inference_mode():
        memories = model.encode(pad(SENTENCES))
    settings = BeamSettings(size, size)
    return beam(model.decoder, memories, LIMITS, settings, need_weights=need_weights)


def assert_equal_hypotheses(result, expected):
    for ours, theirs in zip(result, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.score == pytest.approx(other.score, abs=1e-4)


@pytest.mark.parametrize("size", [1, 4])
def test_searches_of_frozen_and_unfrozen_models_are_equal(size):
    model = model_of(norm="post", window=3)
    frozen = freeze(model)
    assert_equal_hypotheses(found(frozen, size), found(model, size))
    assert_equal_hypotheses(found(frozen, size, need_weights=True), found(model, size))
    with torch.inference_mode():
        memories = model.encode(pad(SENTENCES))
        ours, theirs = (greedy(each.decoder, memories, LIMITS) for each in (frozen, model))
    assert [each.tokens for each in ours] == [each.tokens for each in theirs]


def test_every_member_of_an_ensemble_has_native_steps():
    torch.manual_seed(7)
    second = build_translation(configs.changed(CONFIG, positions="rotary"), 13, VOCABULARY).eval()
    ensemble = Ensemble([model_of(), second])
    frozen = freeze(ensemble)
    with torch.no_grad():
        state = frozen.decoder.start(frozen.encode(pad(SENTENCES)))
    assert [type(member) for member in state.members] == [NativeState] * 2
    assert_equal_hypotheses(found(frozen, 3), found(ensemble, 3))
    assert not any(isinstance(x, NativeTransformerDecoder) for x in ensemble.modules())
