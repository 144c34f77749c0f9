"""Equations of the counting head, compared with loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention import Additive, Attention, ScaledDot, ScaledSoftmax, Sigmoid
from regard.models.contracts import Memory
from regard.models.counting import LetterEncoder, NumberHead, QueryHead
from regard.models.heads import HeadModel
from regard.models.memory import first_and_last

SYMBOLS, SIZE, QUERIES, CLASSES, BATCH, SOURCE = 5, 7, 3, 11, 2, 13


def counter(num_linears: int) -> HeadModel:
    torch.manual_seed(num_linears)
    encoder = LetterEncoder(*(nn.Linear(SYMBOLS, SIZE) for _ in range(num_linears)))
    head = QueryHead(QUERIES, SIZE, Attention(ScaledDot()), CLASSES)
    model = HeadModel(encoder, head, first_and_last).double()
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    return model


def letters() -> torch.Tensor:
    numbers = torch.randint(SYMBOLS, (BATCH, SOURCE), generator=torch.Generator().manual_seed(1))
    return torch.eye(SYMBOLS, dtype=torch.float64)[numbers]


def written_out(model: HeadModel, sequence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and weights of one sequence, query by query."""
    parameters = {name: each.detach().numpy() for name, each in model.named_parameters()}
    num_linears = sum(name.startswith("encoder") for name in parameters) // 2
    keys, values = (
        [
            parameters[f"encoder.linears.{linear}.weight"] @ letter
            + parameters[f"encoder.linears.{linear}.bias"]
            for letter in sequence
        ]
        for linear in (0, num_linears - 1)
    )
    all_logits, all_weights = [], []
    for query in parameters["head.queries"]:
        exponentials = [np.exp(query @ key / np.sqrt(SIZE)) for key in keys]
        weights = [each / sum(exponentials) for each in exponentials]
        context = sum(weight * value for weight, value in zip(weights, values, strict=True))
        residual = query + context
        centred = residual - residual.mean()
        normed = centred / np.sqrt((centred**2).mean() + 1e-5)
        normed = normed * parameters["head.norm.weight"] + parameters["head.norm.bias"]
        logits = parameters["head.output.weight"] @ normed + parameters["head.output.bias"]
        all_logits.append(logits)
        all_weights.append(weights)
    return np.array(all_logits), np.array(all_weights)


@pytest.mark.parametrize("num_linears", [1, 2])
def test_the_model_equals_its_equations(num_linears: int) -> None:
    model, source = counter(num_linears), letters()
    output = model(source, need_weights=True)
    assert output.predictions.shape == (BATCH, QUERIES, CLASSES)
    (block,) = output.attention
    assert block.kind == "cross"
    for row in range(BATCH):
        logits, weights = written_out(model, source[row].numpy())
        np.testing.assert_allclose(output.predictions[row].detach().numpy(), logits, rtol=1e-9)
        np.testing.assert_allclose(block.weights[row, 0, 0].detach().numpy(), weights, rtol=1e-9)


def test_keys_equal_values_with_a_shared_layer() -> None:
    (one,) = first_and_last(counter(1).encoder(letters()))
    assert one.keys is one.values
    (two,) = first_and_last(counter(2).encoder(letters()))
    assert not torch.allclose(two.keys, two.values)
    assert two.summary is None


def test_returning_weights_changes_no_output() -> None:
    model, source = counter(1), letters()
    without, with_weights = model(source), model(source, need_weights=True)
    assert without.attention == ()
    torch.testing.assert_close(without.predictions, with_weights.predictions)
    assert with_weights.attention[0].scores.shape == (BATCH, 1, 1, QUERIES, SOURCE)


def test_initial_attention_is_uniform() -> None:
    head = QueryHead(QUERIES, SIZE, Attention(ScaledDot()), CLASSES)
    model = HeadModel(LetterEncoder(nn.Linear(SYMBOLS, SIZE)), head, first_and_last)
    (block,) = model(letters().float(), need_weights=True).attention
    torch.testing.assert_close(block.weights, torch.full_like(block.weights, 1 / SOURCE))


def test_padding_has_no_attention() -> None:
    head, (memory,) = counter(1).head, first_and_last(counter(1).encoder(letters()))
    short = 5
    mask = torch.arange(SOURCE).expand(BATCH, SOURCE) < short
    masked = head((Memory(memory.keys, memory.values, mask),), need_weights=True)
    cut = Memory(memory.keys[:, :short], memory.values[:, :short], mask[:, :short])
    torch.testing.assert_close(masked.predictions, head((cut,)).predictions)
    assert masked.attention[0].weights[..., short:].count_nonzero() == 0


def number_counter(normaliser: object) -> HeadModel:
    torch.manual_seed(5)
    head = NumberHead(QUERIES, SIZE, Attention(ScaledDot(), normaliser))
    model = HeadModel(LetterEncoder(nn.Linear(SYMBOLS, SIZE)), head, first_and_last).double()
    nn.init.normal_(head.queries)
    return model


@pytest.mark.parametrize("normaliser", [Sigmoid(), ScaledSoftmax()])
def test_numbers_equal_their_equation(normaliser: object) -> None:
    model, source = number_counter(normaliser), letters()
    parameters = {name: each.detach().numpy() for name, each in model.named_parameters()}
    output = model(source, need_weights=True)
    assert output.predictions.shape == (BATCH, QUERIES)
    (block,) = output.attention
    for row, position in np.ndindex(BATCH, QUERIES):
        keys = [
            parameters["encoder.linears.0.weight"] @ letter + parameters["encoder.linears.0.bias"]
            for letter in source[row].numpy()
        ]
        query, total = parameters["head.queries"][position], 0.0
        exponentials = [np.exp(query @ key / np.sqrt(SIZE)) for key in keys]
        for place, (key, power) in enumerate(zip(keys, exponentials, strict=True)):
            is_sigmoid = isinstance(normaliser, Sigmoid)
            weight = power / (1 + power) if is_sigmoid else SOURCE * power / sum(exponentials)
            total += weight * (parameters["head.output.weight"][0] @ key)
            assert block.weights[row, 0, 0, position, place].item() == pytest.approx(weight)
        assert output.predictions[row, position].item() == pytest.approx(total)


def test_a_sigmoid_number_of_two_sources_is_the_sum_of_their_numbers() -> None:
    model, source = number_counter(Sigmoid()), letters()
    joined = model(torch.cat([source, source[:, :5]], dim=1)).predictions
    parts = model(source).predictions + model(source[:, :5]).predictions
    torch.testing.assert_close(joined, parts)
    assert model.head.output.bias is None


def test_weights_of_zero_or_one_count_letters() -> None:
    """Counts of any length are exact when attention selects the letter of the query."""
    head = NumberHead(2, 3, Attention(ScaledDot(), Sigmoid())).double()
    encoder = LetterEncoder(nn.Linear(3, 3, bias=False)).double()
    with torch.no_grad():
        encoder.linears[0].weight.copy_(torch.eye(3))
        head.queries.copy_(torch.tensor([[-1.0, 1, -1], [-1, -1, 1]]) * 100)
        head.output.weight.fill_(1.0)
    numbers = torch.randint(3, (1, 401), generator=torch.Generator().manual_seed(2))
    counts = HeadModel(encoder, head, first_and_last)(torch.eye(3).double()[numbers]).predictions
    expected = [[float((numbers == letter).sum()) for letter in (1, 2)]]
    torch.testing.assert_close(counts, torch.tensor(expected, dtype=torch.float64))


def test_any_score_can_be_used() -> None:
    head = QueryHead(QUERIES, SIZE, Attention(Additive(SIZE, SIZE, 17)), CLASSES)
    memory = Memory(
        torch.randn(BATCH, SOURCE, SIZE),
        torch.randn(BATCH, SOURCE, SIZE),
        torch.ones(BATCH, SOURCE, dtype=torch.bool),
    )
    assert head((memory,)).predictions.isfinite().all()


def test_invalid_letters_are_named() -> None:
    with pytest.raises(ValueError, match="at least one linear layer"):
        LetterEncoder()
    (memory,) = first_and_last(counter(1).encoder(letters()))
    with pytest.raises(ValueError, match="one memory, got 2"):
        counter(1).head((memory, memory))
