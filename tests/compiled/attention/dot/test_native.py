"""Attention by dot products in C++, compared with the plain formula in float64."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard import kernels
from regard.attention import Attention, ScaledDot, Softmax
from regard.attention import scores as formulas
from regard.attention.masks import CAUSAL, causal
from regard.compiled.attention.dot import native as native_dots

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")


def plain(queries, keys, values, mask, scale):
    """Return softmax(scale q k) v, and zeros for queries without visible keys."""
    scores = scale * queries @ keys.mT
    if mask is CAUSAL:
        mask = causal(queries.size(-2))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1).masked_fill(~mask.any(dim=-1, keepdim=True), 0)
    else:
        weights = scores.softmax(dim=-1)
    return weights @ values


def problem(seed, sizes, joined):
    """Return queries, keys and values; `joined` ones are slices of one product."""
    torch.manual_seed(seed)
    batch, heads, target, source, size, value_size = sizes
    if joined:
        whole = torch.randn(batch, target, 3 * heads * size, dtype=torch.float64)
        return [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in whole.chunk(3, dim=-1)]
    return [
        torch.randn(batch, heads, rows, columns, dtype=torch.float64)
        for rows, columns in ((target, size), (source, size), (source, value_size))
    ]


sizes = st.tuples(
    *(st.sampled_from([1, 2, 3]) for _ in range(2)),
    *(st.sampled_from([1, 2, 7, 13, 17, 33]) for _ in range(2)),
    *(st.sampled_from([1, 5, 16, 23]) for _ in range(2)),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 999),
    sizes=sizes,
    joined=st.booleans(),
    masked=st.sampled_from(["not", "causal", "keys", "pairs", "shared"]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_output_and_gradients_equal_the_formula(
    instruction_set, seed, sizes, joined, masked, dtype
):
    tensors = problem(seed, sizes, joined)
    batch, _, target, _ = tensors[0].shape
    source = tensors[1].size(2)
    mask = {
        "not": None,
        "causal": CAUSAL if target == source else None,
        "keys": torch.rand(batch, 1, 1, source) > 0.4,
        "pairs": torch.rand(batch, 1, target, source) > 0.4,
        "shared": torch.rand(target, source) > 0.4,
    }[masked]
    single = [x.to(dtype).requires_grad_() for x in tensors]
    precise = [x.detach().double().requires_grad_() for x in single]
    expected = plain(*precise, mask, 0.7)
    result = native_dots.attend(*single, mask, 0.7, 0.0)
    exact = dict(rtol=1e-5, atol=1e-5) if dtype == torch.float32 else dict(rtol=0.02, atol=0.02)
    torch.testing.assert_close(result.double(), expected, **exact)
    above = torch.randn(expected.shape).to(dtype)
    ours = torch.autograd.grad(result, single, above)
    theirs = torch.autograd.grad(expected, precise, above.double())
    for mine, right in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.double(), right, **exact)


def test_the_head_axis_is_optional():
    queries, keys, values = (x[:, 0].float() for x in problem(1, (3, 1, 5, 7, 11, 13), False))
    mask = torch.rand(3, 1, 7) > 0.4
    result = native_dots.attend(queries, keys, values, mask, 0.5, 0.0)
    precise = (x.double() for x in (queries, keys, values))
    torch.testing.assert_close(result.double(), plain(*precise, mask, 0.5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_dropout_is_unbiased_and_equal_in_the_backward_pass(instruction_set, masked):
    batch, heads, target, source = 5, 3, 17, 23
    queries, keys = torch.zeros(batch, heads, target, 4), torch.zeros(batch, heads, source, 4)
    mask = torch.arange(source) < torch.randint(5, source, (batch, 1, 1, 1)) if masked else None
    seen = torch.full((batch, 1, 1, 1), source) if mask is None else mask.sum(-1, keepdim=True)
    values = torch.eye(source).expand(batch, heads, -1, -1).clone().requires_grad_()
    torch.manual_seed(3)
    weights = native_dots.attend(queries, keys, values, mask, 1.0, 0.3)  # of the identity
    is_kept = weights.detach() > 0
    shown = torch.ones_like(is_kept) if mask is None else mask.expand_as(is_kept)
    assert is_kept[shown].float().mean() == pytest.approx(0.7, abs=0.03)
    torch.testing.assert_close(weights, torch.where(is_kept, 1 / seen / 0.7, 0.0))
    above = torch.randn_like(weights)
    (result,) = torch.autograd.grad(weights, values, above)
    torch.testing.assert_close(result, weights.detach().mT @ above)
    torch.manual_seed(3)
    assert torch.equal(native_dots.attend(queries, keys, values, mask, 1.0, 0.3), weights)
    assert not torch.equal(native_dots.attend(queries, keys, values, mask, 1.0, 0.3), weights)


@pytest.mark.parametrize("source", [1, 5, 16, 17, 23])
def test_dropout_depends_on_the_seed_only(source):
    queries, keys = torch.zeros(2, 3, 7, 4), torch.zeros(2, 3, source, 4)
    values = torch.eye(source).expand(2, 3, -1, -1)  # the results are the weights
    best, result = kernels.lanes(), []
    for lanes in (4, 8, 16):
        if kernels.lanes(lanes) == lanes:
            torch.manual_seed(3)
            result.append(native_dots.attend(queries, keys, values, None, 1.0, 0.3) > 0)
    kernels.lanes(best)
    assert all(torch.equal(result[0], each) for each in result)


def test_the_gradient_through_dropout_equals_that_of_a_fixed_mask():
    torch.manual_seed(2)
    tensors = [torch.randn(2, 3, 7, 5, requires_grad=True) for _ in range(3)]
    torch.manual_seed(4)
    context = native_dots.attend(*tensors, CAUSAL, 0.5, 0.4)
    torch.manual_seed(4)
    identity = torch.eye(7).expand(2, 3, -1, -1)
    dropped = native_dots.attend(tensors[0], tensors[1], identity, CAUSAL, 0.5, 0.4).detach()
    queries, keys, values = (x.detach().double().requires_grad_() for x in tensors)
    scores = (0.5 * queries @ keys.mT).masked_fill(~causal(7), -torch.inf)
    expected = scores.softmax(dim=-1) * (dropped > 0) / 0.6 @ values
    torch.testing.assert_close(context.double(), expected, rtol=1e-5, atol=1e-5)
    above = torch.randn_like(context)
    wanted = torch.autograd.grad(expected, [queries, keys, values], above.double())
    for ours, theirs in zip(torch.autograd.grad(context, tensors, above), wanted, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)


def test_fully_masked_queries_have_zero_context_and_gradients(instruction_set):
    tensors = [torch.randn(2, 1, 3, 5, requires_grad=True) for _ in range(3)]
    mask = torch.tensor([True, False, True])[:, None].expand(3, 3)
    context = native_dots.attend(*tensors, mask, 1.0, 0.0)
    assert context[:, :, 1].eq(0).all()
    of_queries, *_ = torch.autograd.grad(context.sum(), tensors)
    assert of_queries[:, :, 1].eq(0).all()


def test_empty_inputs_give_empty_outputs():
    empty, keys = torch.randn(2, 1, 0, 5), torch.randn(2, 1, 3, 5)
    assert native_dots.attend(empty, keys, keys, None, 1.0, 0.0).shape == (2, 1, 0, 5)
    assert native_dots.attend(keys, empty, empty, None, 1.0, 0.0).eq(0).all()
    for queries, seen in ((empty, keys), (keys, empty)):
        tensors = [x.clone().requires_grad_() for x in (queries, seen, seen)]
        native_dots.attend(*tensors, None, 1.0, 0.0).sum().backward()
        for each in tensors:
            assert each.grad.eq(0).all()


def test_visible_nan_reaches_the_output(instruction_set):
    queries, keys, values = (torch.zeros(1, 1, 3, 5) for _ in range(3))
    queries[0, 0, 1] = torch.nan
    result = native_dots.attend(queries, keys, values, None, 1.0, 0.0)
    assert result[0, 0, 1].isnan().all()
    assert result[0, 0, [0, 2]].eq(0).all()


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 999),
    target=st.integers(1, 9),
    source=st.sampled_from([1, 7, 16, 33]),
    parts=st.tuples(st.sampled_from([1, 16, 23]), st.sampled_from([1, 5, 32])),
    masked=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_the_path_for_few_queries_gives_equal_results(
    instruction_set, seed, target, source, parts, masked, dtype
):
    tensors = problem(seed, (2, 3, target, source, *parts), False)
    mask = torch.rand(2, 1, target, source) > 0.4 if masked else None
    rounded = [x.to(dtype) for x in tensors]
    result = native_dots.attend(*rounded, mask, 0.3, 0.0)
    precise = [x.double() for x in rounded]
    expected = plain(*precise, mask, 0.3)
    exact = dict(rtol=1e-5, atol=1e-5) if dtype == torch.float32 else dict(rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(result.double(), expected, **exact)
    context, weights, scores = native_dots.attend_with_weights(*rounded, mask, 0.3)
    assert torch.equal(context, result)
    identity = torch.eye(source, dtype=torch.float64).expand(2, 3, -1, -1)
    exact = dict(rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(weights.double(), plain(*precise[:2], identity, mask, 0.3), **exact)
    torch.testing.assert_close(scores.double(), 0.3 * precise[0] @ precise[1].mT, **exact)


@pytest.mark.parametrize("target", [3, 17])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_returned_weights_are_those_of_the_kernel(monkeypatch, target, temperature):
    """Scores are those before temperature and mask, as in the formula."""
    torch.manual_seed(5)
    queries, keys, values = (torch.randn(2, 3, n, 5) for n in (target, 7, 7))
    mask = torch.rand(2, 1, target, 7) > 0.4
    attention = Attention(ScaledDot(), Softmax(temperature))
    formula = attention(queries, keys, values, mask, need_weights=True)
    monkeypatch.setattr(formulas, "_dots", None)  # the formula may not be called
    with torch.inference_mode():
        shown = attention(queries, keys, values, mask, need_weights=True)
    for name in ("context", "weights", "scores"):
        torch.testing.assert_close(getattr(shown, name), getattr(formula, name))


FITTING = SimpleNamespace(queries=(3, 5, 7, 11), keys=(3, 5, 13, 11), values=(3, 5, 13, 17))
MASKS = [
    *[(7, 13), (1, 13), (7, 1), (3, 1, 7, 13), (1, 1, 7, 13), (3, 1, 1, 13), (3, 1, 7, 1)],
    *[(2, 1, 7, 13), (3, 1, 6, 13), (3, 1, 7, 12), (6, 13), (7, 12), (3, 5, 7, 13), (1, 5, 1, 13)],
    *[(3, 7, 13), (5, 7, 13), (1, 7, 13), (2, 7, 13), (13,), (2, 3, 1, 7, 13)],
]
MISFITS = [
    *[dict(keys=(1, 5, 13, 11)), dict(values=(1, 5, 13, 17)), dict(queries=(1, 5, 7, 11))],
    *[dict(keys=(2, 5, 13, 11)), dict(values=(2, 5, 13, 17)), dict(queries=(2, 5, 7, 11))],
    *[dict(keys=(3, 1, 13, 11)), dict(values=(3, 1, 13, 17)), dict(keys=(3, 2, 13, 11))],
    *[dict(values=(3, 5, 12, 17)), dict(values=(3, 5, 14, 17)), dict(values=(3, 5, 1, 17))],
    *[dict(keys=(3, 5, 13, 10)), dict(keys=(5, 13, 11)), dict(values=(5, 13, 17))],
    *[dict(queries=(3, 5, 7, 11), keys=(13, 11), values=(13, 17))],
]


def outcome(attend, mask=None, queries=FITTING.queries, keys=FITTING.keys, values=FITTING.values):
    """Return the context, or None if the inputs are rejected."""
    torch.manual_seed(6)
    tensors = [torch.randn(shape) for shape in (queries, keys, values)]
    try:
        return attend(*tensors, mask)
    except (RuntimeError, ValueError):
        return None


def by_formula(queries, keys, values, mask):
    return Attention(ScaledDot())(queries, keys, values, mask, need_weights=True).context


def fused(queries, keys, values, mask):
    return Attention(ScaledDot())(queries, keys, values, mask).context


def must_agree(mask=None, **shapes):
    expected, result = outcome(by_formula, mask, **shapes), outcome(fused, mask, **shapes)
    assert (expected is None) == (result is None)
    if expected is not None:
        torch.testing.assert_close(result, expected)
    with torch.inference_mode():
        seen = outcome(by_formula, mask, **shapes)
    assert (seen is None) == (expected is None)
    if seen is not None:
        torch.testing.assert_close(seen, expected)


@pytest.mark.parametrize("shapes", MISFITS, ids=str)
@pytest.mark.parametrize("axes", [3, 4])
def test_broadcast_shapes_equal_the_formula(unchecked, shapes, axes):
    if axes == 3:  # without heads
        shapes = {**vars(FITTING), **shapes}
        shapes = {name: (*shape[:-3], *shape[-2:]) for name, shape in shapes.items()}
    must_agree(**shapes)


@pytest.mark.parametrize("shape", MASKS, ids=str)
@pytest.mark.parametrize("axes", [3, 4])
@pytest.mark.parametrize("batch", [3, 5])
def test_masks_of_every_shape_equal_the_formula(unchecked, shape, axes, batch):
    """There may be as many heads as sentences: the first axis of a mask of three axes then counts
    heads."""
    torch.manual_seed(7)
    mask = torch.rand(shape) > 0.4
    shapes = {name: (batch, *sizes[4 - axes + 1 :]) for name, sizes in vars(FITTING).items()}
    if 2 <= mask.dim() <= axes:
        must_agree(mask, **shapes)
    else:  # no mask of such queries
        assert not native_dots.suits(*map(torch.empty, shapes.values()), mask)


@pytest.mark.parametrize("target", [1, 7, 13])
def test_a_causal_mask_of_unequal_lengths_equals_the_formula(unchecked, target):
    must_agree(CAUSAL, queries=(3, 5, target, 11))


def test_the_kernel_does_not_take_float_masks():
    tensors = [torch.randn(2, 3, 5) for _ in range(3)]
    assert native_dots.suits(*tensors, torch.ones(3, 3, dtype=torch.bool))
    assert not native_dots.suits(*tensors, torch.zeros(3, 3))


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_weights_are_saved_for_gradients_only(monkeypatch, mode, learns):
    is_kept, call = [], kernels.call
    monkeypatch.setattr(
        kernels,
        "call",
        lambda name, problem, back: (
            is_kept.append(problem.weights is not None),
            call(name, problem, back),
        ),
    )
    tensors = [torch.randn(2, 3, 5, requires_grad=learns) for _ in range(3)]
    with mode():
        native_dots.attend(*tensors, None, 1.0, 0.0)
    assert is_kept == [learns and mode is torch.enable_grad]
