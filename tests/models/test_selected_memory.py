"""Keys and values selected from the results of an encoder."""

from __future__ import annotations

import torch

from regard.models.contracts import Encoded
from regard.models.memory import (
    KeysAndValues,
    SelectedLayers,
    WithExtraVectors,
    WithNeighbours,
    WithPositions,
)

LAYERS = (torch.randn(2, 3, 4), torch.randn(2, 3, 2))
MASK = torch.tensor([[True, True, True], [True, True, False]])
ENCODED = Encoded(LAYERS, MASK)


def test_keys_and_values_may_come_from_different_layers():
    (memory,) = KeysAndValues(SelectedLayers(0), SelectedLayers(0, -1))(ENCODED)
    assert torch.equal(memory.keys, LAYERS[0])
    assert torch.equal(memory.values, torch.cat(LAYERS, dim=-1))
    assert torch.equal(memory.mask, MASK)


def test_neighbouring_states_are_concatenated_and_padding_is_zero():
    result = WithNeighbours(SelectedLayers(1), 1)(ENCODED)
    nothing = torch.zeros(2)
    for row, length in ((0, 3), (1, 2)):
        for place in range(length):
            states = [
                LAYERS[1][row, each] if 0 <= each < length else nothing
                for each in (place - 1, place, place + 1)
            ]
            assert torch.equal(result[row, place], torch.cat(states))


def test_key_positions_are_sinusoids():
    result = WithPositions(SelectedLayers(0))(ENCODED) - LAYERS[0]
    torch.testing.assert_close(result[0, 0], torch.tensor([0.0, 1.0, 0.0, 1.0]))
    torch.testing.assert_close(result[0], result[1])
    assert not torch.allclose(result[0, 1], result[0, 2])


def test_extra_vectors_are_a_separate_memory():
    vectors = torch.randn(5, 3)
    learned = WithExtraVectors(
        KeysAndValues(SelectedLayers(0), SelectedLayers(0)), vectors.clone(), learned=True
    )
    memory, beside = learned(ENCODED)
    assert torch.equal(memory.keys, LAYERS[0])
    assert torch.equal(beside.keys[1], vectors)
    assert torch.equal(beside.values, beside.keys)
    assert beside.mask.all()
    assert [name for name, _ in learned.named_parameters()] == ["vectors"]
    arguments = WithExtraVectors(learned, vectors, learned=False)
    assert len(arguments(ENCODED)) == 3
    assert "vectors" in arguments.state_dict()
    assert len(list(arguments.parameters())) == 1
