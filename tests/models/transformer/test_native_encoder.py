"""The encoder in C++ compared with `TransformerEncoder`, the reference."""

from __future__ import annotations

import copy
import io
import math
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from regard import kernels
from regard.attention import SlidingWindow
from regard.building import build_translation
from regard.data.batch import Numbers, Tokens, pad
from regard.errors import UserError
from regard.layers.embedder import Embedder
from regard.layers.positions import Rotary
from regard.linear import freeze
from regard.models.ensemble import Ensemble
from regard.models.transformer import NativeTransformerEncoder, TransformerEncoder
from regard.models.transformer.encoder import EncoderLayer
from regard.models.transformer.native.suitable import encoder_has_kernels
from tests import configs

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

SIZE, HEADS, INNER, VOCABULARY, LONGEST = 18, 3, 11, 17, 97
CONFIG = configs.transformer(
    size=SIZE, heads=HEADS, feed_forward=INNER, layers=2, decoder_layers=1, max_positions=LONGEST
)


def model_of(config=CONFIG, **values):
    """Return a model whose biases and norms have an effect."""
    torch.manual_seed(5)
    model = build_translation(configs.changed(config, **values), VOCABULARY, 13).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model


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


def close(result, expected, tolerance=2e-5):
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


def assert_equal(result, expected, tolerance=2e-5):
    """Compare the states of real positions. Those of padding are zeros."""
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
    """Check that PyTorch computed the states: those of padding are no zeros."""
    for ours, theirs in zip(result.layers, expected.layers, strict=True):
        assert ours.dtype == theirs.dtype
        close(ours, theirs, tolerance)
    assert result.layers[-1][~expected.mask].any()


VARIANTS = [
    dict(norm=norm, activation=activation, positions=positions)
    for norm in ("pre", "post")
    for activation, positions in [
        ("relu", "sinusoidal"), ("gelu", "rotary"), ("gelu", "learned"), ("relu", "rotary"),
    ]
] + [
    dict(heads=1), dict(heads=9), dict(layers=1), dict(layers=3), dict(attention=dict(score="dot")),
    dict(attention=dict(temperature=1.7)), dict(attention=dict(score="dot", temperature=0.6)),
]  # fmt: skip


@pytest.mark.parametrize("values", VARIANTS, ids=lambda x: "-".join(map(str, x.values())))
@torch.no_grad()
def test_states_equal_those_of_the_reference(values):
    reference, native = encoders(**values)
    for source in (SOURCE, source_of(4, 4)):
        assert_equal(native(source), reference(source))


@pytest.mark.parametrize("lengths", [(1,), (0,), (0, 0), (37, 2), (), (90,), (1,) * 50])
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_states_of_any_sizes_equal_those_of_the_reference(lengths):
    reference, native = encoders(positions="rotary")
    source = source_of(*lengths)
    assert_equal(native(source), reference(source))


@torch.no_grad()
def test_states_of_long_sentences_equal_those_of_the_reference():
    """Queries are divided into blocks, and the last block has one query."""
    reference, native = encoders(positions="rotary")
    source = source_of(257, 128, 129, 3, 300)
    assert_equal(native(source), reference(source), 1e-4)


@torch.no_grad()
def test_real_positions_may_lie_between_padding():
    reference, native = encoders(positions="rotary")
    mask = torch.rand(5, 9, generator=torch.Generator().manual_seed(1)) < 0.6
    source = Tokens(torch.full((5, 9), 4), mask)
    assert_equal(native(source), reference(source))


@torch.no_grad()
def test_series_of_numbers():
    """The embedding is a linear layer."""
    model = model_of()
    embedder = model.encoder.embedder
    linear = nn.Linear(2, SIZE).requires_grad_(False)
    model.encoder.embedder = Embedder(linear, embedder.positions, 0.1, scale=1.0).eval()
    native = freeze(model).encoder
    assert isinstance(native, NativeTransformerEncoder)
    values = torch.randn(5, 7, 2)
    values[~SOURCE.mask] = math.nan
    source = Numbers(values, SOURCE.mask)
    expected = model.encoder(replace(source, values=values.nan_to_num()))
    result = native(source)
    close(result.layers[-1][SOURCE.mask], expected.layers[-1][SOURCE.mask])
    assert not result.layers[-1][~SOURCE.mask].any()


@torch.no_grad()
def test_learned_positions_have_an_end():
    reference, native = encoders(positions="learned", max_positions=4)
    assert_equal(native(source_of(4, 2)), reference(source_of(4, 2)))
    for encoder in (native, reference):
        with pytest.raises(UserError, match="longer than the 4 learned positions"):
            encoder(source_of(5))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_a_sentence_has_the_same_bits_in_any_batch(norm, dtype):
    """Alone, among others, with more padding, and in another order."""
    native = freeze(model_of(norm=norm, positions="rotary", activation="gelu"), dtype).encoder
    assert isinstance(native, NativeTransformerEncoder)
    lengths = (13, 9, 3, 0, 13, 1, 77)
    source = source_of(*lengths)
    together = native(source).layers[1:]
    backwards = native(source.select(torch.arange(6, -1, -1))).layers[1:]
    for row, length in enumerate(lengths):
        ids, mask = source.ids[row : row + 1, :length], source.mask[row : row + 1, :length]
        alone = native(Tokens(ids, mask))
        for layer, states in enumerate(together):
            assert torch.equal(alone.layers[1 + layer][0], states[row, :length])
            assert torch.equal(backwards[layer][6 - row], states[row])


@pytest.mark.parametrize("lengths", [(40,), (90, 40, 9, 33, 2, 90, 90), (7,) * 60])
@torch.no_grad()
def test_threads_change_no_bit(lengths):
    """With products large enough for threads: fewer sentences than threads, and more."""
    native = freeze(model_of(configs.changed(CONFIG, size=144, feed_forward=300))).encoder
    source, at_first = source_of(*lengths), torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(native(source).layers)
    finally:
        torch.set_num_threads(at_first)
    for result in results[1:]:
        for ours, theirs in zip(result, results[0], strict=True):
            assert torch.equal(ours, theirs)


@torch.no_grad()
def test_int8_weights():
    model = model_of()
    native = freeze(model, torch.int8).encoder
    assert isinstance(native, NativeTransformerEncoder)
    result, expected = native(SOURCE), native.encoder(SOURCE)
    close(result.layers[-1][SOURCE.mask], expected.layers[-1][SOURCE.mask], 0.1)
    assert not result.layers[-1][~SOURCE.mask].any()


@torch.no_grad()
def test_nan_stays_in_its_sentence():
    """In an embedding; NaN in a weight reaches every sentence, and padding stays zero."""
    model = model_of()
    model.encoder.embedder.embedding.weight[4] = math.nan
    native = freeze(model).encoder
    ids = torch.tensor([[5, 6, 7], [5, 4, 7], [8, 0, 0]])
    source = Tokens(ids, ids > 0)
    states = native(source).layers[-1]
    assert states[0].isfinite().all()
    assert states[1].isnan().all()
    assert states[2, 0].isfinite().all()
    model.encoder.layers[1].feed_forward.inner.bias[0] = math.nan
    states = freeze(model).encoder(source).layers[-1]
    assert states[source.mask].isnan().all()
    assert not states[~source.mask].any()


@torch.no_grad()
def test_requested_weights_are_those_of_the_reference():
    reference, native = encoders()
    result, expected = native(SOURCE, need_weights=True), reference(SOURCE, need_weights=True)
    assert_is_reference(result, expected)
    for block, other in zip(result.attention, expected.attention, strict=True):
        assert block.kind == other.kind
        close(block.weights, other.weights)
        close(block.scores, other.scores)


@torch.no_grad()
def test_the_instruction_set_may_change_between_calls():
    best = kernels.lanes()
    reference, native = encoders()
    try:
        for lanes in (4, best, 4, 8):
            kernels.lanes(lanes)
            assert_equal(native(SOURCE), reference(SOURCE))
    finally:
        kernels.lanes(best)


def test_with_gradients_the_reference_computes():
    reference, native = encoders()
    assert_is_reference(native(SOURCE), reference(SOURCE))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_other_types_use_the_reference(dtype):
    model = model_of()
    reference, native = model.to(dtype).encoder, freeze(model, dtype).encoder
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-9
    assert_is_reference(native(SOURCE), reference(SOURCE), tolerance)


@torch.no_grad()
def test_autocast_transforms_and_compilers_use_the_reference(monkeypatch):
    reference, native = encoders()
    with torch.autocast("cpu", torch.bfloat16):
        assert native(SOURCE).layers[-1][~SOURCE.mask].any()
    with forward_ad.dual_level():
        assert_is_reference(native(SOURCE), reference(SOURCE))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert_is_reference(native(SOURCE), reference(SOURCE))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_a_trace_has_operations_of_pytorch_only():
    """Its results depend on its inputs, which a kernel would hide."""
    reference, native = encoders()

    class States(nn.Module):
        def __init__(self):
            super().__init__()
            self.native = native

        def forward(self, ids, mask):
            return self.native(Tokens(ids, mask)).layers[-1]

    first, second = source_of(4, 3, 4), source_of(3, 4, 1, seed=4)
    traced = torch.jit.trace(States(), (first.ids, first.mask))
    close(traced(second.ids, second.mask), reference(second).layers[-1])


@torch.no_grad()
def test_without_the_library_the_reference_computes(monkeypatch):
    model = model_of()
    monkeypatch.setattr(kernels, "_LIBRARY", None)
    assert_is_reference(freeze(model).encoder(SOURCE), model.encoder(SOURCE))


@torch.no_grad()
def test_in_training_the_reference_computes():
    reference, native = encoders(dropout=0.0)
    assert_is_reference(native.train()(SOURCE), reference(SOURCE))
    assert_equal(native.eval()(SOURCE), reference(SOURCE))


@torch.no_grad()
def test_inputs_and_masks_may_have_any_memory_layout():
    reference, native = encoders()
    source = source_of(5, 3, 4, 1, 5)
    turned = Tokens(source.ids.T.contiguous().T, source.mask.T.contiguous().T)
    assert_equal(native(turned), reference(source))
    row = torch.arange(5) < 3
    expanded = replace(source, mask=row.expand(5, -1))
    assert_equal(native(expanded), reference(expanded))


@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_wrong_inputs_are_rejected():
    _, native = encoders()
    mask = SOURCE.mask
    for wrong in (mask[:, :-1], mask[:-1], mask[0], mask.float(), mask.to("meta")):
        with pytest.raises(ValueError, match=r"^mask: expected \(5, 7\) of bool on cpu, got"):
            native(Tokens(SOURCE.ids, wrong))
    with pytest.raises(ValueError, match=r"^embeddings: expected"):
        native(Tokens(SOURCE.ids[..., None], mask))
    with pytest.raises(ValueError, match=r"^inputs: expected a tensor on cpu, got one on meta"):
        native(Tokens(SOURCE.ids.to("meta"), mask))
    with pytest.raises(IndexError):
        native(Tokens(SOURCE.ids + VOCABULARY, mask))


def test_a_frozen_model_is_copied_and_pickled():
    model = model_of()
    frozen = freeze(model)
    with torch.no_grad():
        expected = frozen.encoder(SOURCE).layers
    stored = io.BytesIO()
    torch.save(frozen, stored)
    stored.seek(0)
    copies = [
        copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen)), freeze(frozen),
        torch.load(stored, weights_only=False),
    ]  # fmt: skip
    del frozen, model
    for each in copies:
        assert each.encoder._weights is None
        assert type(each.encoder.encoder) is TransformerEncoder
        with torch.no_grad():
            layers = each.encoder(SOURCE).layers
        assert each.encoder._weights is not None
        for ours, theirs in zip(layers, expected, strict=True):
            assert torch.equal(ours, theirs)


@torch.no_grad()
def test_replaced_parameters_leave_no_dangling_address():
    """The structures keep the numbers that they refer to; a conversion makes new structures."""
    reference, native = encoders(norm="pre")
    native(SOURCE)
    weights = native._weights
    for module in native.encoder.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight = nn.Parameter(module.weight.clone(), requires_grad=False)
            module.bias.data = module.bias.data.clone()
    filler = [torch.full((SIZE,), math.nan) for _ in range(100)]
    assert_equal(native(SOURCE), reference(SOURCE))
    assert native._weights is weights
    assert len(filler) == 100
    native.encoder.norm.weight.mul_(2)
    native.float()
    assert native._weights is None
    reference.norm.weight.mul_(2)
    assert_equal(native(SOURCE), reference(SOURCE))


@torch.no_grad()
def test_a_hook_on_a_frozen_encoder_is_called():
    _, native = encoders()
    calls = []
    layer = native.encoder.layers[1].feed_forward
    handle = layer.register_forward_hook(lambda *_: calls.append(True))
    assert native(SOURCE).layers[-1][~SOURCE.mask].any()
    assert calls
    handle.remove()
    assert not native(SOURCE).layers[-1][~SOURCE.mask].any()


class Doubled(nn.LayerNorm):
    """Layer norm with another formula."""

    def forward(self, inputs):
        return 2 * super().forward(inputs)


class Reversed(EncoderLayer):
    """Encoder layer with another formula."""


class OtherEncoder(TransformerEncoder):
    """Encoder with another formula."""


def replaced(path, module):
    """Return a change that replaces a module."""
    parent, _, name = path.rpartition(".")
    return lambda encoder: setattr(encoder.get_submodule(parent), name, module)


CHANGES = {
    "norm": replaced("layers.1.self_residual.norm", Doubled(SIZE)),
    "last norm": replaced("norm", Doubled(SIZE)),
    "norm without weights": replaced(
        "layers.0.feed_forward_residual.norm", nn.LayerNorm(SIZE, elementwise_affine=False)
    ),
    "norm without bias": replaced("layers.0.self_residual.norm", nn.LayerNorm(SIZE, bias=False)),
    "torch's linear": replaced("layers.1.feed_forward.inner", nn.Linear(SIZE, INNER)),
    "dropout": replaced("layers.0.self_residual.dropout", nn.AlphaDropout(0.5)),
    "dropout of weights": replaced(
        "layers.0.self_attention.heads.attention.dropout", nn.Identity()
    ),
    "dropout of embeddings": replaced("embedder.dropout", nn.Identity()),
    "window": lambda encoder: setattr(encoder, "span", SlidingWindow(3)),
    "hook": lambda encoder: encoder.layers[1].register_forward_hook(lambda *_: None),
    "class": lambda encoder: setattr(encoder, "__class__", OtherEncoder),
    "class of a layer": lambda encoder: setattr(encoder.layers[1], "__class__", Reversed),
    "forward": lambda encoder: setattr(encoder.layers[0], "forward", lambda *_: None),
    "no layers": lambda encoder: setattr(encoder, "layers", nn.ModuleList()),
    "other activation": lambda encoder: setattr(
        encoder.layers[1].feed_forward, "activation", "gelu"
    ),
    "other temperature": lambda encoder: setattr(
        encoder.layers[1].self_attention.heads.attention.normaliser, "temperature", 2.0
    ),
    "other number of heads": lambda encoder: setattr(
        encoder.layers[1].self_attention.heads, "num_heads", 2
    ),
    "rotation of odd sizes": lambda encoder: (
        setattr(encoder.embedder, "positions", Rotary()),
        [setattr(layer.self_attention.heads, "num_heads", 2) for layer in encoder.layers],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_encoders_with_other_parts_are_not_folded(name):
    encoder = model_of().encoder
    assert encoder_has_kernels(encoder)
    CHANGES[name](encoder)
    assert not encoder_has_kernels(encoder)
    assert encoder.folded() is encoder
    with pytest.raises(ValueError, match="encoder: a part has no kernel"):
        NativeTransformerEncoder(encoder)


@torch.no_grad()
def test_parts_without_a_kernel_use_the_reference():
    """Parts that are replaced before the first call, or before the model is frozen again."""
    for name in ("norm", "last norm", "no layers", "window", "other temperature"):
        frozen = freeze(model_of())
        native = frozen.encoder
        CHANGES[name](native.encoder)
        result, expected = native(SOURCE), native.encoder(SOURCE)
        assert_is_reference(result, expected)
        assert type(freeze(frozen).encoder) is TransformerEncoder


@torch.no_grad()
def test_a_frozen_encoder_that_is_not_folded_again_has_one_reference():
    """Because it has a hook, or is the whole model that is frozen."""
    reference, native = encoders()
    assert_equal(freeze(native)(SOURCE), reference(SOURCE))
    frozen = freeze(model_of())
    frozen.encoder.register_forward_hook(lambda *_: None)
    again = freeze(frozen).encoder
    assert type(again.encoder) is TransformerEncoder
    assert_equal(again(SOURCE), reference(SOURCE))


@torch.no_grad()
def test_an_encoder_in_training_uses_the_reference():
    """Also if the frozen encoder around it is not in training."""
    native = freeze(model_of(dropout=0.5)).encoder
    native(SOURCE)
    native.encoder.train()
    results = [native(SOURCE).layers[-1] for _ in range(2)]
    assert not torch.equal(*results)
    assert results[0][~SOURCE.mask].any()


@pytest.mark.parametrize(
    "values",
    [
        dict(attention=dict(score="additive", size=7)),
        dict(attention=dict(score="general")),
        dict(attention=dict(normaliser="sparsemax")),
        dict(experts=dict(number=3, size=7)),
        dict(window=2),
    ],
    ids=["additive", "general", "sparsemax", "experts", "window"],
)
def test_other_models_are_not_folded(values):
    assert type(freeze(model_of(**values)).encoder) is TransformerEncoder


@torch.no_grad()
def test_linear_layers_may_have_no_bias():
    model = model_of()
    for layer in model.encoder.layers:
        layer.feed_forward.inner.bias = layer.self_attention.projection.bias = None
    assert_equal(freeze(model).encoder(SOURCE), model.encoder(SOURCE))


def test_every_member_of_an_ensemble_has_a_native_encoder():
    ensemble = Ensemble([model_of(), model_of(positions="rotary")])
    natives = [x for x in freeze(ensemble).modules() if isinstance(x, NativeTransformerEncoder)]
    assert len(natives) == 2
    source = pad([[4, 5, 6], [7]])
    with torch.no_grad():
        ours, theirs = (each.encode(source) for each in (freeze(ensemble), ensemble))
    for mine, other in zip(ours, theirs, strict=True):
        close(mine.keys[source.mask], other.keys[source.mask])
