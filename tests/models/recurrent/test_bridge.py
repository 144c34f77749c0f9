"""Bridges from a summary to a first state, compared with their formulas, and chosen by the
settings."""

import math
from typing import get_args

import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import pad
from regard.models.contracts import Summary
from regard.models.recurrent.bridge import CopyBridge, LinearBridge, ZeroBridge
from regard.names import BridgeKind
from tests import configs

BATCH, LAYERS, SIZE = 3, 2, 5


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.double)


def linear_and_tanh(linear, states, num_layers, size):
    """s[l, n] = tanh(b + sum_{k, m} W[l * size + n, k, m] h[k, m]), number by number."""
    weight, bias = linear.weight.tolist(), linear.bias.tolist()
    result = []
    for sentence in states.flatten(1).tolist():
        sums = [
            shift + sum(w * h for w, h in zip(row, sentence, strict=True))
            for row, shift in zip(weight, bias, strict=True)
        ]
        first = [math.tanh(each) for each in sums]
        result.append([first[layer * size : (layer + 1) * size] for layer in range(num_layers)])
    return torch.tensor(result, dtype=torch.double)


@pytest.mark.parametrize("of_cells", [False, True], ids=["without cells", "with cells"])
def test_linear_bridge_is_a_linear_layer_and_tanh_over_all_layers(of_cells):
    torch.manual_seed(1)
    bridge = LinearBridge(LAYERS * SIZE, 3, 7, with_cell=True).double()
    hidden, cells = numbers(BATCH, LAYERS, SIZE), numbers(BATCH, LAYERS, SIZE)
    first = bridge(Summary(hidden, cells if of_cells else None))
    torch.testing.assert_close(first.hidden, linear_and_tanh(bridge.hidden, hidden, 3, 7))
    entered = cells if of_cells else hidden
    torch.testing.assert_close(first.cell, linear_and_tanh(bridge.cell, entered, 3, 7))


def test_linear_bridge_to_a_decoder_without_cells_has_no_cell_layer():
    bridge = LinearBridge(LAYERS * SIZE, 3, 7, with_cell=False)
    assert bridge(Summary(torch.randn(BATCH, LAYERS, SIZE))).cell is None


def test_copy_bridge_copies_the_encoders_last_state():
    hidden, cells = numbers(BATCH, LAYERS, SIZE), numbers(BATCH, LAYERS, SIZE)
    first = CopyBridge(with_cell=True)(Summary(hidden, cells))
    assert torch.equal(first.hidden, hidden)
    assert torch.equal(first.cell, cells)
    alone = CopyBridge(with_cell=True)(Summary(hidden))
    assert torch.equal(alone.hidden, hidden)
    assert torch.equal(alone.cell, torch.zeros_like(hidden))


def test_zero_bridge_gives_zeros():
    first = ZeroBridge(3, 7, with_cell=True)(Summary(numbers(BATCH, LAYERS, SIZE)))
    assert torch.equal(first.hidden, torch.zeros(BATCH, 3, 7, dtype=torch.double))
    assert torch.equal(first.cell, torch.zeros(BATCH, 3, 7, dtype=torch.double))


@pytest.mark.parametrize("bridge", [CopyBridge(with_cell=False), ZeroBridge(2, 5, with_cell=False)])
def test_decoders_without_cells_start_without_a_cell(bridge):
    summary = Summary(numbers(BATCH, LAYERS, SIZE), numbers(BATCH, LAYERS, SIZE))
    first = bridge(summary)
    assert first.hidden.shape == summary.hidden.shape
    assert first.cell is None


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("bridge", get_args(BridgeKind))
@torch.no_grad()
def test_bridges_are_built_by_name(bridge, cell):
    torch.manual_seed(2)
    config = configs.recurrent(
        cell=cell,
        size=6,
        encoder_size=6 if bridge == "copy" else 5,
        embedding=7,
        layers=LAYERS,
        bridge=bridge,
        attention=dict(size=11),
    )
    model = build_translation(config, 13, 17).double().eval()
    memories = model.encode(pad([[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]]))
    ended, state = memories[0].summary, model.decoder.start(memories)
    expected = {
        "copy": lambda _, states: states,
        "linear": lambda linear, states: linear_and_tanh(linear(), states, LAYERS, 6),
        "zero": lambda _, states: torch.zeros(3, LAYERS, 6, dtype=torch.double),
    }[bridge]
    of = model.decoder.parts.bridge
    assert ended.hidden.abs().min() > 0
    torch.testing.assert_close(state.hidden[:, 0], expected(lambda: of.hidden, ended.hidden))
    if cell == "gru":
        assert state.cell is None
        return
    assert not torch.allclose(ended.cell, ended.hidden)
    torch.testing.assert_close(state.cell[:, 0], expected(lambda: of.cell, ended.cell))
