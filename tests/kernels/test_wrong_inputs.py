"""Wrong and unusual inputs: every public call that reaches C++ returns the result of the plain
formula or raises ValueError, with and without the compiled library.

REGARD_FUZZ=5000 tries 5000 inputs for each function; the default is small.
"""

import math
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.nn.functional import normalize

from regard.attention import (
    Attention,
    Cosine,
    Entmax15,
    LocalAttention,
    Monotonic,
    MultiHeadAttention,
    Predictive,
    Softmax,
    Sparsemax,
)
from regard.compiled.attention.fused_additive import additive_attention, additive_scores
from regard.compiled.candidates import top_candidates
from regard.compiled.dropout import Dropout
from regard.compiled.losses.linear_cross_entropy import linear_cross_entropy
from regard.layers.recurrent.stack import RecurrentStack
from tests.attention.parts import FORMULAS, SCORE_KINDS
from tests.kernels.wrong_inputs import (
    INPUTS,
    SIZE,
    axis,
    batches,
    devices,
    fuzzed,
    mask_dtypes,
    must_be,
    outcome,
    record,
    sizes,
    tensor,
)

KEY_SIZE, HIDDEN = SIZE, 5

pytestmark = pytest.mark.usefixtures("unchecked", "library", "outcomes")


def mask_for(draw, batch, target, source):
    if draw(st.booleans()):
        return None
    shape = draw(
        st.one_of(
            st.just((*batch, target, source)),
            st.just((*batch, 1, source)),
            st.sampled_from([(target, source), (source,), (), (1, 1), (*batch, source)]),
            st.lists(axis, max_size=4).map(tuple),
        )
    )
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
    mask = torch.rand(shape, generator=generator) < 0.7
    return mask.to(draw(mask_dtypes)).to(draw(devices))


@st.composite
def problems(draw, batches=batches):
    """Draw queries, keys, vector, values and a mask that mostly fit."""
    batch, target, source = draw(batches), draw(axis), draw(axis)
    few_batches = st.one_of(*[st.just(batch)] * 6, batches, st.just(()), st.just((1,) * len(batch)))
    few = st.one_of(*[st.just(source)] * 8, axis)
    size = draw(sizes)
    similar = st.one_of(*[st.just(size)] * 9, sizes)
    return (
        tensor(draw, (*batch, target, size)),
        tensor(draw, (*draw(few_batches), source, draw(similar))),
        tensor(draw, (draw(similar),)),
        tensor(draw, (*draw(few_batches), draw(few), draw(axis))),
        mask_for(draw, batch, target, source),
    )


def plain_attention(scores, values, mask, normalise=None):
    """Compute the plain formula in float64, with hidden scores left out."""
    if mask is not None:
        if mask.dtype != torch.bool:
            raise TypeError("a mask is bool")
        scores = torch.where(mask, scores, -math.inf)
    if normalise is not None:
        weights = normalise(torch.nan_to_num(scores, neginf=-1e30), mask)
    else:
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = torch.where(mask, weights, 0.0)
            weights = torch.where(mask.any(-1, keepdim=True), weights, 0.0)
    return weights @ values.double(), weights


def plain_scores(queries, keys, vector):
    pairs = torch.tanh(queries.double()[..., :, None, :] + keys.double()[..., None, :, :])
    return pairs @ vector.double()


@fuzzed
@given(problems(), st.booleans())
def test_additive_scores_reject_wrong_inputs(library, problem, learns):
    queries, keys, vector, _, _ = problem
    tensors = queries, keys, vector
    if learns:
        tensors = [x.requires_grad_() if x.is_floating_point() else x for x in tensors]
    if {x.device.type for x in tensors} == {"meta"}:
        return
    result = outcome(lambda: additive_scores(*tensors))
    record("additive_scores", library, result)
    if result is None:
        return
    if learns:
        result.sum().backward()
        assert all(x.grad.shape == x.shape for x in tensors)
    must_be(result.detach(), lambda: plain_scores(*tensors).detach(), *tensors)


@fuzzed
@given(problems(), st.booleans())
def test_additive_attention_rejects_wrong_inputs(library, problem, learns):
    queries, keys, vector, values, mask = problem
    tensors = queries, keys, vector, values
    if {x.device.type for x in tensors} == {"meta"}:
        return
    if learns:
        tensors = [x.requires_grad_() if x.is_floating_point() else x for x in tensors]
    result = outcome(lambda: additive_attention(*tensors, mask))
    record("additive_attention", library, result)
    if result is None:
        return
    if learns:
        result[0].sum().backward()
        assert all(x.grad.shape == x.shape for x in tensors)
    scores = plain_scores(*tensors[:3])
    must_be(
        result[0].detach(),
        lambda: plain_attention(scores, tensors[3], mask)[0].detach(),
        *tensors,
    )


NAMES = {type(make(7, 7, 7)): name for name, make in SCORE_KINDS.items()}
"""Name of each class of scores."""


def exact(attention, queries, keys, values, mask, scale=None):
    """Compute the context of a module by formulas in float64; `scale` multiplies the weights."""
    q, k = queries.double(), keys.double()
    if isinstance(attention.score, Cosine):  # of zeros: zero
        scores = normalize(q, dim=-1) @ normalize(k, dim=-1).mT
    else:
        name = NAMES[type(attention.score)]
        scores = FORMULAS[name](deepcopy(attention.score).double())(q, k)
    normalise = None if isinstance(attention.normaliser, Softmax) else attention.normaliser
    context, weights = plain_attention(scores, values, mask, normalise)
    return (context if scale is None else (weights * scale) @ values.double()).detach()


def make_score(name, size=SIZE):
    return SCORE_KINDS[name](size, size, 7)


@pytest.mark.parametrize("score", SCORE_KINDS)
@settings(fuzzed, max_examples=max(10, INPUTS // 5))
@given(
    problems(),
    st.sampled_from([Softmax, Softmax, Sparsemax, Entmax15]),
    st.booleans(),
    st.booleans(),
)
def test_attention_rejects_wrong_inputs(library, score, problem, normaliser, need_weights, learns):
    queries, keys, _, values, mask = problem
    if {x.device.type for x in (queries, keys, values)} == {"meta"}:
        return
    torch.manual_seed(1)
    attention = Attention(make_score(score), normaliser())

    def call():
        with torch.set_grad_enabled(learns):
            prepared = attention.prepare(keys)
            return attention(queries, prepared, values, mask, need_weights=need_weights).context

    result = outcome(call)
    record(f"Attention({score})", library, result)
    if result is not None:
        must_be(
            result.detach(),
            lambda: exact(attention, queries, keys, values, mask),
            *(queries, keys, values),
        )


def exact_heads(heads, queries, keys, values, mask):
    """Compute multi-head attention by formulas in float64."""
    judge = deepcopy(heads).double()

    def project(linear, vectors):
        return judge.heads.split(F.linear(vectors.double(), linear.weight, linear.bias))

    if mask is not None and mask.dim() > 2:
        mask = mask.unsqueeze(-3)
    context = exact(
        judge.heads.attention,
        project(judge.query, queries),
        project(judge.key, keys),
        project(judge.value, values),
        mask,
    )
    output = judge.heads.output
    return F.linear(context.transpose(-3, -2).flatten(-2), output.weight, output.bias).detach()


@fuzzed
@given(
    problems(),
    st.sampled_from(list(SCORE_KINDS)),
    st.sampled_from([Softmax, Softmax, Sparsemax, Entmax15]),
    st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([0] * 9 + [1])),
    st.booleans(),
    st.booleans(),
)
def test_heads_reject_wrong_inputs(
    library, problem, score, normaliser, numbers, need_weights, learns
):
    queries, keys, _, values, mask = problem
    num_heads, value_size = numbers[0], values.size(-1) + numbers[1]
    if {x.device.type for x in (queries, keys, values)} == {"meta"} or not value_size:
        return
    torch.manual_seed(1)
    attention = Attention(make_score(score, SIZE // num_heads), normaliser())
    heads = MultiHeadAttention(SIZE, KEY_SIZE, value_size, SIZE, num_heads, attention)

    def call():
        with torch.set_grad_enabled(learns):
            prepared = heads.prepare(keys, values)
            return heads(queries, prepared, mask, need_weights=need_weights).context

    result = outcome(call)
    record("MultiHeadAttention", library, result)
    if result is not None:
        must_be(
            result.detach(),
            lambda: exact_heads(heads, queries, keys, values, mask),
            *(queries, keys, values),
        )


def exact_window(local, queries, keys, values, mask, state):
    """Compute local attention by formulas in float64."""
    source = torch.arange(values.size(-2))
    if mask is None:
        mask = torch.ones(1, 1, len(source), dtype=torch.bool)
    elif mask.dim() == 0:
        mask = mask.expand(1, len(source))
    real = mask.any(dim=-2) if mask.dim() > 1 else mask
    lengths = real.expand(queries.size(0), len(source)).sum(dim=-1)[:, None]
    scale = None
    if isinstance(local.centre, Monotonic):
        middle = torch.minimum(state, lengths - 1)[..., None]
    else:
        centre = deepcopy(local.centre).double()
        hidden = torch.tanh(queries.double() @ centre.hidden.weight.mT)
        middle = lengths[..., None] * torch.sigmoid(hidden @ centre.vector.weight.mT)
        scale = torch.exp(-((source - middle) ** 2) / (2 * (local.width / 2) ** 2))
    visible = mask & ((source - middle).abs() <= local.width)
    return exact(local, queries, keys, values, visible, scale)


one_batch_axis = st.one_of(*[st.tuples(st.sampled_from([1, 2, 3]))] * 9, batches)


@fuzzed
@given(
    problems(one_batch_axis),
    st.data(),
    st.sampled_from(list(SCORE_KINDS)),
    st.sampled_from([Softmax, Softmax, Sparsemax, Entmax15]),
    st.booleans(),
    st.booleans(),
)
def test_local_attention_rejects_wrong_inputs(
    library, problem, data, score, normaliser, is_monotonic, need_weights
):
    queries, keys, _, values, mask = problem
    if {x.device.type for x in (queries, keys, values)} == {"meta"}:
        return
    torch.manual_seed(1)
    centre = Monotonic() if is_monotonic else Predictive(SIZE, 5, 2)
    local = LocalAttention(make_score(score), centre, 2, normaliser())
    draw = data.draw
    rows = draw(st.one_of(*[st.just(queries.shape[:2])] * 9, st.lists(axis, max_size=3)))
    state = torch.randint(0, 20, tuple(rows), generator=torch.Generator().manual_seed(3))
    state = state.to(draw(st.sampled_from([torch.int64] * 9 + [torch.int32, torch.float32])))
    state = state.to(draw(devices)) if is_monotonic or draw(st.booleans()) else None
    if draw(st.sampled_from([False] * 9 + [True])):
        state = None

    def call():
        prepared = local.prepare(keys)
        return local(queries, prepared, values, mask, state, need_weights=need_weights).context

    result = outcome(call)
    record("LocalAttention", library, result)
    if result is not None:
        must_be(
            result.detach(),
            lambda: exact_window(local, queries, keys, values, mask, state),
            *(queries, keys, values),
        )


@fuzzed
@given(
    st.data(),
    st.sampled_from(["elman", "gru", "lstm"]),
    st.booleans(),
    st.booleans(),
)
def test_the_recurrent_stack_rejects_wrong_inputs(library, data, kind, learns, single):
    draw = data.draw
    torch.manual_seed(1)
    stack = RecurrentStack(kind, SIZE, HIDDEN, 2)
    batch, length = draw(axis), draw(st.sampled_from([1, 2, 3, 7]))
    few = st.one_of(*[st.just(batch)] * 6, axis)
    hidden_size = st.sampled_from([HIDDEN] * 9 + [0, 1, HIDDEN + 1, 64])
    shape = (batch, SIZE) if single else (batch, length, SIZE)
    layers = st.sampled_from([2] * 9 + [0, 1, 3])
    inputs = tensor(draw, draw(st.one_of(*[st.just(shape)] * 6, st.just((*shape[:-1], 5)))))
    hidden = tensor(draw, (draw(few), draw(layers), draw(hidden_size)), dtype=torch.float32)
    cell = None
    if kind == "lstm":
        cell = tensor(draw, (draw(few), draw(layers), draw(hidden_size)), dtype=torch.float32)
    if inputs.dtype != torch.float32:
        return

    def call():
        with torch.set_grad_enabled(learns):
            run = stack.step if single else stack
            return run(inputs, hidden, cell).outputs[-1]

    result = outcome(call)
    record("RecurrentStack", library, result)
    if result is None:
        return

    def formula():
        layer = {"elman": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[kind]
        judge = layer(SIZE, HIDDEN, 2, batch_first=True).double()
        for name, place in judge.named_parameters():
            number = int(name[-1])
            place.data.copy_(getattr(stack.layers[number], name[:-1] + "0").data)
        start = hidden.double().transpose(0, 1).contiguous()
        if cell is not None:
            start = (start, cell.double().transpose(0, 1).contiguous())
        sequence = inputs.double()[:, None] if single else inputs.double()
        return judge(sequence, start)[0].detach()

    if batch:
        must_be(result.detach(), formula, inputs, hidden, cell)


@fuzzed
@given(st.data(), st.booleans())
def test_the_loss_rejects_wrong_inputs(library, data, learns):
    draw = data.draw
    rows, words, size = draw(axis), draw(axis), draw(sizes)
    similar = st.one_of(*[st.just(size)] * 9, sizes)
    features = tensor(draw, (rows, size), dtype=torch.float32)
    weight = tensor(draw, (words, draw(similar)), dtype=torch.float32)
    few = st.one_of(*[st.just(words)] * 6, axis)
    bias = draw(st.sampled_from([True, False])) or None
    if bias:
        bias = tensor(draw, (draw(few),), dtype=torch.float32)
    count = draw(st.one_of(*[st.just(rows)] * 9, axis))
    kind = draw(st.sampled_from([torch.int64] * 6 + [torch.int32, torch.float32, torch.bool]))
    low, high = draw(st.sampled_from([(0, max(words, 1))] * 9 + [(-1, 1), (0, words + 2)]))
    targets = torch.randint(low, high, (count,), generator=torch.Generator().manual_seed(1))
    targets = targets.to(kind).to(draw(devices))
    smoothing = draw(st.sampled_from([0.0, 0.1]))
    tensors = [features, weight, *([] if bias is None else [bias])]
    if {x.device.type for x in (*tensors, targets)} == {"meta"}:
        return
    for x in tensors:
        x.requires_grad_(learns)
    result = outcome(lambda: linear_cross_entropy(features, weight, bias, targets, smoothing))
    record("linear_cross_entropy", library, result)
    if result is None:
        return
    if learns:
        result.backward()

    def formula():
        logits = features.double() @ weight.double().T
        logits = logits if bias is None else logits + bias.double()
        return torch.nn.functional.cross_entropy(
            logits, targets.long(), reduction="sum", label_smoothing=smoothing
        ).detach()

    must_be(result.detach(), formula, features, weight, bias)


@fuzzed
@given(st.data())
def test_candidates_reject_wrong_inputs(library, data):
    draw = data.draw
    batch, hypotheses, words = draw(axis), draw(axis), draw(axis)
    similar = st.one_of(*[st.just(batch)] * 9, axis)
    logits = tensor(draw, (batch, hypotheses, words), dtype=torch.float32)
    totals = tensor(draw, (draw(similar), hypotheses), dtype=torch.float32, special=False)
    forbidden = torch.tensor(draw(st.lists(st.integers(0, max(words - 1, 0)), max_size=2)))
    forbidden = forbidden.to(
        draw(st.sampled_from([torch.int64] * 6 + [torch.int32, torch.float32]))
    )
    count = draw(st.sampled_from([1, 2, 3, 40, 0, -1]))
    if {x.device.type for x in (logits, totals, forbidden)} == {"meta"}:
        return
    result = outcome(lambda: top_candidates(logits, totals, forbidden, count))
    record("candidates", library, result)
    if result is None:
        return
    values = torch.log_softmax(logits.double(), dim=-1)
    values[..., forbidden.long()] = -math.inf
    sums = (totals.double()[..., None] + values).flatten(1)
    if logits.isfinite().all():
        expected = sums.sort(dim=1, descending=True).values[:, :count]
        must_be(result.totals, lambda: expected, logits, totals)


@fuzzed
@given(st.data(), st.booleans())
def test_dropout_rejects_wrong_inputs(library, data, learns):
    draw = data.draw
    numbers = tensor(draw, draw(st.lists(axis, max_size=3)))
    if not numbers.is_floating_point():
        return
    share = draw(st.sampled_from([0.0, 0.3, 0.999, 1.0]))
    layer = Dropout(share).train()
    result = layer(numbers.requires_grad_(learns) if numbers.is_leaf else numbers)
    record("Dropout", library, result)
    assert result.shape == numbers.shape
    assert result.dtype == numbers.dtype
    if numbers.device.type == "cpu" and share < 1:
        expected = numbers.double() / (1 - share)
        is_near = torch.isclose(result.double(), expected, rtol=0.01, equal_nan=True)
        is_dropped = (result == 0) & (share > 0)
        is_large = ~expected.to(numbers.dtype).isfinite()
        assert (is_near | is_dropped | is_large).all()
