"""The encoder in C++ compared with `TransformerEncoder`, the reference."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard import kernels
from regard.compiled.freeze import freeze
from regard.compiled.transformer.encoder import NativeTransformerEncoder
from regard.data.batch import Numbers, Tokens, pad
from regard.errors import UserError
from regard.layers.embedder import Embedder
from regard.models.ensemble import Ensemble
from tests import configs
from tests.compiled.native_steps import VOCABULARY, assert_equal_blocks, close
from tests.compiled.transformer.encoder_problems import (
    CONFIG,
    SOURCE,
    assert_equal,
    assert_is_reference,
    encoders,
    model_of,
    source_of,
)
from tests.compiled.transformer.problems import SIZE
from tests.messages import raises

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

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
    result, expected = native(SOURCE), native.reference(SOURCE)
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
def test_the_instruction_set_may_change_between_calls():
    best = kernels.lanes()
    reference, native = encoders()
    try:
        for lanes in (4, best, 4, 8):
            kernels.lanes(lanes)
            assert_equal(native(SOURCE), reference(SOURCE))
    finally:
        kernels.lanes(best)


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
    with raises(ValueError, "inputs"):
        native(Tokens(SOURCE.ids.to("meta"), mask))
    with pytest.raises(IndexError):
        native(Tokens(SOURCE.ids + VOCABULARY, mask))


@torch.no_grad()
def test_requested_weights_are_those_of_the_reference():
    reference, native = encoders()
    result, expected = native(SOURCE, need_weights=True), reference(SOURCE, need_weights=True)
    assert_is_reference(result, expected)
    assert_equal_blocks(result, expected)


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
def test_replaced_parameters_leave_no_dangling_address():
    """The next call and a conversion make new structures."""
    reference, native = encoders(norm="pre")
    native(SOURCE)
    weights = native._weights
    for module in native.reference.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight = nn.Parameter(module.weight.clone(), requires_grad=False)
            module.bias.data = module.bias.data.clone()
    filler = [torch.full((SIZE,), math.nan) for _ in range(100)]
    assert_equal(native(SOURCE), reference(SOURCE))
    assert native._weights not in (None, weights)
    assert len(filler) == 100
    native.reference.norm.weight.mul_(2)
    native.float()
    assert native._weights is None
    reference.norm.weight.mul_(2)
    assert_equal(native(SOURCE), reference(SOURCE))


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
