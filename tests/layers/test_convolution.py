"""Convolution compared with sums by hand, and the shapes of a stack."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers.convolution import ConvolutionBlock, ConvolutionStack

PICTURE = [
    [1, 2, 0, 1, 3, 1],
    [0, 1, 2, 3, 1, 0],
    [1, 3, 1, 0, 2, 2],
    [2, 0, 1, 2, 1, 1],
    [0, 1, 3, 1, 0, 2],
    [1, 2, 1, 0, 1, 3],
]
FILTER = [[1, 0, -1], [2, 0, -2], [1, 0, -1]]


def slid(picture, filter_, padding, stride):
    """Return the sum of products of every window, by plain loops."""
    size = len(picture)
    reach = range(len(filter_))

    def at(row, column):
        inside = 0 <= row < size and 0 <= column < size
        return picture[row][column] if inside else 0

    starts = range(-padding, size + padding - len(filter_) + 1, stride)
    return [
        [
            sum(filter_[i][j] * at(top + i, left + j) for i in reach for j in reach)
            for left in starts
        ]
        for top in starts
    ]


def test_convolution_equals_values_worked_out_by_hand():
    by_hand = slid(PICTURE, FILTER, padding=0, stride=1)
    assert by_hand[0][0] == 1 + 0 + 1 - 0 - 2 * 2 - 1
    assert by_hand[1][2] == 2 + 2 * 1 + 1 - 1 - 2 * 2 - 1
    block = ConvolutionBlock(3, 1)
    first = block.layers[0]
    with torch.no_grad():
        first.weight.copy_(torch.tensor(FILTER).float().expand(1, 3, 3, 3) / 3)
        result = first(torch.tensor(PICTURE).float().expand(1, 3, 6, 6))
    expected = slid(PICTURE, FILTER, padding=1, stride=2)
    torch.testing.assert_close(result[0, 0], torch.tensor(expected).float())
    plain = nn.functional.conv2d(
        torch.tensor(PICTURE).float()[None, None], torch.tensor(FILTER).float()[None, None]
    )
    assert plain[0, 0].tolist() == by_hand


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (
            [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]],
            [[3, -1, -3, -1], [-3, 1, 0, -3], [-3, -3, 0, 1], [3, -2, -2, -1]],
        ),
        (
            [[-1, 1, -1], [-1, 1, -1], [-1, 1, -1]],
            [[-1, -1, -1, -1], [-1, -1, -2, 1], [-1, -1, -2, 1], [-1, 0, -4, 3]],
        ),
    ],
)
def test_filters_of_a_diagonal_and_of_a_line(filter_, expected):
    """The numbers are those of the page on convolutions."""
    rows = ["100001", "010010", "001100", "100010", "010010", "001010"]
    image = [[int(cell) for cell in row] for row in rows]
    assert slid(image, filter_, padding=0, stride=1) == expected
    first = ConvolutionBlock(1, 1).layers[0]
    first.stride, first.padding = (1, 1), (0, 0)
    with torch.no_grad():
        first.weight.copy_(torch.tensor(filter_))
        assert first(torch.tensor(image).float()[None, None])[0, 0].tolist() == expected


def test_the_blocks_and_filters_of_a_stack():
    stack = ConvolutionStack([4, 6]).eval()
    images = torch.rand(2, 3, 8, 8)
    first, second = stack.compute_blocks(images)
    assert torch.equal(second, stack(images))
    assert torch.equal(first, stack.blocks[0](images))
    assert stack.filters is stack.blocks[0].layers[0].weight


def test_every_block_halves_the_image():
    stack = ConvolutionStack([4, 6, 8]).eval()
    assert stack.size == 8
    assert stack(torch.rand(2, 3, 64, 48)).shape == (2, 8, 8, 6)
