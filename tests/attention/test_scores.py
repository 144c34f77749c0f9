"""Every score compared with its formula, one query and one key at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.attention import Additive, Concat, Cosine, Dot, ScaledDot, Score, SharedAdditive
from regard.attention.scores import ADDITIVE_SCORES
from regard.compiled.exact import kind_of
from tests.attention.parts import SCORES, ScoreCase, number
from tests.forms import BOTH
from tests.oracles import attention as oracle

pytestmark = BOTH

every_score = pytest.mark.parametrize("case", SCORES.values(), ids=SCORES.keys())


def is_precise(score: Score) -> bool:
    """Whether scores are at least in float32: those of accelerated additive scores."""
    return kind_of(score) in ADDITIVE_SCORES and type(score) is not kind_of(score)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(3)


def judged(case: ScoreCase, score: torch.nn.Module, queries: np.ndarray, keys: np.ndarray):
    judge = case.judge(score)
    return np.array([[judge(query, key) for key in keys] for query in queries])


@every_score
def test_scores_equal_their_formula(case: ScoreCase):
    score, inputs = case.make().double(), case.inputs()
    assert isinstance(score, Score)
    scores = score(inputs.queries, score.prepare(inputs.keys))
    for result, queries, keys in zip(scores, inputs.queries, inputs.keys, strict=True):
        expected = judged(case, score, number(queries), number(keys))
        np.testing.assert_allclose(number(result), expected, rtol=1e-12)


@every_score
def test_any_number_of_batch_axes_is_allowed(case: ScoreCase):
    score, inputs = case.make(), case.inputs(torch.float32)
    whole = score(inputs.queries, score.prepare(inputs.keys))
    alone = score(inputs.queries[1], score.prepare(inputs.keys[1]))
    torch.testing.assert_close(alone, whole[1])
    heads = score(inputs.queries[:, None], score.prepare(inputs.keys[:, None]))
    torch.testing.assert_close(heads[:, 0], whole)


@every_score
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_keep_the_type_of_their_inputs(case: ScoreCase, dtype: torch.dtype):
    score, inputs = case.make().to(dtype), case.inputs(dtype)
    scores = score(inputs.queries, score.prepare(inputs.keys))
    assert scores.dtype == (torch.float32 if is_precise(score) else dtype)
    expected = judged(case, score, number(inputs.queries[0]), number(inputs.keys[0]))
    tolerance = 16 * torch.finfo(dtype).eps
    np.testing.assert_allclose(number(scores[0]), expected, rtol=tolerance, atol=tolerance)


@every_score
def test_scores_run_in_mixed_precision(case: ScoreCase):
    score, inputs = case.make(), case.inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = score(inputs.queries, score.prepare(inputs.keys))
    plain = score(inputs.queries, score.prepare(inputs.keys))
    assert mixed.dtype == (torch.float32 if is_precise(score) else torch.bfloat16)
    torch.testing.assert_close(mixed.float(), plain, rtol=0.05, atol=0.05)


def test_additive_equals_values_worked_out_by_hand():
    # with the key (1, 0): tanh(1 + 2) + tanh(0 + 2)
    score = Additive(query_size=2, key_size=2, size=2)
    torch.nn.init.eye_(score.key.weight)
    torch.nn.init.zeros_(score.key.bias)
    torch.nn.init.ones_(score.query.weight)
    torch.nn.init.ones_(score.vector)
    keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    scores = score(torch.ones(1, 2), score.prepare(keys))
    assert scores[0].tolist() == pytest.approx([1.959, 1.959, 1.990], abs=5e-4)


def test_scaled_dot_divides_by_the_root_of_the_size():
    # 64 numbers: 112 / 8 and 96 / 8
    queries, keys = torch.ones(1, 64), torch.tensor([[1.75], [1.5]]).expand(2, 64)
    assert Dot()(queries, keys).tolist() == [[112, 96]]
    assert ScaledDot()(queries, keys).tolist() == [[14, 12]]


def test_concat_equals_additive_with_a_split_matrix():
    concat, additive = Concat(5, 7, 3), Additive(5, 7, 3)
    with torch.no_grad():
        additive.query.weight.copy_(concat.projection.weight[:, :5])
        additive.key.weight.copy_(concat.projection.weight[:, 5:])
        additive.key.bias.copy_(concat.projection.bias)
        additive.vector.copy_(concat.vector)
    queries, keys = torch.randn(2, 5), torch.randn(11, 7)
    torch.testing.assert_close(
        concat(queries, concat.prepare(keys)), additive(queries, additive.prepare(keys))
    )


def test_cosine_ignores_the_length_of_vectors():
    queries, keys = torch.randn(3, 5), torch.randn(7, 5)
    score = Cosine()
    scores = score(queries, score.prepare(keys))
    assert scores.abs().max() <= 1
    torch.testing.assert_close(score(2 * queries, score.prepare(keys / 3)), scores)


def test_cosine_of_a_zero_vector_is_zero_with_finite_gradients():
    queries = torch.zeros(1, 3, requires_grad=True)
    keys = torch.zeros(2, 3, requires_grad=True)
    scores = Cosine()(queries, Cosine().prepare(keys))
    scores.sum().backward()
    assert scores.tolist() == [[0, 0]]
    assert queries.grad.isfinite().all()
    assert keys.grad.isfinite().all()


@pytest.mark.parametrize("score", [Dot(), ScaledDot(), Cosine(), SharedAdditive(7, 3)])
def test_unequal_sizes_are_refused_with_both_named(score: torch.nn.Module):
    prepared = score.prepare(torch.randn(2, 7))
    with pytest.raises(ValueError, match=r"(?=.*size 5\b)(?=.*size 7\b).*Additive"):
        score(torch.randn(3, 5), prepared)


def test_the_literal_concat_formula_ignores_the_query():
    """The query adds the same number to the scores of all keys, which softmax ignores."""
    generator = np.random.default_rng(3)
    keys, queries = generator.normal(size=(7, 5)), generator.normal(size=(2, 3))
    literal = oracle.literal_concat(
        generator.normal(size=(11, 3)), generator.normal(size=(13, 5)), generator.normal(size=24)
    )
    first, second = (oracle.softmax([literal(query, key) for key in keys]) for query in queries)
    assert first == pytest.approx(second, abs=1e-12)
    concat = oracle.concat(generator.normal(size=(24, 8)), np.zeros(24), generator.normal(size=24))
    first, second = (oracle.softmax([concat(query, key) for key in keys]) for query in queries)
    assert np.abs(np.subtract(first, second)).max() > 0.1
