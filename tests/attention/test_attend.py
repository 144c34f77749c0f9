"""Attention: every score with every normaliser and masks, compared one number at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

from regard.attention import CAUSAL, Additive, Attention, Dot, ScaledDot, Softmax, causal, padding
from tests.attention.parts import (
    BATCH,
    NORMALISERS,
    SCORES,
    SOURCE,
    TARGET,
    VALUE,
    ScoreCase,
    number,
    uneven_mask,
)
from tests.forms import BOTH
from tests.oracles import attention as oracle

pytestmark = BOTH
every_score = pytest.mark.parametrize("case", SCORES.values(), ids=SCORES.keys())
every_normaliser = pytest.mark.parametrize(
    ("normaliser", "normalise"), NORMALISERS.values(), ids=NORMALISERS.keys()
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(5)


@every_score
@every_normaliser
def test_attend_equals_its_formula(case: ScoreCase, normaliser: type, normalise: oracle.Normaliser):
    attention = Attention(case.make().double(), normaliser())
    inputs, mask = case.inputs(), uneven_mask()
    prepared = attention.prepare(inputs.keys)
    shown = attention(inputs.queries, prepared, inputs.values, mask, need_weights=True)
    fast = attention(inputs.queries, prepared, inputs.values, mask)
    assert fast.weights is fast.scores is None
    for sentence in range(BATCH):
        expected = oracle.attend(
            number(inputs.queries[sentence]),
            number(inputs.keys[sentence]),
            number(inputs.values[sentence]),
            mask[sentence].numpy(),
            case.judge(attention.score),
            normalise,
        )
        result = (fast.context, shown.context, shown.weights, shown.scores)
        for ours, theirs in zip(result, (expected[0], *expected), strict=True):
            np.testing.assert_allclose(number(ours[sentence]), theirs, atol=1e-10)


@every_score
@every_normaliser
def test_gradients_are_those_of_finite_differences(
    case: ScoreCase, normaliser: type, normalise: oracle.Normaliser
):
    attention = Attention(case.make().double(), normaliser())
    mask = uneven_mask()

    def everything(queries, keys, values, *parameters):
        shown = attention(queries, attention.prepare(keys), values, mask, need_weights=True)
        return shown.context, shown.weights, shown.scores

    inputs = (*case.inputs().leaves(), *attention.parameters())
    assert gradcheck(everything, inputs, fast_mode=True)


@every_score
@every_normaliser
@pytest.mark.parametrize("masked", [False, True])
def test_the_fast_path_equals_the_plain_path_with_gradients(
    case: ScoreCase, normaliser: type, normalise: oracle.Normaliser, masked: bool
):
    attention = Attention(case.make(), normaliser(0.7))
    inputs, mask = case.inputs(torch.float32), uneven_mask() if masked else None
    results = []
    for need_weights in (False, True):
        leaves = inputs.leaves()
        queries, keys, values = leaves
        prepared = attention.prepare(keys)
        context = attention(queries, prepared, values, mask, need_weights=need_weights).context
        wanted = (*leaves, *attention.parameters())
        upstream = torch.arange(context.numel()).reshape(context.shape).sin()
        results.append((context, *torch.autograd.grad(context, wanted, upstream)))
    for fast, plain in zip(*results, strict=True):
        assert fast.isfinite().all()
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)


@every_score
@every_normaliser
@pytest.mark.parametrize("need_weights", [False, True])
def test_a_named_mask_equals_the_tensor_mask(
    case: ScoreCase, normaliser: type, normalise: oracle.Normaliser, need_weights: bool
):
    attention = Attention(case.make(), normaliser())
    queries, keys, values = case.inputs(torch.float32).leaves()
    keys, values = keys[:, :TARGET], values[:, :TARGET]
    contexts = [
        attention(queries, attention.prepare(keys), values, mask, need_weights=need_weights).context
        for mask in (CAUSAL, causal(TARGET))
    ]
    torch.testing.assert_close(*contexts)


@every_score
@every_normaliser
@pytest.mark.parametrize("need_weights", [False, True])
def test_masked_keys_have_no_influence_and_no_gradient(
    case: ScoreCase, normaliser: type, normalise: oracle.Normaliser, need_weights: bool
):
    attention = Attention(case.make(), normaliser())
    inputs, real = case.inputs(torch.float32), torch.rand(BATCH, SOURCE) < 0.6
    real[0], real[1, 2] = False, True  # one sentence has nothing at all
    queries, keys, values = inputs.leaves()

    def context(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        prepared = attention.prepare(keys)
        return attention(
            queries, prepared, values, padding(real), need_weights=need_weights
        ).context

    before = context(keys, values)
    before.square().sum().backward()
    assert not before[0].any()
    for gradient in (keys.grad, values.grad):
        assert gradient.isfinite().all()
        assert not gradient[~real].any()
        assert gradient[1][real[1]].any()
    assert queries.grad.isfinite().all()
    assert not queries.grad[0].any()
    hidden = ~real[..., None]
    after = context(
        torch.where(hidden, 50 * torch.randn_like(keys), keys),
        torch.where(hidden, 1e9 * torch.randn_like(values), values),
    )
    assert torch.equal(after, before)


@every_score
def test_padding_changes_no_result(case: ScoreCase):
    attention, inputs = Attention(case.make()), case.inputs(torch.float32)
    real = (torch.arange(SOURCE) < SOURCE - 2).expand(BATCH, SOURCE)
    padded = attention(inputs.queries, attention.prepare(inputs.keys), inputs.values, padding(real))
    prepared = attention.prepare(inputs.keys[:, :-2])
    cut = attention(inputs.queries, prepared, inputs.values[:, :-2])
    torch.testing.assert_close(padded.context, cut.context)


@every_score
def test_queries_are_independent(case: ScoreCase):
    """The target axis may count hypotheses: each query has its own result."""
    attention, inputs = Attention(case.make()), case.inputs(torch.float32)
    prepared, mask = attention.prepare(inputs.keys), uneven_mask()
    together = attention(inputs.queries, prepared, inputs.values, mask)
    for target in range(TARGET):
        position = slice(target, target + 1)
        alone = attention(inputs.queries[:, position], prepared, inputs.values, mask[:, position])
        torch.testing.assert_close(alone.context, together.context[:, position])


def test_additive_attention_equals_values_worked_out_by_hand():
    score = Additive(query_size=2, key_size=2, size=2)
    torch.nn.init.eye_(score.key.weight)
    torch.nn.init.zeros_(score.key.bias)
    torch.nn.init.ones_(score.query.weight)
    torch.nn.init.ones_(score.vector)
    attention, keys = Attention(score), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    attended = attention(torch.ones(1, 2), attention.prepare(keys), keys, need_weights=True)
    assert attended.scores[0].tolist() == pytest.approx([1.959, 1.959, 1.990], abs=5e-4)
    assert attended.weights[0].tolist() == pytest.approx([0.33, 0.33, 0.34], abs=5e-3)
    assert attended.context[0].tolist() == pytest.approx([0.67, 0.67], abs=5e-3)


def test_scaled_dot_attention_equals_values_worked_out_by_hand():
    attention = Attention(ScaledDot())
    keys = torch.tensor([[1.75], [1.5]]).expand(2, 64)
    attended = attention(torch.ones(1, 64), keys, torch.eye(2), need_weights=True)
    assert attended.scores.tolist() == [[14, 12]]
    assert attended.weights[0].tolist() == pytest.approx([0.88, 0.12], abs=5e-3)
    assert torch.equal(attended.context, attended.weights)  # the values are the identity


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("shape", ["none", "one row", "rows", "every sentence"])
def test_scaled_dot_attention_equals_torchs(need_weights: bool, shape: str):
    inputs = SCORES["scaled_dot"].inputs()
    mask = {
        "none": None,
        "one row": (torch.arange(SOURCE) % 3 != 0)[None],
        "rows": causal(SOURCE)[-TARGET:],
        "every sentence": uneven_mask() | (torch.arange(SOURCE) == 2),
    }[shape]
    expected = F.scaled_dot_product_attention(
        inputs.queries, inputs.keys, inputs.values, attn_mask=mask
    )
    attended = Attention(ScaledDot())(
        inputs.queries, inputs.keys, inputs.values, mask, need_weights=need_weights
    )
    torch.testing.assert_close(attended.context, expected)


@every_score
def test_bfloat16_differs_by_its_rounding_only(case: ScoreCase):
    attention = Attention(case.make().bfloat16())
    inputs, mask = case.inputs(torch.bfloat16), uneven_mask()
    results = [
        attention(
            inputs.queries,
            attention.prepare(inputs.keys),
            inputs.values,
            mask,
            need_weights=need_weights,
        ).context
        for need_weights in (False, True)
    ]
    attention.double()
    exact = attention(
        inputs.queries.double(),
        attention.prepare(inputs.keys.double()),
        inputs.values.double(),
        mask,
    ).context
    for context in results:
        assert context.dtype == torch.bfloat16
        torch.testing.assert_close(context.double(), exact, rtol=0.03, atol=0.03)


def test_returned_weights_are_those_before_dropout():
    attention = Attention(Dot(), dropout=0.5)
    queries, keys, values = torch.zeros(4001, 3), torch.zeros(2, 3), torch.eye(2)
    for need_weights in (False, True):
        attended = attention(queries, keys, values, need_weights=need_weights)
        assert set(attended.context.flatten().tolist()) == {0.0, 1.0}  # dropped, or 0.5 doubled
        torch.testing.assert_close(attended.context.mean(), torch.tensor(0.5), atol=0.05, rtol=0)
    assert (attended.weights == 0.5).all()
    attention.eval()
    for need_weights in (False, True):
        calm = attention(queries, keys, values, need_weights=need_weights)
        assert (calm.context == 0.5).all()


def test_a_stateless_score_returns_its_state_unchanged():
    attention, state = Attention(Dot()), object()
    for need_weights in (False, True):
        queries, keys = torch.ones(1, 2), torch.ones(3, 2)
        attended = attention(queries, keys, keys, None, state, need_weights=need_weights)
        assert attended.state is state


def test_attention_keeps_no_tensors_on_the_module():
    attention = Attention(Additive(5, 13, 17), Softmax(), dropout=0.5).eval()
    before = [set(vars(module)) for module in attention.modules()]
    inputs = SCORES["additive"].inputs(torch.float32)
    prepared = attention.prepare(inputs.keys)
    first, second = (attention(inputs.queries, prepared, inputs.values) for _ in range(2))
    assert torch.equal(first.context, second.context)
    assert [set(vars(module)) for module in attention.modules()] == before
    assert first.context.shape == (BATCH, TARGET, VALUE)


@pytest.mark.parametrize("need_weights", [False, True])
def test_unequal_sizes_are_refused_on_both_paths(need_weights: bool):
    with pytest.raises(ValueError, match="queries of size 3 and keys of size 5"):
        Attention(ScaledDot())(
            torch.ones(2, 3), torch.ones(7, 5), torch.ones(7, 11), need_weights=need_weights
        )
