"""Wrong shapes, types and devices are rejected by name, in the same way on every path."""

import pytest
import torch

from regard import kernels
from regard.attention import (
    CAUSAL,
    Additive,
    AdditiveKeys,
    Attention,
    Coverage,
    Dot,
    HardAttention,
    HistoryAdditive,
    HistoryAttention,
    LocalAttention,
    Monotonic,
    MultiHeadAttention,
    StraightThroughAttention,
)
from regard.compiled.attention.fused_additive import additive_attention, additive_scores, native
from regard.compiled.candidates import top_candidates
from regard.compiled.losses.linear_cross_entropy import linear_cross_entropy
from regard.compiled.recurrent.scan import Layer, scan
from regard.layers.recurrent.cells import CellState
from regard.layers.recurrent.stack import RecurrentStack
from tests.attention.parts import NORMALISERS, SCORE_KINDS
from tests.messages import raises

BATCH, TARGET, SOURCE, SIZE = 4, 3, 5, 16

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(autouse=True, params=["compiled", "torch"])
def library(request, monkeypatch):
    """Run with and without the compiled library."""
    if request.param == "torch":
        monkeypatch.setattr(kernels, "_LIBRARY", None)
    elif not kernels.available():
        pytest.skip("the kernels are not compiled")


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class OwnDropout(torch.nn.Dropout):
    """Subclass that no kernel replaces."""


def with_own_dropout(attention):
    attention.dropout = OwnDropout(0.0)
    return attention


def score_of(name):
    return SCORE_KINDS[name](SIZE, SIZE, 7)


ENTRANCES = {
    **{
        f"{score}-{normaliser}": lambda score=score, normaliser=normaliser: Attention(
            score_of(score), NORMALISERS[normaliser][0]()
        )
        for score in SCORE_KINDS
        for normaliser in NORMALISERS
    },
    "additive, own dropout": lambda: with_own_dropout(Attention(Additive(SIZE, SIZE, 7))),
    "hard": lambda: HardAttention(Attention(Additive(SIZE, SIZE, 7))),
    "straight_through": lambda: StraightThroughAttention(Attention(Additive(SIZE, SIZE, 7))),
    "local": lambda: LocalAttention(Additive(SIZE, SIZE, 7), Monotonic(), 2),
    "coverage": lambda: HistoryAttention(HistoryAdditive(SIZE, SIZE, Coverage(7))),
}
OTHER_MASKS = {
    "int64": torch.ones(BATCH, TARGET, SOURCE, dtype=torch.int64),
    "uint8": torch.ones(BATCH, TARGET, SOURCE, dtype=torch.uint8),
    "float32": torch.ones(BATCH, TARGET, SOURCE),
    "bfloat16": torch.zeros(BATCH, TARGET, SOURCE, dtype=torch.bfloat16),
}
WRONG_MASKS = {
    "source rows": torch.ones(BATCH, SOURCE, dtype=torch.bool),
    "few rows": torch.ones(BATCH, 2, SOURCE, dtype=torch.bool),
    "few sentences": torch.ones(2, TARGET, SOURCE, dtype=torch.bool),
    "few keys": torch.ones(BATCH, TARGET, SOURCE - 1, dtype=torch.bool),
    "an axis more": torch.ones(1, BATCH, TARGET, SOURCE, dtype=torch.bool),
    "elsewhere": torch.ones(BATCH, TARGET, SOURCE, dtype=torch.bool, device="meta"),
}


def attend(attention, mask, need_weights, queries=None):
    queries = randn(BATCH, TARGET, SIZE) if queries is None else queries
    keys = randn(BATCH, SOURCE, SIZE)
    state = None
    if isinstance(attention, LocalAttention):
        state = attention.all_steps_state(queries)
    if isinstance(attention, HistoryAttention):
        state = torch.zeros(BATCH, TARGET, SOURCE)
    return attention(queries, attention.prepare(keys), keys, mask, state, need_weights=need_weights)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", ENTRANCES)
@pytest.mark.parametrize("mask", OTHER_MASKS)
def test_masks_must_be_bool(name, mask, need_weights):
    remedy = r"mask != 0.*-inf" if "float" in mask else "mask != 0"
    with pytest.raises(ValueError, match=rf"^mask: expected bool .*torch\.{mask}; use {remedy}"):
        attend(ENTRANCES[name](), OTHER_MASKS[mask], need_weights)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("score", SCORE_KINDS)
def test_queries_of_another_type_are_rejected_on_every_path(score, need_weights):
    queries = randn(BATCH, TARGET, SIZE).double()
    with pytest.raises(ValueError, match=r"^(keys|queries): expected torch.float(32|64) "):
        attend(Attention(score_of(score)), None, need_weights, queries)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", ENTRANCES)
@pytest.mark.parametrize("mask", WRONG_MASKS)
def test_masks_of_other_shapes_are_rejected(name, mask, need_weights):
    with pytest.raises(ValueError, match=r"^mask: expected a (shape|tensor on)"):
        attend(ENTRANCES[name](), WRONG_MASKS[mask], need_weights)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", ["scaled_dot-softmax", "additive-softmax", "additive-entmax15"])
def test_heads_name_an_invalid_mask(name, need_weights):
    heads = MultiHeadAttention(SIZE, SIZE, SIZE, SIZE, 1, ENTRANCES[name]())
    keys = randn(BATCH, SOURCE, SIZE)
    with raises(ValueError, "mask"):
        heads(
            randn(BATCH, TARGET, SIZE),
            heads.prepare(keys, keys),
            WRONG_MASKS["source rows"],
            need_weights=need_weights,
        )
    mask = torch.ones(SOURCE, dtype=torch.bool)
    shown = heads(randn(BATCH, TARGET, SIZE), heads.prepare(keys, keys), mask)
    assert shown.context.shape == (BATCH, TARGET, SIZE)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", ENTRANCES)
def test_causal_masks_need_equal_numbers_of_queries_and_keys(name, need_weights):
    with pytest.raises((ValueError, TypeError), match="mask: "):
        attend(ENTRANCES[name](), CAUSAL, need_weights)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", [name for name in ENTRANCES if name not in ("local", "coverage")])
def test_one_source_serves_a_batch_of_queries(name, need_weights):
    attention = ENTRANCES[name]().eval()
    queries, mask = randn(BATCH, TARGET, SIZE), torch.rand(BATCH, TARGET, SOURCE) < 0.7
    keys, values = randn(1, SOURCE, SIZE), randn(1, SOURCE, 11)
    every = [x.expand(BATCH, -1, -1) for x in (keys, values)]
    expected = attention(queries, attention.prepare(every[0]), every[1], mask, need_weights=True)
    for source in ((keys, values), (keys[0], values[0]), (keys, every[1]), (every[0], values)):
        output = attention(
            queries, attention.prepare(source[0]), source[1], mask, need_weights=need_weights
        )
        torch.testing.assert_close(output.context, expected.context)
        if need_weights:
            torch.testing.assert_close(output.weights, expected.weights)


def test_one_source_gets_the_gradients_of_all_its_queries():
    queries, keys, vector = randn(BATCH, TARGET, SIZE), randn(1, SOURCE, SIZE), randn(SIZE)
    leaves = [x.requires_grad_() for x in (queries, keys, vector)]
    pairs = torch.tanh(queries[:, :, None] + keys[:, None])
    above = randn(BATCH, TARGET, SOURCE)
    expected = torch.autograd.grad((pairs * vector).sum(-1), leaves, above)
    computed = torch.autograd.grad(additive_scores(*leaves), leaves, above)
    for ours, plain in zip(computed, expected, strict=True):
        torch.testing.assert_close(ours, plain)


def test_one_source_is_not_repeated_for_its_queries():
    """Repeated keys would take 20 GB."""
    scores = additive_scores(randn(20000, 1, 512), randn(1, 500, 512)[:, :2], randn(512))
    assert scores.shape == (20000, 1, 2)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", [name for name in ENTRANCES if name != "coverage"])
def test_vectors_of_wrong_sizes_are_rejected(name, need_weights):
    attention, keys = ENTRANCES[name](), randn(BATCH, SOURCE, SIZE)
    prepared = attention.prepare(keys)

    def call(queries, values):
        state = attention.all_steps_state(queries) if name == "local" else None
        mask = torch.ones(BATCH, 1, SOURCE, dtype=torch.bool)
        return attention(queries, prepared, values, mask, state, need_weights=need_weights)

    queries = randn(BATCH, TARGET, SIZE)
    for wrong in (
        (randn(BATCH, TARGET, SIZE - 1), keys),
        (randn(BATCH - 2, TARGET, SIZE), keys),
        (queries.long(), keys),
        (queries.to("meta"), keys),
        (queries, randn(BATCH, SOURCE - 1, SIZE)),
        (queries, randn(BATCH - 2, SOURCE, SIZE)),
        (queries, keys.to("meta")),
    ):
        with pytest.raises(ValueError, match=r"queries|keys|values|mask"):
            call(*wrong)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(
    "name", ["additive-softmax", "concat-sparsemax", "shared_additive-softmax"]
)
def test_keys_that_were_not_prepared_are_rejected(name, need_weights):
    keys = randn(BATCH, SOURCE, SIZE)
    with pytest.raises(ValueError, match=r"^prepared: .*call attention\.prepare\(keys\)"):
        ENTRANCES[name]()(randn(BATCH, TARGET, SIZE), keys, keys, need_weights=need_weights)
    local = LocalAttention(Additive(SIZE, SIZE, 7), Monotonic(), 2)
    queries, mask = randn(BATCH, TARGET, SIZE), torch.ones(BATCH, 1, SOURCE) > 0
    with pytest.raises(ValueError, match=r"^prepared: "):
        local(queries, keys, keys, mask, local.all_steps_state(queries))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((20, 3, 512), (1, 5, 256), (512,)), "keys: expected vectors of size 512"),
        (((2, 3, 16), (4, 5, 16), (16,)), "batch axes"),
        (((4, 3, 16), (2, 5, 16), (16,)), "batch axes"),
        (((4, 3, 16), (4, 5, 8), (16,)), "keys: expected vectors of size 16"),
        (((4, 3, 8), (4, 5, 16), (16,)), "keys: expected vectors of size 8"),
        (((4, 3, 16), (4, 5, 16), (11,)), "vector: expected 16"),
        (((4, 3, 16), (4, 5, 16), (1,)), "vector: expected 16"),
        (((4, 3, 16), (4, 5, 16), (16, 1)), "vector: expected 16"),
        (((16,), (4, 5, 16), (16,)), "queries: expected at least two axes"),
        (((4, 3, 16), (16,), (16,)), "keys: expected at least two axes"),
    ],
)
def test_additive_functions_reject_shapes_that_do_not_fit(shapes, message):
    queries, keys, vector = (randn(*shape) for shape in shapes)
    with pytest.raises(ValueError, match=message):
        additive_scores(queries, keys, vector)
    values = keys[..., :1] if keys.dim() > 1 else randn(4, 5, 1)
    with pytest.raises(ValueError, match=message):
        additive_attention(queries, keys, vector, values)


def test_powers_of_other_keys_are_rejected():
    with pytest.raises(ValueError, match=r"^powers: expected the shape of the keys"):
        AdditiveKeys(randn(2, 5, 7), randn(2, 4, 7))


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
def test_native_calls_check_their_arguments():
    queries, keys, vector = randn(4, 3, 16), randn(4, 5, 16), randn(16)
    for wrong in (
        (queries, keys[:1], vector),
        (queries, keys[..., :8], vector),
        (queries, keys, vector[:8]),
        (queries[0], keys, vector),
        (queries, keys, vector, torch.ones(4, 3, 5)),
        (queries, keys, vector, torch.ones(4, 3, 1, dtype=torch.bool)),
        (queries, keys, vector, torch.ones(2, 3, 5, dtype=torch.bool)),
        (queries, keys, vector, None, keys[:1]),
        (queries, keys.to("meta"), vector),
    ):
        with pytest.raises(ValueError, match=r"expected"):
            native._Call(*wrong)
    for grads in (randn(5, 3, 5), randn(4, 2, 5), randn(4, 3, 4)):
        with pytest.raises(ValueError, match=r"^gradients of scores: expected"):
            native.differentiate_score(grads, queries, keys, vector)
    with pytest.raises(ValueError, match=r"^weights: expected"):
        native.through_softmax(randn(4, 3, 5), randn(4, 3, 4), None, 1.0)


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
def test_recurrent_layers_reject_shapes_that_do_not_fit(kind):
    stack = RecurrentStack(kind, 4, 7, num_layers=2)
    hidden = torch.zeros(2, 2, 7)
    cell = hidden if kind == "lstm" else None
    with torch.no_grad():
        for inputs, state, cells in (
            (randn(2, 3, 5), hidden, cell),
            (randn(2, 4), hidden, cell),
            (
                randn(2, 3, 4).to("meta"),
                hidden.to("meta"),
                None if cell is None else cell.to("meta"),
            ),
            (randn(2, 3, 4), torch.zeros(4096, 2, 7), cell),
            (randn(2, 3, 4), torch.zeros(2, 1, 7), cell),
            (randn(2, 3, 4), torch.zeros(2, 2, 8), cell),
            (randn(2, 3, 4), hidden, None if kind == "lstm" else hidden),
            (randn(2, 3, 4), hidden, torch.zeros(2, 2, 8)),
            (randn(2, 3, 4), hidden.to("meta"), cell),
        ):
            with pytest.raises(ValueError, match=r"^(inputs|hidden|cell): expected"):
                stack(inputs, state, cells)
            with pytest.raises(ValueError, match=r"^(inputs|hidden|cell): expected"):
                stack.step(inputs[:, 0], state, cells)
        for mask in (torch.ones(2, 3), torch.ones(2, 4) > 0, torch.ones(3, 3) > 0):
            with pytest.raises(ValueError, match=r"^mask: expected bool"):
                stack.encode(randn(2, 3, 4), mask)


def test_a_scan_rejects_shapes_that_do_not_fit():
    layer = Layer("gru", randn(21, 7), randn(21))
    for input_gates, hidden, mask in (
        (randn(3, 2, 21), randn(4096, 7), None),
        (randn(3, 2, 14), randn(2, 7), None),
        (randn(3, 2, 21), randn(2, 6), None),
        (randn(3, 2, 21), randn(2, 7), torch.ones(3, 3) > 0),
        (randn(3, 2, 21), randn(2, 7), torch.ones(3, 2)),
    ):
        with pytest.raises(ValueError, match="expected"):
            scan(layer, input_gates, CellState(hidden, None), mask)
    lstm = Layer("lstm", randn(28, 7), randn(28))
    with pytest.raises(ValueError, match="first cell"):
        scan(lstm, randn(3, 2, 28), CellState(randn(2, 7), None))


@pytest.mark.parametrize(
    ("features", "weight", "bias", "targets", "message"),
    [
        (randn(4096, 8), randn(10, 8), None, torch.tensor([1, 2, 3]), r"^targets: expected one"),
        (randn(3, 8), randn(10, 7), None, torch.tensor([1, 2, 3]), r"^features and weight"),
        (randn(3, 8), randn(0, 8), None, torch.tensor([1, 2, 3]), r"^weight: expected a row"),
        (randn(3, 8), randn(10, 8), randn(9), torch.tensor([1, 2, 3]), r"^bias"),
        (randn(3, 8), randn(10, 8), None, randn(3), r"^targets: expected integers"),
        (randn(3, 8), randn(10, 8), None, torch.tensor([True] * 3), r"^targets: expected integers"),
        (randn(3, 8), randn(10, 8), None, torch.ones(3, 1).long(), r"^targets: expected one"),
        (randn(3, 8), randn(10, 8).to("meta"), None, torch.tensor([1, 2, 3]), r"^weight: .*cpu"),
    ],
)
def test_the_loss_rejects_shapes_that_do_not_fit(features, weight, bias, targets, message):
    with pytest.raises(ValueError, match=message):
        linear_cross_entropy(features, weight, bias, targets)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_the_loss_takes_targets_of_every_integer_type(dtype):
    features, weight, targets = randn(3, 8), randn(10, 8), torch.tensor([9, 0, 5])
    expected = linear_cross_entropy(features, weight, None, targets)
    assert linear_cross_entropy(features, weight, None, targets.to(dtype)) == expected


def test_candidates_reject_shapes_that_do_not_fit():
    logits, totals, closed = randn(2, 3, 11), randn(2, 3), torch.tensor([1])
    for wrong in (
        (logits, totals[:1], closed, 2),
        (logits, totals[:, :2], closed, 2),
        (logits[:, :0], totals[:, :0], closed, 2),
        (logits[..., :0], totals, closed, 2),
        (logits, totals, closed.int(), 2),
        (logits, totals, closed[:, None], 2),
        (logits, totals, closed, 0),
        (logits, totals.to("meta"), closed, 2),
    ):
        with pytest.raises(ValueError, match="expected"):
            top_candidates(*wrong)


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("queries", ((4, 3, 15), (4, 5, 16), (4, 5, 7)), "MultiHeadAttention was built for .* 16"),
        ("keys", ((4, 3, 16), (4, 5, 17), (4, 5, 7)), "MultiHeadAttention was built for .* 16"),
        ("values", ((4, 3, 16), (4, 5, 16), (4, 5, 8)), "MultiHeadAttention was built for .* 7"),
    ],
)
def test_heads_name_inputs_of_wrong_sizes(name, shapes, message):
    heads = MultiHeadAttention(SIZE, SIZE, 7, SIZE, 2, Attention(Dot()))
    queries, keys, values = (randn(*shape) for shape in shapes)
    with pytest.raises(ValueError, match=f"^{name}: {message}"):
        heads(queries, heads.prepare(keys, values))


def test_heads_name_values_of_another_type():
    heads = MultiHeadAttention(SIZE, SIZE, 7, SIZE, 2, Attention(Dot()))
    with raises(ValueError, "values"):
        heads.prepare(randn(4, 5, SIZE), randn(4, 5, 7).bfloat16())


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (torch.zeros(BATCH, TARGET), "expected integers"),
        (torch.zeros(BATCH, TARGET + 1, dtype=torch.long), r"expected \(4, 3\)"),
        (torch.zeros(BATCH, TARGET, dtype=torch.long, device="meta"), "expected a tensor on cpu"),
    ],
)
def test_local_attention_rejects_positions_of_wrong_shapes(state, message):
    local = LocalAttention(Dot(), Monotonic(), 2)
    keys = randn(BATCH, SOURCE, SIZE)
    with pytest.raises(ValueError, match=f"^state: {message}"):
        local(randn(BATCH, TARGET, SIZE), local.prepare(keys), keys, None, state)


def test_local_attention_rejects_wrong_axes_and_keys():
    local, keys = LocalAttention(Dot(), Monotonic(), 2), randn(BATCH, SOURCE, SIZE)
    state = torch.zeros(BATCH, TARGET, dtype=torch.long)
    with pytest.raises(ValueError, match=r"^queries: expected \(batch, target, size\)"):
        local(randn(TARGET, SIZE), keys, keys, None, state)
    with pytest.raises(ValueError, match=r"^values: expected 5, one for each key, got 1"):
        local(randn(BATCH, TARGET, SIZE), keys, keys[:, :1], None, state)


def test_local_attention_broadcasts_one_query():
    local, keys = LocalAttention(Dot(), Monotonic(), 2), randn(BATCH, SOURCE, SIZE)
    queries, state = randn(1, TARGET, SIZE), torch.arange(TARGET)[None]
    context = local(queries, keys, keys, None, state).context
    alone = local(queries.expand(BATCH, -1, -1), keys, keys, None, state.expand(BATCH, -1)).context
    torch.testing.assert_close(context, alone)
