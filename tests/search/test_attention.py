"""Attention gathered along paths, compared with a loop over every number."""

import math
from typing import NamedTuple

import pytest
import torch

from regard.models.contracts import AttentionBlock
from regard.search.attention import gather_attention

LAYERS, HEADS, SOURCE = 2, 3, 5


class Asked(NamedTuple):
    row: int
    parent: int


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_each_hypothesis_has_the_attention_of_its_own_path(dtype):
    """Sentences leave the batch, one hypothesis becomes a beam, and self-attention grows wider."""
    torch.manual_seed(2)
    shapes = [(4, 1), (4, 3), (3, 3), (3, 3), (1, 3)]  # rows and hypotheses that asked
    steps = []
    for number, (rows, hypotheses) in enumerate(shapes):
        cross = torch.rand(rows, LAYERS, HEADS, hypotheses, SOURCE).to(dtype)
        own = torch.rand(rows, LAYERS, HEADS, hypotheses, number + 1).to(dtype)
        steps.append((AttentionBlock("cross", cross), AttentionBlock("decoder", own, -own)))
    paths = [
        [Asked(1, 0), Asked(1, 2)],
        [Asked(3, 0), Asked(3, 1), Asked(2, 0), Asked(2, 2), Asked(0, 1)],
        [Asked(0, 0)],
        [Asked(2, 0), Asked(2, 2), Asked(1, 1), Asked(1, 0)],
    ]
    for path, (cross, own) in zip(paths, gather_attention(steps, paths), strict=True):
        length = len(path)
        assert (cross.kind, own.kind) == ("cross", "decoder")
        assert cross.scores is None
        assert cross.weights.shape == (LAYERS, HEADS, length, SOURCE)
        assert own.weights.shape == own.scores.shape == (LAYERS, HEADS, length, length)
        assert cross.weights.dtype == own.scores.dtype == torch.promote_types(dtype, torch.float32)
        for place, (row, parent) in enumerate(path):
            for layer in range(LAYERS):
                for head in range(HEADS):
                    queries = row, layer, head, parent
                    across, back = (block.weights[queries].tolist() for block in steps[place])
                    later = length - place - 1
                    assert cross.weights[layer, head, place].tolist() == across
                    assert own.weights[layer, head, place].tolist() == back + [0.0] * later
                    before = [-number for number in back] + [-math.inf] * later
                    assert own.scores[layer, head, place].tolist() == before


def test_without_attention_there_are_no_maps():
    assert gather_attention([(), ()], [[Asked(0, 0)], [Asked(1, 0), Asked(0, 0)]]) == [(), ()]
    assert gather_attention([], []) == []
