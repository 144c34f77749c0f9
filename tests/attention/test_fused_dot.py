"""When torch's kernel may run, and that it does."""

from __future__ import annotations

import pytest
import torch

from regard.attention import (
    Additive,
    Attention,
    Cosine,
    Dot,
    General,
    ScaledDot,
    Softmax,
    Sparsemax,
)
from regard.attention.fused_dot import dot_scale


def test_it_runs_for_dot_products_under_softmax():
    assert dot_scale(Dot(), Softmax(), 16) == 1
    assert dot_scale(General(16, 3), Softmax(2.0), 16) == 0.5
    assert dot_scale(ScaledDot(), Softmax(), 16) == 0.25
    assert dot_scale(ScaledDot(), Softmax(0.5), 16) == 0.5


def test_it_does_not_run_for_others():
    assert dot_scale(Dot(), Sparsemax(), 16) is None
    assert dot_scale(Additive(16, 3, 5), Softmax(), 16) is None
    assert dot_scale(Cosine(), Softmax(), 16) is None


def test_without_weights_no_scores_are_formed(monkeypatch: pytest.MonkeyPatch):
    attention = Attention(Dot())

    def refuse(*arguments: object) -> None:
        raise RuntimeError("scores were formed")

    monkeypatch.setattr(attention.score, "forward", refuse)
    queries, keys, values = torch.ones(2, 3), torch.ones(5, 3), torch.ones(5, 7)
    attention(queries, keys, values)
    with pytest.raises(RuntimeError, match="scores were formed"):
        attention(queries, keys, values, need_weights=True)
